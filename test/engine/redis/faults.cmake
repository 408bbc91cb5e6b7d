# Faults of the server, through the public interface and the module. A case is run on each
# of the layouts that is named behind it.
function(redis_faults)
  dibs_faults(redis ${ARGN})
endfunction()

redis_faults(restart LAYOUTS queue redisson plain getset
  CASES forgets remembers forgets_waiters stands_still forgets_scripts loads)
redis_faults(refuse LAYOUTS queue redisson plain getset
  CASES readonly out_of_memory busy wrong_type)
redis_faults(refuse LAYOUTS queue CASES other_layout)
redis_faults(access LAYOUTS queue plain CASES passwords permissions)
redis_faults(access LAYOUTS queue
  CASES no_password password_changed password_in_file tls_wrong_authority tls_wrong_host
        tls_expired tls_client_certificate tls_to_plain_port swallowed
        swallowed_and_cancelled)
