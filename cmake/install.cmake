# What `cmake --install` puts where: the library and what its users build with. The
# engines' modules and the command are installed by the folders that build them.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dibs)

install(FILES ${PROJECT_SOURCE_DIR}/include/dibs.h TYPE INCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/include/dibs/engine.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dibs)
install(TARGETS dibs_shared dibs_static EXPORT dibs-targets)

# find_package(dibs) gives dibs::dibs, the shared library, and dibs::static.
install(EXPORT dibs-targets NAMESPACE dibs:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/dibs-config.cmake.in
  ${PROJECT_BINARY_DIR}/dibs-config.cmake INSTALL_DESTINATION ${package_dir})
# until 1.0 a new minor version may break its users
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dibs-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dibs-config.cmake
        ${PROJECT_BINARY_DIR}/dibs-config-version.cmake DESTINATION ${package_dir})

configure_file(${PROJECT_SOURCE_DIR}/cmake/dibs.pc.in ${PROJECT_BINARY_DIR}/dibs.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dibs.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
