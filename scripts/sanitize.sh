#!/usr/bin/env bash
# Builds the rooms without torch under ASan+UBSan and under TSan, runs their tests, then the fuzzers.
# usage: scripts/sanitize.sh [asan] [tsan] [fuzz]      default: all three
# FUZZ_SECONDS (default 60) is the time of each fuzzer. Fuzzers want clang 19 of the distribution.
set -euo pipefail
cd "$(dirname "$0")/.."
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
STAGES=("$@"); [ ${#STAGES[@]} -gt 0 ] || STAGES=(asan tsan fuzz)

export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}
export TSAN_OPTIONS=halt_on_error=1:${TSAN_OPTIONS:-}

run_tests() {
  scripts/build.sh "$1"
  ctest --preset "$1" --parallel 2
}

run_fuzzers() {
  if ! command -v clang++-19 >/dev/null; then
    echo "sanitize: the fuzzers need clang 19; as root: apt-get install -y clang-19 libclang-rt-19-dev" >&2
    exit 4
  fi
  scripts/build.sh fuzz $(basename -s .cc tests/fuzz/*.cc)
  for source in tests/fuzz/*_fuzzer.cc; do
    local name; name=$(basename -s .cc "$source")
    local found=build/fuzz/found/$name; mkdir -p "$found"
    echo "sanitize: $name, $FUZZ_SECONDS s"
    # New inputs go to the build folder; what crashes is kept in build/fuzz/found.
    build/fuzz/fuzz/"$name" -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=2048 -timeout=20 -max_len=65536 \
      -print_final_stats=1 -artifact_prefix="$found/" build/fuzz/found/"$name" tests/fuzz/corpus/"$name" 2>&1 |
      grep -E 'ERROR|SUMMARY|stat::number_of_executed_units|runtime error|^#[0-9]+ +DONE' || true
    [ "${PIPESTATUS[0]}" -eq 0 ] || { echo "sanitize: $name failed; its input is in $found" >&2; exit 3; }
  done
  build/fuzz/fuzz/trace_file_mutations "$FUZZ_SECONDS"
}

for stage in "${STAGES[@]}"; do
  case $stage in
    asan | tsan) run_tests "$stage" ;;
    fuzz) run_fuzzers ;;
    *) echo "sanitize: unknown stage '$stage'" >&2; exit 2 ;;
  esac
done
echo "sanitize: clean (${STAGES[*]})"
