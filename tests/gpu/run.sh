#!/usr/bin/env bash
# The check on a real GPU: what a program does with CUDA must be what was collected, count by count.
#   tests/gpu/run.sh pack [FOLDER]    here, after a build: puts all that the check needs into FOLDER.tar.gz (under 64 MiB)
#   tests/gpu/run.sh check [FOLDER]   there, on a bare machine with a driver: no toolkit, no network; unpacks it first
# FOLDER: build/gpu-check. Exit codes of check: 0 all counts are equal, 3 one is not, 4 no CUDA device (nothing checked).
# Where python3 has a torch that sees the device, a second, identical run is watched by torch's own profiler (Kineto).
set -euo pipefail
cd "$(dirname "$0")/../.."
FOLDER=${2:-build/gpu-check}
LAUNCHES=1000 COPIES=50 FILLS=20 GRAPH_LAUNCHES=10
MOST_KIB=$((64 * 1024))

copy_libraries_of() {  # those of the distribution beside libc, which the other machine has
  ldd "$1" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' || true
}

pack() {
  local build=${TELLER_BUILD:-build/release} venv=${TELLER_VENV:-$PWD/.venv} site
  site=$(echo "$venv"/lib/python3*/site-packages)
  rm -rf "$FOLDER"
  mkdir -p "$FOLDER/bin" "$FOLDER/lib" "$FOLDER/deps"
  strip -o "$FOLDER/bin/teller" $build/bin/teller
  strip -o "$FOLDER/bin/cuda_program" $build/tests/cuda_program
  strip -o "$FOLDER/lib/libteller_agent.so" $build/lib/libteller_agent.so
  copy_libraries_of $build/bin/teller | xargs -I{} cp -L {} "$FOLDER/deps/"
  cp -L "$venv/cupti-13.0.85/nvidia/cu13/lib/libcupti.so.13" "$site/triton/backends/nvidia/lib/cupti/libcupti.so.12" \
    "$FOLDER/deps/"
  tar -c -C "$FOLDER" . | gzip -1 >"$FOLDER.tar.gz"
  rm -rf "$FOLDER"
  local kib
  kib=$(du -sk "$FOLDER.tar.gz" | cut -f1)
  echo "$FOLDER.tar.gz: $((kib / 1024)) MiB"
  [ "$kib" -le "$MOST_KIB" ] || { echo "more than 64 MiB" >&2; exit 3; }
}

unpack() {
  [ -e "$FOLDER/bin/teller" ] && return
  mkdir -p "$FOLDER"
  tar -xzf "$FOLDER.tar.gz" -C "$FOLDER"
}

count() { awk -F, "$1" "$FOLDER/trace.csv" | wc -l; }  # rows of the trace that an awk condition chooses

failures=0
expect() {  # NAME EXPECTED COUNTED
  if [ "$2" -eq "$3" ]; then echo "  $1: $3"; else
    echo "  $1: $3 counted, $2 expected"
    failures=$((failures + 1))
  fi
}

collect() {  # TRACE COMMAND...: the device's libraries must not see ours
  local trace=$1
  shift
  LD_LIBRARY_PATH="$FOLDER/deps" "$FOLDER/bin/teller" collect --force -o "$trace" -- env \
    "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$FOLDER/deps" "$@"
}
teller() { LD_LIBRARY_PATH="$FOLDER/deps" "$FOLDER/bin/teller" "$@"; }

check_driver_program() {
  echo "driver interface:"
  local code=0
  collect "$FOLDER/trace.h5" "$FOLDER/bin/cuda_program" $LAUNCHES $COPIES $FILLS $GRAPH_LAUNCHES >"$FOLDER/expected" ||
    code=$?
  if [ $code -eq 4 ]; then
    echo "no CUDA device here: skipped, nothing was checked"
    exit 4
  fi
  [ $code -eq 0 ] || { echo "cuda_program failed: exit code $code" >&2; exit 1; }
  teller info --check "$FOLDER/trace.h5" >/dev/null
  teller export "$FOLDER/trace.h5" --to csv --force -o "$FOLDER/trace.csv" >/dev/null
  local launch_calls graph_launch_calls kernels graph_kernels copies fills
  . "$FOLDER/expected"
  expect "launch calls" "$launch_calls" "$(count '$7 ~ /^cuLaunchKernel/')"
  expect "graph launch calls" "$graph_launch_calls" "$(count '$7 ~ /^cuGraphLaunch/')"
  expect "kernels" "$kernels" "$(count '$6 == "kernel"')"
  expect "kernels of graphs" "$graph_kernels" "$(count '$6 == "kernel" && $13 != 0')"
  expect "copies" "$copies" "$(count '$6 == "memcpy"')"
  expect "fills" "$fills" "$(count '$6 == "memset"')"
  local losses
  losses=$(teller info "$FOLDER/trace.h5" --json |
    grep -oE '"(dropped_[a-z_]+|untimed_by_cupti|damaged_cupti_buffer)": *[0-9]+' | awk -F: '{s += $2} END {print s + 0}')
  expect "records lost" 0 "$losses"
  local unlinked
  unlinked=$(awk -F, '$6 ~ /^cu(Launch|Graph)/ || $7 ~ /^cu(Launch|Graph)/ {call[$12] = 1}
                      $6 == "kernel" {kernel[NR] = $12}
                      END {for (k in kernel) n += !(kernel[k] in call); print n + 0}' "$FOLDER/trace.csv")
  expect "kernels without their launch" 0 "$unlinked"
}

check_kineto() {
  if ! python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "Kineto: python3 has no torch that sees the device: not compared"
    return
  fi
  echo "Kineto, second run:"
  collect "$FOLDER/torch.h5" python3 tests/gpu/kineto_program.py
  python3 tests/gpu/kineto_program.py "$FOLDER/kineto.json"
  teller import "$FOLDER/kineto.json" --force -o "$FOLDER/kineto.h5" >/dev/null
  for kind in kernel memcpy memset; do
    local ours theirs
    teller export "$FOLDER/torch.h5" --to csv --force -o "$FOLDER/trace.csv" >/dev/null
    ours=$(count "\$6 == \"$kind\"")
    teller export "$FOLDER/kineto.h5" --to csv --force -o "$FOLDER/trace.csv" >/dev/null
    theirs=$(count "\$6 == \"$kind\"")
    expect "$kind" "$theirs" "$ours"
  done
}

case ${1:-} in
  pack) pack ;;
  check)
    unpack
    check_driver_program
    check_kineto
    [ $failures -eq 0 ] || { echo "$failures counts differ"; exit 3; }
    echo "all counts are equal"
    ;;
  *)
    sed -n '2,6s/^# \?//p' "$0" >&2
    exit 2
    ;;
esac
