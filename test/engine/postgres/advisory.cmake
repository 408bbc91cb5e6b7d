# PostgreSQL's own locks.
dibs_faults(postgres advisory LAYOUTS advisory DATABASE
  CASES numbers waits_in_server gives_up cancelled lost_at_once cut_off pooler
  FROM ${PROJECT_SOURCE_DIR}/test/engine/members ${PROJECT_SOURCE_DIR}/test/engine/sql)
