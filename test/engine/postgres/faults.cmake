# Faults of the server and of the way to it, through the public interface and the module.
function(postgres_faults)
  dibs_faults(postgres ${ARGN} DATABASE
    FROM ${PROJECT_SOURCE_DIR}/test/engine/members ${PROJECT_SOURCE_DIR}/test/engine/sql)
endfunction()

postgres_faults(outage LAYOUTS lease
  CASES restart down_too_long stands_still cut cut_off_briefly cut_off_too_long
        waiter_cut_off)
postgres_faults(replies LAYOUTS lease CASES take give late)
postgres_faults(operator LONG LAYOUTS lease CASES many)
postgres_faults(connections LAYOUTS lease
  CASES killed listener_killed killed_often storm idle crowded)
postgres_faults(isolation LAYOUTS lease CASES strict usual)
postgres_faults(access LAYOUTS lease
  CASES wrong password_file rights read_only tls tls_wrong_host)
postgres_faults(clock LAYOUTS lease CASES forward back back_and_gone)
postgres_faults(rows LAYOUTS lease CASES swept foreign deleted deleted_waiting dropped)
postgres_faults(rows LAYOUTS unique CASES swept)
postgres_faults(bound LAYOUTS advisory row CASES killed killed_waiting restarted cut silent idle)
postgres_faults(row LAYOUTS row
  CASES apart names waits_in_server gives_up cancelled nothing_open deleted own_table
        without_row without_index deadlock)
postgres_faults(files LAYOUTS lease CASES service passfile prefer prefer_plain)
