#!/usr/bin/env bash
# Formats every C++ file of ours; with --check changes nothing and fails if one would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "$*" in
  "") mode=(-i) ;;
  --check) mode=(--dry-run -Werror) ;;
  --help) echo "usage: scripts/format.sh [--check]"; exit ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
find . \( -name build -o -name '.?*' \) -prune -o \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 -r -n 16 -P "$(nproc)" clang-format "${mode[@]}"
