# Makes `find_package(manta)` work from an installation. The third-party targets come from the same Dependencies.cmake.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/manta)
configure_package_config_file(cmake/mantaConfig.cmake.in ${PROJECT_BINARY_DIR}/mantaConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mantaConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(DIRECTORY src/manta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.h PATTERN *_internal.h EXCLUDE)
install(EXPORT manta NAMESPACE manta:: FILE mantaTargets.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/mantaConfig.cmake ${PROJECT_BINARY_DIR}/mantaConfigVersion.cmake
              cmake/Dependencies.cmake cmake/wheels.txt DESTINATION ${package_dir})
