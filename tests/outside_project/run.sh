#!/usr/bin/env bash
# Installs Manta from a build folder into a temporary prefix, then builds and runs a project beside this script with it.
#   run.sh core|torch|xgboost <build folder> [<compiler flags, such as a sanitizer's>]
set -euo pipefail
project=$1
build=$2
flags=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
if find "$work/prefix/include" -name '*_internal.h' -o -name '*_test*' | grep .; then
  echo "the files above must not be installed" >&2
  exit 1
fi

# As somebody who has only the installation: the cache of the one who installed it does not count. But for
# libtorch and XGBoost.
if [ "$project" = core ]; then unset MANTA_DEPS; fi
cmake -G Ninja -S "$here/$project" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS="$flags"
cmake --build "$work/build"
cmake --install "$work/build" --prefix "$work/outside"

if [ "$project" = core ] &&
  readelf -d "$work/build/outside" | grep -E 'RUNPATH|RPATH' | grep -v "$work/prefix"; then
  echo "the program above looks for libraries outside of the installation" >&2
  exit 1
fi
for program in "$work/build/outside" "$work/outside/bin/outside"; do
  printed=$(env -u LD_LIBRARY_PATH "$program" "$work/runs")
  [ "$printed" = 42 ] || { echo "expected 42, $program printed: $printed" >&2; exit 1; }
done
