# What can be done to a database, and what only MariaDB knows of.
include(${PROJECT_SOURCE_DIR}/test/engine/sql/faults.cmake)
sql_common_faults(mysql get_lock)
sql_faults(mysql row LAYOUTS row CASES other_engine narrow)
