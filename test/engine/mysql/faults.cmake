# Faults of the server and of the way to it, through the public interface and the module.
function(mysql_faults)
  dibs_faults(mysql ${ARGN} DATABASE
    FROM ${PROJECT_SOURCE_DIR}/test/engine/members ${PROJECT_SOURCE_DIR}/test/engine/sql)
endfunction()

mysql_faults(outage LAYOUTS lease
  CASES restart down_too_long stands_still cut cut_off_briefly cut_off_too_long
        waiter_cut_off)
mysql_faults(replies LAYOUTS lease CASES take give late)
mysql_faults(operator LONG LAYOUTS lease CASES many)
mysql_faults(connections LAYOUTS lease
  CASES killed listener_killed killed_often storm idle crowded)
mysql_faults(isolation LAYOUTS lease CASES strict usual)
mysql_faults(access LAYOUTS lease
  CASES wrong password_file rights read_only tls tls_wrong_host)
mysql_faults(clock LAYOUTS lease CASES forward back back_and_gone)
mysql_faults(rows LAYOUTS lease CASES swept foreign deleted deleted_waiting dropped)
mysql_faults(rows LAYOUTS unique CASES swept)
mysql_faults(bound LAYOUTS get_lock row CASES killed killed_waiting restarted cut silent idle)
mysql_faults(row LAYOUTS row
  CASES apart names waits_in_server gives_up cancelled nothing_open deleted own_table
        without_row without_index other_engine narrow)
