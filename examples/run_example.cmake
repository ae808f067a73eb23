# Runs a program of the examples. It must end with 0 and print what matches: ctest's own PASS_REGULAR_EXPRESSION would
# not look at the exit code.
#
#   cmake -DEXPECTED=<regular expression> -P run_example.cmake -- <program> <arguments...>

set(command "")
set(begun FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(begun)
    string(REPLACE ";" "\\;" argument "${CMAKE_ARGV${i}}")
    list(APPEND command "${argument}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(begun TRUE)
  endif()
endforeach()
if(NOT command OR NOT DEFINED EXPECTED)
  message(FATAL_ERROR "usage: cmake -DEXPECTED=<regular expression> -P run_example.cmake -- <program> <arguments...>")
endif()
execute_process(COMMAND ${command} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(NOT code EQUAL 0)
  message(FATAL_ERROR "it ended with ${code}")
elseif(NOT output MATCHES "${EXPECTED}")
  message(FATAL_ERROR "it did not print what matches ${EXPECTED}")
endif()
