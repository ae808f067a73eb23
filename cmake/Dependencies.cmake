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
set(MANTA_TORCH "" CACHE PATH "Folder of another torch package, with lib/ and include/: one that was built for CUDA")
if(NOT TARGET manta::libtorch AND NOT MANTA_WITHOUT_TORCH)
  if(MANTA_TORCH)
    set(torch ${MANTA_TORCH})
  else()
    manta_wheel(torch torch)
    set(torch ${torch}/torch)
  endif()
  manta_wheel_library(manta::c10 ${torch}/lib/libc10.so
                      INCLUDE ${torch}/include ${torch}/include/torch/csrc/api/include)
  manta_wheel_library(manta::torch_cpu ${torch}/lib/libtorch_cpu.so LINK manta::c10)
  manta_wheel_library(manta::libtorch ${torch}/lib/libtorch.so LINK manta::torch_cpu)
  # One for CUDA brings its own libraries, and NCCL's and CUDA's headers in packages beside it, or a toolkit has them.
  if(EXISTS ${torch}/lib/libtorch_cuda.so)
    manta_wheel_library(manta::c10_cuda ${torch}/lib/libc10_cuda.so LINK manta::c10)
    manta_wheel_library(manta::torch_cuda ${torch}/lib/libtorch_cuda.so LINK manta::torch_cpu manta::c10_cuda)
    # Nothing of ours calls it but through NCCL's group: without this the linker would leave it out, and CUDA with it.
    target_link_options(manta::torch_cuda INTERFACE LINKER:--no-as-needed)
    target_link_libraries(manta::libtorch INTERFACE manta::torch_cuda)
    file(GLOB manta_cuda_includes ${torch}/../nvidia/*/include)
    set(manta_nccl ON)
    foreach(header nccl.h cuda_runtime_api.h cusparse.h cublas_v2.h cusolverDn.h nv/target)
      find_path(MANTA_HAS_${header} ${header} HINTS ${manta_cuda_includes} $ENV{CUDA_HOME}/include
                PATHS /usr/local/cuda/include NO_CACHE)
      if(MANTA_HAS_${header})
        target_include_directories(manta::torch_cuda SYSTEM INTERFACE ${MANTA_HAS_${header}})
      else()
        message(WARNING "${torch} is built for CUDA, but ${header} is not found (set CUDA_HOME): Manta is built without NCCL")
        set(manta_nccl OFF)
      endif()
    endforeach()
    if(manta_nccl)
      target_compile_definitions(manta::torch_cuda INTERFACE USE_C10D_NCCL)
    endif()
  endif()
endif()

# XGBoost's C library. Its wheel has no headers: the layer declares the functions that it calls. OpenMP comes with it.
if(NOT TARGET manta::libxgboost AND NOT MANTA_WITHOUT_XGBOOST)
  manta_wheel(xgboost xgboost-cpu)
  manta_wheel_library(manta::libxgboost ${xgboost}/xgboost/lib/libxgboost.so)
endif()
