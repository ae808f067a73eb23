# Every third-party target that Manta links. Also part of the installed package, so that a project which uses Manta gets
# the same ones: keep it free of anything that only holds inside this repository.

# Where scripts/setup.sh put the wheels: the same rule as there.
if(NOT MANTA_DEPS)
  if(DEFINED ENV{MANTA_DEPS})
    set(MANTA_DEPS $ENV{MANTA_DEPS})
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(MANTA_DEPS $ENV{XDG_CACHE_HOME}/manta/deps)
  else()
    set(MANTA_DEPS $ENV{HOME}/.cache/manta/deps)
  endif()
endif()

set(MANTA_WHEELS_FILE ${CMAKE_CURRENT_LIST_DIR}/wheels.txt)
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED) # headers only
find_package(nlohmann_json REQUIRED)
find_package(cereal REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

# manta_wheel(<variable> <name>) sets <variable> to the folder of a wheel listed in wheels.txt.
function(manta_wheel variable name)
  file(STRINGS ${MANTA_WHEELS_FILE} line REGEX "^${name} ")
  string(REPLACE " " "-" folder "${line}")
  if(NOT folder OR NOT IS_DIRECTORY ${MANTA_DEPS}/${folder})
    message(FATAL_ERROR "${MANTA_DEPS}/${folder} does not exist: run scripts/setup.sh, or set MANTA_DEPS to the folder "
                        "that holds the wheel of ${name}")
  endif()
  set(${variable} ${MANTA_DEPS}/${folder} PARENT_SCOPE)
endfunction()

# manta_wheel_library(<target> <file> [INCLUDE <folder>] [LINK <targets...>]) imports a shared library by its file: wheels
# carry no unversioned symlinks, so -l would not find it. What links it has its folder in the RPATH, also once installed.
function(manta_wheel_library target file)
  cmake_parse_arguments(arg "" "INCLUDE" "LINK" ${ARGN})
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "${file} does not exist: delete its wheel's folder in ${MANTA_DEPS} and run scripts/setup.sh")
  endif()
  add_library(${target} SHARED IMPORTED)
  cmake_path(GET file PARENT_PATH folder)
  target_link_options(${target} INTERFACE LINKER:-rpath,${folder})
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${file})
  if(arg_INCLUDE)
    target_include_directories(${target} SYSTEM INTERFACE ${arg_INCLUDE})
  endif()
  target_link_libraries(${target} INTERFACE ${arg_LINK})
endfunction()

if(NOT TARGET manta::arrow)
  manta_wheel(pyarrow pyarrow)
  set(pyarrow ${pyarrow}/pyarrow)
  manta_wheel_library(manta::arrow ${pyarrow}/libarrow.so.2600 INCLUDE ${pyarrow}/include)
  manta_wheel_library(manta::arrow_compute ${pyarrow}/libarrow_compute.so.2600 LINK manta::arrow)
endif()
