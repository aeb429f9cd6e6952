#!/usr/bin/env bash
# Sets up, builds and runs the main job on the embedded reference service: a fault campaign of 12 runs, traces, labels,
# vocabularies, trainings, and the tables E0-E3. Safe to run again: finished work is kept and only printed.
# About 22 minutes from nothing on 2 cores (set-up 1 to 3, build 11, main job 10). Arguments go to 'teller run', for example --dry-run.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
echo "quickstart: building (12 minutes or less from nothing)"
scripts/build.sh release
export OMP_NUM_THREADS=1
build/release/bin/teller run experiments/quickstart.yaml "$@"
