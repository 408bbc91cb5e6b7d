# What names of nodes mean: the pure parts of the engine, without a server.
set(engine ${PROJECT_SOURCE_DIR}/src/engine/zookeeper)
add_executable(test_zookeeper_contend contend.c ${engine}/contend.c ${engine}/path.c)
target_include_directories(test_zookeeper_contend PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(test_zookeeper_contend SYSTEM PRIVATE ${ZOOKEEPER_INCLUDE})
target_link_libraries(test_zookeeper_contend PRIVATE dibs_static dibs_flags harness)
foreach(case orders readers same_number wraps strangers own names names_differ no_names paths
        prefixes)
  add_test(NAME zookeeper/contend/${case} COMMAND test_zookeeper_contend ${case})
  set_tests_properties(zookeeper/contend/${case} PROPERTIES TIMEOUT 60)
endforeach()
