#!/usr/bin/env bash
# Sets up, builds and runs the main job on the embedded reference service: a fault campaign of 12 runs, traces, labels,
# vocabularies, trainings, and the tables E0-E3. Safe to run again: finished work is kept and only printed.
# About 15 minutes from nothing on 2 cores. Arguments go to 'teller run', for example --dry-run.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
echo "quickstart: building (12 minutes or less from nothing)"
scripts/build.sh release
export OMP_NUM_THREADS=1
build/release/bin/teller run experiments/quickstart.yaml "$@"
