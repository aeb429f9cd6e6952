#!/usr/bin/env bash
# Runs the collector's torch tests with other versions of torch. Not part of the test suite: each version is several GB.
#   scripts/check_torch_versions.sh [VERSION or PYTHON...]     default: 2.11 2.12 2.13 2.14 2.15
# A VERSION is installed into a throw-away environment (PIP_INDEX_URL and the like are obeyed); a PYTHON that has a torch
# is used as it is. Exit code 0: all passed, 1: some did not, 4: none could be tried.
set -uo pipefail
cd "$(dirname "$0")/.."
BUILD=${TELLER_BUILD:-build/release}
[ $# -gt 0 ] || set -- 2.11 2.12 2.13 2.14 2.15
[ -x "$BUILD/tests/collect_integration_test" ] || { echo "not built: run scripts/build.sh release first" >&2; exit 4; }

FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
tried=0 failed=0
for wanted in "$@"; do
  python=$wanted
  if [ ! -x "$wanted" ]; then
    python=$FOLDER/venv/bin/python
    rm -rf "$FOLDER/venv"
    python3 -m venv "$FOLDER/venv"
    if ! "$python" -m pip install --quiet --disable-pip-version-check "torch==$wanted.*" numpy; then
      echo "$wanted: cannot be installed, not tried"
      continue
    fi
  fi
  version=$("$python" -c 'import torch; print(torch.__version__)') || { echo "$wanted: has no torch"; continue; }
  tried=$((tried + 1))
  if TELLER_TEST_PYTHON=$python ctest --test-dir "$BUILD" -R '^TorchTest\.' --output-on-failure >"$FOLDER/log" 2>&1; then
    echo "torch $version: passed"
  else
    echo "torch $version: failed"
    grep -E '\*\*\*|Failure' "$FOLDER/log"
    failed=$((failed + 1))
  fi
done
[ $tried -gt 0 ] || exit 4
[ $failed -eq 0 ]
