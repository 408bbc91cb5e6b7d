# PostgreSQL's own locks.
include(${PROJECT_SOURCE_DIR}/test/engine/sql/faults.cmake)
sql_faults(postgres advisory LAYOUTS advisory
  CASES numbers collision table_full waits_in_server gives_up cancelled lost_at_once
        cut_off pooler)
