# What can be wrong with a file, or go wrong with it, through the public interface and the
# module.
function(sqlite_faults topic)
  dibs_faults(sqlite ${topic} ${ARGN} LAYOUTS lease)
  target_link_libraries(test_sqlite_${topic} PRIVATE SQLite::SQLite3)
endfunction()

sqlite_faults(places CASES relative no_folder no_name no_host denied read_only folder
  no_database foreign other_tables words link)
sqlite_faults(busy CASES waits gives_up deleted renews_many)
sqlite_faults(clock CASES reboot wall_clock_behind namespace)
sqlite_faults(forks CASES own_client while_busy)
sqlite_faults(crowd LONG CASES killed)
