# Faults of the servers and of the way to them, through the public interface and the module.
# A case is run with each of the layouts that is named behind it.
add_library(zookeeper_faults OBJECT faults.c)
target_link_libraries(zookeeper_faults PRIVATE servers dibs_shared)

function(zookeeper_faults topic)
  cmake_parse_arguments(faults "LONG" "" "CASES;LAYOUTS" ${ARGN})
  if(NOT TARGET test_zookeeper_${topic})
    add_executable(test_zookeeper_${topic} ${topic}.c $<TARGET_OBJECTS:zookeeper_faults>)
    target_link_libraries(test_zookeeper_${topic} PRIVATE servers dibs_shared)
    add_dependencies(test_zookeeper_${topic} dibs_engine_zookeeper)
  endif()
  foreach(case ${faults_CASES})
    foreach(layout ${faults_LAYOUTS})
      set(test zookeeper/${topic}/${case}@${layout})
      add_test(NAME ${test} COMMAND test_zookeeper_${topic} ${case} ${layout})
      set_tests_properties(${test} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77
        ENVIRONMENT "DIBS_ENGINE_DIR=${PROJECT_BINARY_DIR}/engines")
      if(faults_LONG)
        set_tests_properties(${test} PROPERTIES LABELS long)
      endif()
    endforeach()
  endforeach()
endfunction()

zookeeper_faults(outage LAYOUTS curator node
  CASES restart down_too_long stands_still expires cut reply_of_take reply_of_give
        reply_of_queue reaped)
zookeeper_faults(access LAYOUTS curator node CASES digest open_to_all missing_root)
zookeeper_faults(access LAYOUTS curator CASES leases_apart leases_together too_short read_only)
zookeeper_faults(ensemble LONG LAYOUTS curator
  CASES leader_killed leader_stands_still follower_killed follower_stands_still
        follower_cut_off leader_cut_off only_pings)
