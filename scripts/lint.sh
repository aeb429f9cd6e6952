#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over the files that do not include torch.
# usage: scripts/lint.sh [FILE...]      default: all of src and fault_injection
set -euo pipefail
cd "$(dirname "$0")/.."
TIDY=${CLANG_TIDY:-clang-tidy-19}
command -v "$TIDY" >/dev/null || { echo "lint: $TIDY is missing; as root: apt-get install -y clang-tidy-19" >&2; exit 4; }
# Only the compilation database is needed, and the generated headers beside it.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset asan -DTELLER_SANITIZE= -B build/lint >/dev/null
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(find src fault_injection -name '*.cc' | sort)
fi
known=()
for file in "${files[@]}"; do
  grep -qF "\"$PWD/$file\"" build/lint/compile_commands.json && known+=("$file")  # the rest needs torch
done
echo "lint: ${#known[@]} files"
printf '%s\n' "${known[@]}" | xargs -P 2 -n 4 "$TIDY" -p build/lint --quiet --warnings-as-errors='*' \
  --extra-arg=-Wno-unknown-warning-option 2> >(grep -vE 'warnings (generated|treated)|^Suppressed|^Use -header' >&2)
echo "lint: clean"
