#!/bin/sh
# failed_tests.sh FOLDER: what the failed tests of the last ctest in that build folder printed, the last lines of each.
# ctest prints it as they fail, thousands of lines before its summary; this is for those who see only the end.
set -eu
awk -v keep="${FAILED_TEST_LINES:-80}" '
  /^[0-9]+\/[0-9]+ Test: / { name = $0; sub(/^[0-9]+\/[0-9]+ Test: /, "", name); count = 0; inside = 0 }
  /^Output:$/ { if (!inside) { inside = 1; next } }
  /^<end of output>$/ { inside = 0 }
  /^Test Failed\.$/ {
    printf "\n---- %s", name
    first = count > keep ? count - keep + 1 : 1
    if (first > 1) printf ", the last %d of %d lines", keep, count
    printf "\n"
    for (i = first; i <= count; ++i) print lines[i]
  }
  inside && !/^-+$/ { lines[++count] = $0 }
' "$1/Testing/Temporary/LastTest.log"
