#!/usr/bin/env bash
# Installs Manta from a build folder into a temporary prefix, then builds and runs a project with it: one beside this
# script, or a copy of examples/starter for torch.
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
name=outside expected=42
source=$here/$project
if [ "$project" = torch ]; then
  name=starter expected='10 epochs, loss [0-9.e-]+, weights in .*'
  source=$here/../../examples/starter
fi
cp -r "$source" "$work/source"
cmake -G Ninja -S "$work/source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS="$flags"
cmake --build "$work/build"
cmake --install "$work/build" --prefix "$work/outside"

if [ "$project" = core ] &&
  readelf -d "$work/build/$name" | grep -E 'RUNPATH|RPATH' | grep -v "$work/prefix"; then
  echo "the program above looks for libraries outside of the installation" >&2
  exit 1
fi
for program in "$work/build/$name" "$work/outside/bin/$name"; do
  printed=$(env -u LD_LIBRARY_PATH "$program" "$work/runs")
  [[ $printed =~ ^$expected$ ]] || { echo "expected $expected, $program printed: $printed" >&2; exit 1; }
done
if [ "$project" = torch ]; then
  "$work/build/$name" --help | grep -q "^usage: $name" || { echo "$name --help shows no usage" >&2; exit 1; }
fi
