#!/usr/bin/env bash
# Sets up, builds and runs every test, then the layer and format checks. Exit code 0: all passed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh release
export OMP_NUM_THREADS=1
# Timing tests run alone, after the others.
ctest --preset release --parallel 2 --label-exclude 'timing|gpu'
ctest --preset release --label-regex timing --no-tests=ignore
