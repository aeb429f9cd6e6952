#!/usr/bin/env bash
# Sets up all that Teller needs on Debian 12 and configures nothing: distribution packages (with root) and a virtual
# environment with the torch wheel. Safe to run again. TELLER_VENV names an environment to share between clones.
set -euo pipefail
cd "$(dirname "$0")/.."

PACKAGES=(build-essential cmake ninja-build ccache pkg-config git python3-venv libhdf5-dev libyaml-cpp-dev
  libsentencepiece-dev libgtest-dev libgmock-dev libbenchmark-dev libcli11-dev libfmt-dev libspdlog-dev
  nlohmann-json3-dev libsimdjson-dev libsqlite3-dev zlib1g-dev libarchive-dev libcpp-httplib-dev libgloo-dev libxxhash-dev
  iproute2 util-linux clang-format)

missing=()
for package in "${PACKAGES[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: packages are missing; as root: apt-get install -y ${missing[*]}" >&2
    exit 4
  fi
  echo "setup: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
fi

VENV=${TELLER_VENV:-$PWD/.venv}
REQUIREMENTS=$PWD/scripts/requirements.txt
if ! cmp -s "$REQUIREMENTS" "$VENV/teller-requirements.txt"; then
  echo "setup: installing the Python packages of scripts/requirements.txt into $VENV (about 5.4 GB, 1-3 minutes)"
  [ -x "$VENV/bin/python" ] || python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check -r "$REQUIREMENTS"
  cp "$REQUIREMENTS" "$VENV/teller-requirements.txt"
fi
# A libcupti that works without a driver, for the decoder's tests; the torch wheel's own does not.
CUPTI=nvidia-cuda-cupti==13.0.85
if [ ! -e "$VENV/cupti-13.0.85/nvidia/cu13/lib/libcupti.so.13" ]; then
  echo "setup: installing $CUPTI into $VENV/cupti-13.0.85"
  rm -rf "$VENV"/cupti-13.0.85{,.part}
  "$VENV/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$VENV/cupti-13.0.85.part" "$CUPTI"
  mv "$VENV/cupti-13.0.85.part" "$VENV/cupti-13.0.85"
fi
echo "setup: ready (environment $VENV)"
