include(GoogleTest)
find_package(GTest REQUIRED)

option(MANTA_UNITY "Compile each layer, and each test program, as one translation unit" ON)
set(MANTA_UNITY_FILES 0 CACHE STRING "With MANTA_UNITY: how many files to compile together; 0 for all of a target")

# manta_unity(<target>): most of what a file costs is parsing Arrow, Asio, cereal or libtorch, so compiling all files of
# a target together takes a third of the time. Files of one target must then not define the same name in their
# anonymous namespaces. Whoever edits one file again and again is better off with the preset `quick`, which compiles a few
# files together and does not optimise.
function(manta_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MANTA_UNITY} UNITY_BUILD_BATCH_SIZE ${MANTA_UNITY_FILES})
  if(MANTA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage) # warns of all that is in an included .cc
  endif()
endfunction()

set(MANTA_TEST_TIMEOUT 60 CACHE STRING "Seconds that a single test may take")

# manta_layer(<name> [OPTIONAL] [WAITS] [DEPENDS <targets...>] [PRIVATE <targets...>] [TEST_MAIN <file>] [SLOW <filter>])
#
# The calling folder as one static library manta_<name>, alias manta::<name>, from all its *.cc, and its
# *_test.cc as one program <name>_test.
#   DEPENDS    what its headers include: lower layers, third-party targets
#   PRIVATE    what only its sources include
#   TEST_MAIN  replaces gtest's main in the test program
#   SLOW       gtest's filter of tests that may take five times as long as others: they start something large
#   WAITS      compiles it with -O1: its time goes into processes, files and lower layers, not into loops of its own
#   OPTIONAL   keeps the layer out of manta::manta; users link it by its own name
function(manta_layer name)
  cmake_parse_arguments(arg "OPTIONAL;WAITS" "TEST_MAIN;SLOW" "DEPENDS;PRIVATE" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "manta_layer(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  list(REMOVE_ITEM sources ${tests} ${CMAKE_CURRENT_SOURCE_DIR}/${arg_TEST_MAIN})

  add_library(manta_${name} STATIC ${sources})
  add_library(manta::${name} ALIAS manta_${name})
  set_target_properties(manta_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(manta_${name} PUBLIC cxx_std_20)
  target_include_directories(manta_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(manta_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE})
  manta_unity(manta_${name})
  if(arg_WAITS AND CMAKE_CXX_FLAGS_RELWITHDEBINFO MATCHES "-O2")
    target_compile_options(manta_${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endif()
  install(TARGETS manta_${name} EXPORT manta)
  if(NOT arg_OPTIONAL)
    set_property(GLOBAL APPEND PROPERTY MANTA_LAYERS manta_${name})
  endif()

  if(tests)
    manta_test(${name}_test SOURCES ${tests} MAIN ${arg_TEST_MAIN} LINK manta_${name} ${arg_PRIVATE}
               SLOW ${arg_SLOW})
  endif()
endfunction()

# manta_compile_fast(<target>): for tests and the programs that they start, whose own speed does not matter.
function(manta_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()

# manta_test(<target> SOURCES <files...> [MAIN <file>] [LINK <targets...>] [SLOW <filter>]) adds a program of gtest tests to ctest.
#
# Every TEST becomes a ctest entry and so a process of its own: they run in parallel, a crash or a timeout names its test,
# and none sees another's leftovers. Discovery waits until ctest runs, so that a build does not start the programs.
function(manta_test target)
  cmake_parse_arguments(arg "" "MAIN;SLOW" "SOURCES;LINK" ${ARGN})
  add_executable(${target} ${arg_SOURCES} ${arg_MAIN})
  target_link_libraries(${target} PRIVATE ${arg_LINK} GTest::gmock)
  manta_unity(${target})
  manta_compile_fast(${target})
  if(NOT arg_MAIN)
    target_link_libraries(${target} PRIVATE GTest::gmock_main)
  endif()
  set(quick "*")
  if(arg_SLOW)
    set(quick "*-${arg_SLOW}")
    math(EXPR slow_timeout "5 * ${MANTA_TEST_TIMEOUT}")
    gtest_discover_tests(${target} TEST_PREFIX ${target}. TEST_FILTER ${arg_SLOW} DISCOVERY_MODE PRE_TEST
                         DISCOVERY_TIMEOUT 60 TEST_LIST ${target}_slow PROPERTIES TIMEOUT ${slow_timeout} COST 1000)
  endif()
  gtest_discover_tests(${target} TEST_PREFIX ${target}. TEST_FILTER ${quick} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${MANTA_TEST_TIMEOUT})
endfunction()

# manta_counterparts(<name> <variable>): the Python of the venv of tests/<name>.txt, which scripts/setup.sh makes under
# the same name.
function(manta_counterparts name variable)
  file(SHA256 ${PROJECT_SOURCE_DIR}/tests/${name}.txt digest)
  string(SUBSTRING ${digest} 0 12 digest)
  set(${variable} ${MANTA_DEPS}/${name}-${digest}/bin/python PARENT_SCOPE)
endfunction()
