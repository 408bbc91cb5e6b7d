# Faults of the servers and of the way to them, through the public interface and the module.
function(consul_faults)
  dibs_faults(consul ${ARGN} LAYOUTS lock FROM ${PROJECT_SOURCE_DIR}/test/engine/members)
endfunction()

consul_faults(outage CASES restart down_too_long stands_still cut cut_off_briefly
              cut_off_too_long waiter_cut_off)
consul_faults(replies CASES take queue give late)
consul_faults(replies LONG CASES late_in_server)
consul_faults(operator CASES life_ended key_deleted)
consul_faults(operator LONG CASES many)
consul_faults(cluster LONG CASES leader_killed leader_stands_still other_killed
              other_stands_still leader_cut_off other_cut_off)
consul_faults(sessions CASES delayed not_delayed races permit_expires)
consul_faults(sessions LONG CASES agent_killed agent_struck_off)
consul_faults(access CASES tokens token_file tls tls_wrong_host)
