# Faults of a database and of the way to it, through the public interface and the module:
# for the engines that have a server.
#
# sql_faults ENGINE TOPIC ...: cases of one topic, as dibs_faults takes them
function(sql_faults engine)
  dibs_faults(${engine} ${ARGN} DATABASE
    FROM ${PROJECT_SOURCE_DIR}/test/engine/members ${PROJECT_SOURCE_DIR}/test/engine/sql)
endfunction()

# sql_common_faults ENGINE LAYOUT: what is the same for all of them; LAYOUT is that of the
# server's own locks
function(sql_common_faults engine native)
  sql_faults(${engine} outage LAYOUTS lease
    CASES restart down_too_long stands_still cut cut_off_briefly cut_off_too_long
          waiter_cut_off)
  sql_faults(${engine} replies LAYOUTS lease CASES take give own_time late)
  sql_faults(${engine} operator LONG LAYOUTS lease CASES many)
  sql_faults(${engine} connections LAYOUTS lease
    CASES killed listener_killed killed_often storm idle crowded)
  sql_faults(${engine} isolation LAYOUTS lease CASES strict usual)
  sql_faults(${engine} access LAYOUTS lease
    CASES wrong password_file rights read_only tls tls_stripped tls_wrong_host)
  sql_faults(${engine} clock LAYOUTS lease CASES forward back back_and_gone)
  sql_faults(${engine} rows LAYOUTS lease
    CASES swept foreign deleted deleted_waiting dropped)
  sql_faults(${engine} rows LAYOUTS unique CASES swept)
  sql_faults(${engine} bound LAYOUTS ${native} row
    CASES killed killed_waiting restarted cut silent idle)
  sql_faults(${engine} row LAYOUTS row
    CASES apart names waits_in_server gives_up cancelled nothing_open deleted own_table
          without_row without_index)
endfunction()
