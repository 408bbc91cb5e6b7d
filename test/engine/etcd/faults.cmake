# Faults of the servers and of the way to them, through the public interface and the module.
# A case is run with each of the layouts that is named behind it.
function(etcd_faults)
  dibs_faults(etcd ${ARGN} FROM ${PROJECT_SOURCE_DIR}/test/engine/members)
endfunction()

etcd_faults(outage LAYOUTS concurrency single
  CASES restart down_too_long stands_still cut cut_off_briefly cut_off_too_long)
etcd_faults(outage LAYOUTS concurrency CASES waiter_cut_off)
etcd_faults(replies LAYOUTS concurrency single CASES take queue give late)
etcd_faults(replies LONG LAYOUTS concurrency CASES late_in_server)
etcd_faults(operator LAYOUTS concurrency single CASES life_ended key_deleted)
etcd_faults(operator LONG LAYOUTS concurrency CASES many)
etcd_faults(cluster LONG LAYOUTS concurrency
  CASES leader_killed leader_stands_still other_killed other_stands_still leader_cut_off
        other_cut_off)
etcd_faults(watching LAYOUTS concurrency single CASES compacted missed again)
etcd_faults(watching LAYOUTS concurrency CASES waiter_revoked waiter_deleted least_lease)
etcd_faults(lingering LAYOUTS concurrency CASES found_again not_many gone_soon cut)
etcd_faults(access LAYOUTS concurrency
  CASES version users token_forgotten token_expires users_changed tls tls_wrong_host tls_waits)
