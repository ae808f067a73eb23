# Makes `find_package(manta)` work from an installation. The third-party targets come from the same Dependencies.cmake.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/manta)
configure_package_config_file(cmake/mantaConfig.cmake.in ${PROJECT_BINARY_DIR}/mantaConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mantaConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(DIRECTORY src/manta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.h PATTERN *_internal.h EXCLUDE PATTERN expected EXCLUDE)
# Arrow and DuckDB come along: a program must not depend on the cache folder of whoever installed Manta. torch, which only
# manta::torch needs, does not, for its size: who uses it has it in MANTA_DEPS.
manta_wheel(arrow_wheel pyarrow)
cmake_path(GET arrow_wheel FILENAME arrow_folder)
set(deps_dir ${CMAKE_INSTALL_LIBDIR}/manta/deps/${arrow_folder}/pyarrow)
install(DIRECTORY ${arrow_wheel}/pyarrow/include DESTINATION ${deps_dir})
install(FILES $<TARGET_FILE:manta::arrow> $<TARGET_FILE:manta::arrow_compute> $<TARGET_FILE:manta::parquet>
              ${arrow_wheel}/pyarrow/libarrow_s3.so.2600 # loaded when an address of S3 is first used
        DESTINATION ${deps_dir})
manta_wheel(duckdb_package duckdb)
cmake_path(GET duckdb_package FILENAME duckdb_folder)
install(FILES ${duckdb_package}/libduckdb.so ${duckdb_package}/LICENSE
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/manta/deps/${duckdb_folder})
install(EXPORT manta NAMESPACE manta:: FILE mantaTargets.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/mantaConfig.cmake ${PROJECT_BINARY_DIR}/mantaConfigVersion.cmake
              cmake/Dependencies.cmake cmake/wheels.txt cmake/npm.txt DESTINATION ${package_dir})
