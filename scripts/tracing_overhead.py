#!/usr/bin/env python3
"""What watching costs: TPOT of teller-serve with recording switched off and on in short stretches of one run.

usage: scripts/tracing_overhead.py [--bin build/release/bin] [--seconds 60] [--stretch 1.5] [--concurrency 1] [--seed 1]

Two ranks on loopback under one `teller collect --level full`; `--control off|on` alternates in pairs whose order is random. A
request counts where it lies wholly in one stretch, past the first 100 ms. Printed: median TPOT off and on, the median of the
ratios on/off over pairs of neighbouring stretches and its 95 % bootstrap interval. Nothing else should run meanwhile.
"""
import argparse
import json
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_service(bins, trace, run_id, http_port):
    master = free_port()
    ranks = " & ".join(
        f"RANK={rank} chrt -b 0 {bins}/teller-serve --config {ROOT}/configs/workload/reference.yaml --rank {rank} --world-size 2"
        f" --master-addr 127.0.0.1 --master-port {master} --host 127.0.0.1 --port {http_port}" for rank in (0, 1))
    return subprocess.Popen([f"{bins}/teller", "collect", "--level", "full", "--run-id", run_id, "-o", trace, "--", "bash", "-c",
                             f"trap 'kill $(jobs -p)' TERM; {ranks} & wait; wait"], stdout=subprocess.DEVNULL)


def wait_ready(http_port, service):
    for _ in range(300):
        if service.poll() is not None:
            sys.exit("tracing_overhead: the service ended before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit("tracing_overhead: the service was not ready within 30 s")


def alternate(bins, run_id, options):
    """Switches until time is up; answers (level, begin_ns, end_ns) of each stretch, in pairs."""
    order, stretches = random.Random(options.seed), []
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        pair = ["off", "on"]
        order.shuffle(pair)
        for level in pair:
            subprocess.run([f"{bins}/teller", "collect", "--control", level, "--run-id", run_id], check=True,
                           stdout=subprocess.DEVNULL)
            begin = time.monotonic_ns()
            time.sleep(options.stretch)
            stretches.append((level, begin, time.monotonic_ns()))
    return stretches


def tpot_by_stretch(load_file, stretches):
    requests = [json.loads(line) for line in open(load_file)]
    requests = [r for r in requests if "tpot_ns" in r and r.get("tpot_ns")]
    settled_ns = 100_000_000
    return [[r["tpot_ns"] for r in requests if r["begin_ns"] > begin + settled_ns and r["end_ns"] < end]
            for _, begin, end in stretches]


def ratios_of(stretches, tpots):
    ratios = []
    for first in range(0, len(stretches) - 1, 2):
        by_level = {stretches[i][0]: tpots[i] for i in (first, first + 1)}
        if by_level["on"] and by_level["off"]:
            ratios.append(statistics.median(by_level["on"]) / statistics.median(by_level["off"]))
    return ratios


def interval(ratios, seed):
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--stretch", type=float, default=1.5)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bins = options.bin
    with tempfile.TemporaryDirectory() as folder:
        http_port, run_id = free_port(), f"overhead{time.monotonic_ns() % 10**9}"
        service = start_service(bins, f"{folder}/trace.h5", run_id, http_port)
        try:
            wait_ready(http_port, service)
            load = subprocess.Popen([f"{bins}/teller-load", "--url", f"http://127.0.0.1:{http_port}", "--concurrency",
                                     str(options.concurrency), "--duration", str(options.seconds + 5), "--prompt-tokens", "16",
                                     "--output-tokens", "24", "--output", f"{folder}/load.jsonl"], stdout=subprocess.DEVNULL)
            time.sleep(2)
            stretches = alternate(bins, run_id, options)
            load.wait(timeout=60)
        finally:
            service.terminate()
            service.wait(timeout=60)
        tpots = tpot_by_stretch(f"{folder}/load.jsonl", stretches)
    ratios = ratios_of(stretches, tpots)
    if len(ratios) < 5:
        sys.exit("tracing_overhead: fewer than 5 pairs of stretches hold whole requests; pass more --seconds")
    low, high = interval(ratios, options.seed)
    for level in ("off", "on"):
        values = [v for s, t in zip(stretches, tpots) if s[0] == level for v in t]
        print(f"TPOT {level:>3}: median {statistics.median(values) / 1e6:.3f} ms over {len(values)} requests")
    print(f"on/off: {statistics.median(ratios):.4f} [{low:.4f}, {high:.4f}] over {len(ratios)} pairs of stretches,"
          f" concurrency {options.concurrency}")


if __name__ == "__main__":
    main()
