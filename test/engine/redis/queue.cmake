# The layout queue: as users see it, and slot by slot (as the tests of topo.cmake).
redis_faults(queue LAYOUTS queue
  CASES written_down few_commands not_polled cut_off stale_message broken_is_told guarded
        mismatch many_locks)

add_executable(test_redis_queue_turns queue_turns.c $<TARGET_OBJECTS:redis_drive>
               $<TARGET_OBJECTS:dibs_redis> $<TARGET_OBJECTS:dibs_resp>)
target_include_directories(test_redis_queue_turns PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(test_redis_queue_turns PRIVATE dibs_static dibs_flags servers
                      dibs_resp)
foreach(case order repeated previous dead_waiters all_dead each_key_ends clock_ahead
        clock_at_its_end damaged ten_thousand)
  add_test(NAME redis/queue_turns/${case} COMMAND test_redis_queue_turns ${case})
  set_tests_properties(redis/queue_turns/${case} PROPERTIES TIMEOUT 180
                       SKIP_RETURN_CODE 77)
endforeach()
