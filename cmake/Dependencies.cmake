# Every third-party target that Manta links. Also part of the installed package, so that a project which uses Manta gets
# the same ones: keep it free of anything that only holds inside this repository.

# Where scripts/setup.sh put the wheels: the same rule as there.
if(DEFINED ENV{MANTA_DEPS})
  set(manta_default_deps $ENV{MANTA_DEPS})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(manta_default_deps $ENV{XDG_CACHE_HOME}/manta/deps)
else()
  set(manta_default_deps $ENV{HOME}/.cache/manta/deps)
endif()
if(NOT MANTA_DEPS)
  set(MANTA_DEPS ${manta_default_deps})
endif()

set(MANTA_WHEELS_FILE ${CMAKE_CURRENT_LIST_DIR}/wheels.txt)
set(MANTA_NPM_FILE ${CMAKE_CURRENT_LIST_DIR}/npm.txt)
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED) # headers only
find_package(nlohmann_json REQUIRED)
find_package(cereal REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(SQLite3 REQUIRED)

# manta_wheel(<variable> <name>) sets <variable> to the folder of a package listed in wheels.txt or npm.txt.
function(manta_wheel variable name)
  foreach(list ${MANTA_WHEELS_FILE} ${MANTA_NPM_FILE})
    file(STRINGS ${list} line REGEX "^${name} ")
    if(line)
      string(REGEX REPLACE "^([^ ]+) ([^ ]+).*" "\\1-\\2" folder "${line}")
    endif()
  endforeach()
  foreach(deps ${MANTA_DEPS} ${manta_default_deps}) # an installation has some of them, and may use set-up's for others
    if(folder AND IS_DIRECTORY ${deps}/${folder})
      set(${variable} ${deps}/${folder} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${MANTA_DEPS}/${folder} does not exist: run scripts/setup.sh, or set MANTA_DEPS to the folder "
                      "that holds the package ${name}")
endfunction()

# manta_wheel_library(<target> <file> [INCLUDE <folders...>] [LINK <targets...>]) imports a shared library by its file: wheels
# carry no unversioned symlinks, so -l would not find it. What links it has its folder in the RPATH, also once installed.
function(manta_wheel_library target file)
  cmake_parse_arguments(arg "" "" "INCLUDE;LINK" ${ARGN})
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
  manta_wheel_library(manta::parquet ${pyarrow}/libparquet.so.2600 LINK manta::arrow)

endif()

# DuckDB is never linked, since it exports what Arrow and libtorch define, too: the first wide operation loads it by its
# name, from the RPATH.
if(NOT TARGET manta::duckdb)
  manta_wheel(duckdb duckdb)
  add_library(manta::duckdb INTERFACE IMPORTED)
  target_link_options(manta::duckdb INTERFACE LINKER:-rpath,${duckdb})
endif()

# What torch/torch.h needs; the headers of c10d are in the same wheel. Not part of an installation, which looks for it
# where set-up puts it.
if(NOT TARGET manta::libtorch AND NOT MANTA_WITHOUT_TORCH)
  manta_wheel(torch torch)
  set(torch ${torch}/torch)
  manta_wheel_library(manta::c10 ${torch}/lib/libc10.so
                      INCLUDE ${torch}/include ${torch}/include/torch/csrc/api/include)
  manta_wheel_library(manta::torch_cpu ${torch}/lib/libtorch_cpu.so LINK manta::c10)
  manta_wheel_library(manta::libtorch ${torch}/lib/libtorch.so LINK manta::torch_cpu)
endif()

# XGBoost's C library. Its wheel has no headers: the layer declares the functions that it calls. OpenMP comes with it.
if(NOT TARGET manta::libxgboost AND NOT MANTA_WITHOUT_XGBOOST)
  manta_wheel(xgboost xgboost-cpu)
  manta_wheel_library(manta::libxgboost ${xgboost}/xgboost/lib/libxgboost.so)
endif()
