# What can be done to a database, and what only PostgreSQL knows of.
include(${PROJECT_SOURCE_DIR}/test/engine/sql/faults.cmake)
sql_common_faults(postgres advisory)
sql_faults(postgres row LAYOUTS row CASES deadlock)
sql_faults(postgres files LAYOUTS lease CASES service passfile prefer prefer_plain)
sql_faults(postgres standby LAYOUTS lease CASES promoted forked unheard unheard_and_lost)
