#!/usr/bin/env bash
# Records what every kind of fault does, at every level, and writes docs/fault_validation.md from those runs. For an idle machine:
# about 45 minutes on 2 cores, and 32 more on vLLM where it is set up. Finished runs are kept; it can be run again.
# usage: scripts/fault_validation.sh [--scale small] [--output FILE]
set -euo pipefail
cd "$(dirname "$0")/.."
SCALE=() OUTPUT=docs/fault_validation.md
while [ $# -gt 0 ]; do
  case $1 in
    --scale) SCALE=(--scale "$2"); shift 2 ;;
    --output) OUTPUT=$2; shift 2 ;;
    *) echo "fault_validation: unknown argument '$1'" >&2; exit 2 ;;
  esac
done
export OMP_NUM_THREADS=1
EXPERIMENTS=(fault_validation)
[ -x "${TELLER_VLLM_VENV:-.venv-vllm}/bin/vllm" ] && EXPERIMENTS+=(fault_validation_vllm)
PAGE=$(mktemp)
trap 'rm -f "$PAGE"' EXIT
{
  echo "# Fault validation: what each kind did"
  echo
  echo "Written by \`scripts/fault_validation.sh${SCALE:+ ${SCALE[*]}}\` from its own runs on $(nproc) cores of $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), commit $(git rev-parse --short HEAD)."
  [ ${#EXPERIMENTS[@]} -eq 2 ] || echo "vLLM was not set up on this machine."
} > "$PAGE"
for name in "${EXPERIMENTS[@]}"; do
  build/release/bin/teller run "experiments/$name.yaml" "${SCALE[@]}" >&2
  for table in F1 F2 F3 F4; do
    [ -f "results/$name/tables/$table.md" ] || continue
    echo >> "$PAGE"
    sed "s/^## /## $name: /" "results/$name/tables/$table.md" >> "$PAGE"
  done
done
cp "$PAGE" "$OUTPUT"
echo "fault_validation: $OUTPUT"
