#!/usr/bin/env bash
# Runs every fuzz target, some at a time, and fails if one found something.
#
#   scripts/fuzz.sh <build folder> <seconds for each> <how many at a time> [target...]
#
# A target starts from its seeds, fuzz/corpus/<target> and what earlier runs found interesting
# (<build folder>/corpus/<target>). An input that breaks it is kept in <build folder>/found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage="usage: scripts/fuzz.sh <build folder> <seconds> <jobs> [target...]"
[ "${1:-}" != --help ] || { echo "$usage"; exit; }
[ $# -ge 3 ] || { echo "$usage" >&2; exit 2; }
build=$(realpath "$1") seconds=$2 jobs=$3
shift 3
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  mapfile -t targets < <(find fuzz -name '*_target.cc' -printf '%f\n' | sed 's/_target\.cc$//' | sort)
fi
mkdir -p "$build/found" "$build/logs"
# Arrow's own allocator would hide what AddressSanitizer looks for; libtorch's and Arrow's globals are no leaks of ours.
export ARROW_DEFAULT_MEMORY_POOL=system ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1

fuzz_one() {
  local name=$1 log="$build/logs/$1.log"
  mkdir -p "$build/corpus/$name" "$build/seeds/$name"
  if ! "$build/fuzz/fuzz_$name" --write-seeds "$build/seeds/$name" >"$log" 2>&1; then
    echo "$name: FAILED to make its seeds; the end of $log:"
    tail -40 "$log"
    return 1
  fi
  if "$build/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=4096 -malloc_limit_mb=512 \
    -dict=fuzz/json.dict -artifact_prefix="$build/found/$name-" -print_final_stats=1 \
    "$build/corpus/$name" "$build/seeds/$name" $([ ! -d "fuzz/corpus/$name" ] || echo "fuzz/corpus/$name") >"$log" 2>&1; then
    echo "$name: clean, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s"
  else
    echo "$name: FAILED; the end of $log:"
    tail -40 "$log"
    return 1
  fi
}
export -f fuzz_one
export build seconds
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one {}'
