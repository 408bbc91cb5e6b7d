# Faults of the server, through the public interface and the module. A case is run on each
# of the layouts that is named behind it.
add_library(redis_faults OBJECT faults.c)
target_link_libraries(redis_faults PRIVATE servers dibs_shared)

function(redis_faults topic)
  cmake_parse_arguments(faults "" "" "CASES;LAYOUTS" ${ARGN})
  if(NOT TARGET test_redis_${topic})
    add_executable(test_redis_${topic} ${topic}.c $<TARGET_OBJECTS:redis_faults>)
    target_link_libraries(test_redis_${topic} PRIVATE servers dibs_shared)
    add_dependencies(test_redis_${topic} dibs_engine_redis)
  endif()
  foreach(case ${faults_CASES})
    foreach(layout ${faults_LAYOUTS})
      set(test redis/${topic}/${case}@${layout})
      add_test(NAME ${test} COMMAND test_redis_${topic} ${case} ${layout})
      set_tests_properties(${test} PROPERTIES TIMEOUT 150 SKIP_RETURN_CODE 77
        ENVIRONMENT "DIBS_ENGINE_DIR=${PROJECT_BINARY_DIR}/engines")
    endforeach()
  endforeach()
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
