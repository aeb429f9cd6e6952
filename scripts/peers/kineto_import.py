#!/usr/bin/env python3
"""Imports one large PyTorch-profiler trace with teller and with HolisticTraceAnalysis, in turns, and prints the ratio.

All rates are per second of processor time, so that a busy machine does not decide.

usage: scripts/peers/kineto_import.py [TRACE.json[.gz]] [--megabytes 200] [--repeats 3]

The file is TRACE (default: hta/nccl_data.json.gz of ../shared/traces) repeated with shifted times and ids. HTA comes from
PyPI (HolisticTraceAnalysis) in an environment of your own; without it only teller is measured.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load(path: pathlib.Path) -> dict:
    import gzip

    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as file:
        return json.load(file)


def repeat(trace: dict, output: pathlib.Path, size: int) -> None:
    """Writes the trace's events again and again, later each time, with correlation ids of their own."""
    events = trace.pop("traceEvents")
    last = max(event["ts"] + event.get("dur", 0) for event in events if "ts" in event)
    span = last - min(event["ts"] for event in events if "ts" in event) + 1000
    highest = max(event.get("args", {}).get("correlation", 0) for event in events) + 1
    pieces = [json.dumps(event) for event in events]
    times = [re.search(r'"ts": ([0-9.]+)', piece) for piece in pieces]
    head = json.dumps(trace)[:-1]
    with open(output, "w") as file:
        written = file.write(head + ', "traceEvents": [\n')
        turn = 0
        while written < size:
            for event, piece, found in zip(events, pieces, times):
                text = piece
                if found:
                    begin, end = found.span(1)
                    text = f"{piece[:begin]}{event['ts'] + turn * span:.3f}{piece[end:]}"
                if turn and "correlation" in event.get("args", {}):
                    old = event["args"]["correlation"]
                    text = text.replace(f'"correlation": {old}', f'"correlation": {old + turn * highest}')
                written += file.write(text + ",\n")
            turn += 1
        file.write("{}]}")


def teller_memory_seconds(path: pathlib.Path) -> float:
    """One import into columns in memory, by the benchmark program."""
    command = [ROOT / "build/release/bin/teller-benchmarks", "--benchmark_filter=BM_KinetoImport",
               "--benchmark_min_time=0.001", "--benchmark_format=json"]
    done = subprocess.run(command, env={**os.environ, "TELLER_KINETO_FILE": str(path)}, capture_output=True, check=True)
    return json.loads(done.stdout)["benchmarks"][0]["cpu_time"] / 1e3


def teller_file_seconds(path: pathlib.Path, output: pathlib.Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([ROOT / "build/release/bin/teller", "import", path, "-o", output, "--force"], check=True,
                   capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def hta_seconds(path: pathlib.Path) -> float | None:
    try:
        from hta.common.trace_parser import parse_trace_dataframe
        from hta.configs.parser_config import ParserConfig
    except ImportError:
        return None
    begin = time.process_time()
    parse_trace_dataframe(str(path), ParserConfig.get_default_cfg())
    return time.process_time() - begin


def main() -> int:
    shared = pathlib.Path(os.environ.get("TELLER_SHARED_DIR", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?", type=pathlib.Path, default=shared / "traces/hta/nccl_data.json.gz")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = pathlib.Path(folder) / "large.json"
        repeat(load(options.trace), large, options.megabytes * 1_000_000)
        size = large.stat().st_size
        seconds: dict[str, list[float]] = {"teller, columns in memory": [], "teller, finished file": [], "HTA": []}
        for _ in range(options.repeats):
            seconds["teller, columns in memory"].append(teller_memory_seconds(large))
            seconds["teller, finished file"].append(teller_file_seconds(large, pathlib.Path(folder) / "out.h5"))
            if (hta := hta_seconds(large)) is not None:
                seconds["HTA"].append(hta)
        rates = {name: size / 1e6 / statistics.median(times) for name, times in seconds.items() if times}
    for name, rate in rates.items():
        print(f"{name}: {rate:.0f} MB/s (median of {options.repeats}, {size / 1e6:.0f} MB)")
    if "HTA" in rates:
        print(f"ratio to HTA: {rates['teller, columns in memory'] / rates['HTA']:.1f} in memory, "
              f"{rates['teller, finished file'] / rates['HTA']:.1f} to a file")
    else:
        print("HTA is not installed here: pip install HolisticTraceAnalysis")
    return 0


if __name__ == "__main__":
    sys.exit(main())
