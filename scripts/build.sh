#!/usr/bin/env bash
# Configures and builds one preset (default: release).   usage: scripts/build.sh [PRESET] [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
PRESET=${1:-release}; shift || true
# ccache hits across clones and working folders.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset "$PRESET" ${TELLER_VENV:+-DTELLER_VENV="$TELLER_VENV"} >/dev/null
exec cmake --build --preset "$PRESET" ${1:+--target "$@"}
