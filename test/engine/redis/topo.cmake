# Topologies, calls and the gate: below the layouts, through redis.h.
add_library(redis_drive OBJECT drive.c)
target_include_directories(redis_drive PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(redis_drive PRIVATE dibs_flags servers dibs_resp)

function(redis_tests topic)
  add_executable(test_redis_${topic} ${topic}.c $<TARGET_OBJECTS:redis_drive>
                 $<TARGET_OBJECTS:dibs_redis> $<TARGET_OBJECTS:dibs_resp>)
  target_include_directories(test_redis_${topic} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(test_redis_${topic} PRIVATE dibs_static dibs_flags servers
                        dibs_resp)
  foreach(case ${ARGN})
    add_test(NAME redis/${topic}/${case} COMMAND test_redis_${topic} ${case})
    set_tests_properties(redis/${topic}/${case} PROPERTIES TIMEOUT 180
                         SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

redis_tests(call done unknown_script many in_order refused killed_script repeated waited
  waited_for_too_few)
redis_tests(cluster every_slot moved asked moved_to_and_fro announced scripts_flushed promoted no_owner
  not_a_cluster published shards)
redis_tests(sentinel found not_found failover killed stands_still without_sentinels heard)
redis_tests(gate off guard restarted mismatch too_long clock_back misconfigured
  cluster)

# Stores that forget: with locks, through the public interface.
redis_faults(forget LAYOUTS queue redisson plain getset
  CASES flushed_unguarded flushed restarted renewed_while_closed)
redis_faults(forget LAYOUTS queue plain CASES failover_unguarded failover)
redis_faults(forget LAYOUTS queue redisson plain getset CASES renewed_elsewhere)
redis_faults(forget LAYOUTS queue CASES lease_too_long)
set_tests_properties(redis/forget/failover_unguarded@queue redis/forget/failover@queue
  redis/forget/failover_unguarded@plain redis/forget/failover@plain
  PROPERTIES LABELS long TIMEOUT 200)
