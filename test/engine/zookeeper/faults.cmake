# Faults of the servers and of the way to them, through the public interface and the module.
# A case is run with each of the layouts that is named behind it.
function(zookeeper_faults)
  dibs_faults(zookeeper ${ARGN})
endfunction()

zookeeper_faults(outage LAYOUTS curator node
  CASES restart down_too_long stands_still expires cut reply_of_take reply_of_give
        reply_of_queue reaped)
zookeeper_faults(access LAYOUTS curator node CASES digest open_to_all missing_root)
zookeeper_faults(access LAYOUTS curator CASES leases_apart leases_together too_short read_only)
zookeeper_faults(ensemble LONG LAYOUTS curator
  CASES leader_killed leader_stands_still follower_killed follower_stands_still
        follower_cut_off leader_cut_off only_pings)
