#!/usr/bin/env bash
# Installs Ray, the peer that `bench/run.py` compares with, into a venv of its own: about 4 minutes and 1.8 GB the
# first time, nothing after that. Prints the progress on stderr and the venv's python, alone, on stdout.
#
#   python=$(bench/setup_ray.sh)
set -euo pipefail
case "$*" in
  "") ;;
  --help) echo "usage: bench/setup_ray.sh   (installs Ray; prints the path of its python)"; exit ;;
  *) echo "usage: bench/setup_ray.sh" >&2; exit 2 ;;
esac

deps="${MANTA_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/deps}"
venv="$deps/ray-2.59.0-venv"
# Torch comes first and alone: what is installed already is kept, so that Ray's extras cannot pull in another build.
first=(torch==2.13.0)
then=("ray[train,data,tune,serve]==2.59.0" xgboost-cpu==3.2.0 lightgbm==4.7.0 pandas pyarrow==26.0.1 scikit-learn
      tensorboardX psutil duckdb==1.5.6)

# The stamp is written last and holds what was asked for: an interrupted install, or one of another list, is redone.
stamp="$venv/.installed"
wanted="${first[*]} ${then[*]}"
say() { echo "setup_ray: $*" >&2; }
ready() { [[ -x "$venv/bin/python" && -f "$stamp" && "$(<"$stamp")" == "$wanted" ]]; }

if ! ready; then
  mkdir -p "$deps"
  # Two calls at once must not install into the same folder; the second waits and finds the work done.
  exec 9>"$venv.lock"
  flock 9
fi
if ! ready; then
  # The distribution's interpreter if there is one: a venv made from a version manager's breaks when that is updated.
  python=/usr/bin/python3
  "$python" -c 'import ensurepip, venv' 2>/dev/null || python=python3
  say "creating $venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  # The lock is not handed down, or a process that outlives an interrupted call would keep it.
  say "1/2 installing ${first[*]}"
  "$venv/bin/python" -m pip install --quiet "${first[@]}" >&2 9>&-
  say "2/2 installing ${then[*]}"
  "$venv/bin/python" -m pip install --quiet "${then[@]}" >&2 9>&-
  "$venv/bin/python" -c 'import ray, pyarrow, psutil; assert ray.__version__ == "2.59.0", ray.__version__' 9>&-
  echo "$wanted" > "$stamp"
  say "done"
fi
echo "$venv/bin/python"
