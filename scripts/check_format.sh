#!/usr/bin/env bash
# Compares every C and C++ file with .clang-format.   usage: scripts/check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "check_format: clang-format is missing; run scripts/setup.sh" >&2; exit 4; }
mapfile -t files < <(find src fault_injection tests -name '*.h' -o -name '*.c' -o -name '*.cc' | sort)
if [ "${1:-}" = --fix ]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run -Werror "${files[@]}" || { echo "check_format: run scripts/check_format.sh --fix" >&2; exit 3; }
  echo "check_format: ${#files[@]} files are formatted"
fi
