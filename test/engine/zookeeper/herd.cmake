# How many are woken up when a lock is given back: slot by slot, as link.c drives the engine.
add_executable(test_zookeeper_herd herd.c link_drive.c $<TARGET_OBJECTS:dibs_zookeeper>
               $<TARGET_OBJECTS:dibs_kit>)
target_include_directories(test_zookeeper_herd PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(test_zookeeper_herd SYSTEM PRIVATE ${ZOOKEEPER_INCLUDE})
target_link_libraries(test_zookeeper_herd PRIVATE dibs_static dibs_flags servers
                      ${ZOOKEEPER_LIBRARY} Threads::Threads)
foreach(case curator readers node)
  add_test(NAME zookeeper/herd/${case} COMMAND test_zookeeper_herd ${case})
  set_tests_properties(zookeeper/herd/${case} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
