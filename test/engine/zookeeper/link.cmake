# What lies below the layouts, through link.h.
add_library(zookeeper_drive OBJECT link_drive.c)
target_include_directories(zookeeper_drive PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(zookeeper_drive PRIVATE dibs_flags servers dibs_zookeeper)

function(zookeeper_link_tests topic)
  add_executable(test_zookeeper_${topic} ${topic}.c $<TARGET_OBJECTS:zookeeper_drive>
                 $<TARGET_OBJECTS:dibs_zookeeper> $<TARGET_OBJECTS:dibs_kit>)
  target_include_directories(test_zookeeper_${topic} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(test_zookeeper_${topic} PRIVATE dibs_static dibs_flags servers
                        dibs_zookeeper ${ZOOKEEPER_LIBRARY})
  foreach(case ${ARGN})
    add_test(NAME zookeeper/${topic}/${case} COMMAND test_zookeeper_${topic} ${case})
    set_tests_properties(zookeeper/${topic}/${case} PROPERTIES TIMEOUT 180
                         SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

zookeeper_link_tests(link answers threads threads_cut stands_still down reply_lost watches
  watch_cut expires safe_until many many_watches idle forked closed)
set_tests_properties(zookeeper/link/many zookeeper/link/many_watches PROPERTIES LABELS long)
zookeeper_link_tests(link_open urls_refused nobody silence one_of_many lengths denied
  no_descriptors no_memory left_alone evidence evidence_moves)
