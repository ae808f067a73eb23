# How our own code is compiled and linked.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # so that a user may put our static libraries into a shared one
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)   # read by tests/compile_fail and by editors
if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ON) # off with: cmake --compile-no-warning-as-error
endif()
add_compile_options(-Wall -Wextra)
# g++ looks for garbage whenever its heap has grown by a third, which takes a fifth of the time of units as large as ours.
# From 1 GB on it does so when the heap has doubled.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(--param=ggc-min-expand=100 --param=ggc-min-heapsize=1048576)
endif()
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  add_compile_options(-Wno-tsan) # Boost.Asio's inline functions contain fences, which TSan ignores
endif()

# A function travels between processes as (build id, offset): without a build id nothing can be sent, and a linker that
# folds equal functions into one address (--icf) would send one function for another.
add_link_options(LINKER:--build-id=sha1)
find_program(MANTA_MOLD mold)
if(MANTA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_program(MANTA_CCACHE ccache)
if(MANTA_CCACHE)
  # Another clone of this repository finds what this one has compiled, at the price that debuggers see the first one's
  # folder.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${MANTA_CCACHE})
endif()

# Messages and logs show src/manta/..., not where somebody cloned the repository. Both spellings: ccache makes paths
# relative to the build folder.
file(RELATIVE_PATH root ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
add_compile_options(-fmacro-prefix-map=${root}= -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
