#!/usr/bin/env python3
"""Imports every file of a folder of shared traces and compares what was found with what was counted independently.

usage: scripts/interop_table.py [TRACES] [--teller build/release/bin/teller] [--update docs/interop.md]

TRACES (default: $TELLER_SHARED_DIR/traces, else ../shared/traces) holds MANIFEST.tsv and COUNTS.tsv. Prints a Markdown
table; with --update it replaces the one between the marks of that page. Exit code 3 where a count differs.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- table: scripts/interop_table.py -->", "<!-- end of table -->"
FLAG_ON_DEVICE, LAYER_COMM = 8, 4
RUNTIME = ("cuda_runtime", "cuda_driver")


def read_tsv(path: pathlib.Path) -> list[dict]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def expected_counts(traces: pathlib.Path) -> dict[str, collections.Counter]:
    """By file; the ranks of a tar are added up, the largest number of kernels of one launch is kept."""
    totals: dict[str, collections.Counter] = {}
    for row in read_tsv(traces / "COUNTS.tsv"):
        total = totals.setdefault(row["file"].split(":")[0], collections.Counter())
        for key in ("events", "cpu_op", "runtime", "kernels", "nccl_kernels", "user_annotation", "gpu_corr",
                    "gpu_corr_without_launch"):
            total[key] += int(row[key])
        total["max_gpu_per_corr"] = max(total["max_gpu_per_corr"], int(row["max_gpu_per_corr"]))
    return totals


def run_import(teller: str, source: pathlib.Path, output: pathlib.Path) -> tuple[int, dict, str]:
    command = [teller, "import", str(source), "-o", str(output), "--force", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.returncode, {}, done.stderr.strip().splitlines()[-1].replace(str(source), source.name)
    return 0, json.loads(done.stdout), ""


def kineto_counts(info: dict) -> dict[str, int]:
    source = info["source_counts"]
    return {
        "events": sum(source.values()),
        "cpu_op": source.get("cpu_op", 0),
        "runtime": sum(source.get(key, 0) for key in RUNTIME),
        "kernels": source.get("kernel", 0),
        "user_annotation": source.get("user_annotation", 0),
        "gpu_corr_without_launch": info["links"]["device_without_launch"],
        "max_gpu_per_corr": info["links"]["max_device_per_launch"],
    }


def file_counts(path: pathlib.Path) -> dict[str, int]:
    """What only the events themselves tell; empty without h5py."""
    try:
        import h5py
        import numpy
    except ImportError:
        return {}
    found = collections.Counter()
    with h5py.File(path, "r") as file:
        for process in file["processes"].values():
            rows = process.attrs["rows"]
            on_device = (process["flags"][:rows] & FLAG_ON_DEVICE) != 0
            found["nccl_kernels"] += int(numpy.count_nonzero(on_device & (process["layer"][:rows] == LAYER_COMM)))
            correlations = process["correlation"][:rows][on_device]
            found["gpu_corr"] += len(numpy.unique(correlations[correlations != 0]))
    return dict(found)


def nsight_counts(info: dict) -> dict[str, int]:
    source = info["source_counts"]
    return {
        "user_annotation": source.get("NVTX_EVENTS", 0),
        "runtime": source.get("CUPTI_ACTIVITY_KIND_RUNTIME", 0),
        "kernels": source.get("CUPTI_ACTIVITY_KIND_KERNEL", 0),
    }


def number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def expected_of(row: dict, counts: dict[str, collections.Counter]) -> dict[str, int]:
    if row["file"] in counts:
        return dict(counts[row["file"]])
    keys = {"NVTX_or_annotation": "user_annotation", "CUDA_runtime": "runtime", "kernels": "kernels"}
    return {ours: number(row[theirs]) for theirs, ours in keys.items() if number(row[theirs]) is not None}


def describe(info: dict) -> str:
    ranks = [str(entry["rank"]) for entry in info["ranks"] if entry["rank"] is not None]
    clock = info["clock"]
    layers = collections.Counter()
    for entry in info["ranks"]:
        layers.update(entry["counts"])
    parts = [f"{name} {count:,}" for name, count in layers.items() if count]
    if info["logs"]:
        parts.append(f"log lines {info['logs']:,}")
    if ranks:
        parts.append("ranks " + ", ".join(sorted(ranks, key=int)))
    if len(ranks) > 1:
        parts.append(f"clocks {'aligned, residual ' + str(clock['residual_ns']) + ' ns' if clock['aligned'] else 'not aligned'}")
    return "; ".join(parts)


def compare(row: dict, info: dict, file: pathlib.Path, counts: dict[str, collections.Counter]) -> tuple[str, bool]:
    found = kineto_counts(info) if row["file"] in counts else nsight_counts(info)
    found |= file_counts(file)
    cells, good = [], True
    for key, wanted in expected_of(row, counts).items():
        if key not in found:
            continue
        same = found[key] == wanted
        good = good and same
        cells.append(f"{key} {wanted:,}" if same else f"**{key} expected {wanted:,}, found {found[key]:,}**")
    return "; ".join(cells) or "-", good


def make_table(traces: pathlib.Path, teller: str) -> tuple[str, bool]:
    counts = expected_counts(traces)
    lines = ["| file | counted independently, and found | imported as |", "|---|---|---|"]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for row in read_tsv(traces / "MANIFEST.tsv"):
            file = pathlib.Path(folder) / "trace.h5"
            code, info, error = run_import(teller, traces / row["file"], file)
            if code != 0:
                lines.append(f"| {row['file']} | - | refused with {code}: {error.removeprefix('teller: error: ')} |")
                good = good and row["file"].endswith("label_healthy_1pct.json")
                continue
            cells, same = compare(row, info, file, counts)
            good = good and same
            lines.append(f"| {row['file']} | {cells} | {describe(info)} |")
    return "\n".join(lines) + "\n", good


def main() -> int:
    shared = pathlib.Path(os.environ.get("TELLER_SHARED_DIR", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="?", type=pathlib.Path, default=shared / "traces")
    parser.add_argument("--teller", default=str(ROOT / "build/release/bin/teller"))
    parser.add_argument("--update", type=pathlib.Path)
    options = parser.parse_args()
    if not (options.traces / "MANIFEST.tsv").exists():
        print(f"interop_table: no MANIFEST.tsv in {options.traces}", file=sys.stderr)
        return 4
    table, good = make_table(options.traces, options.teller)
    print(table, end="")
    if options.update:
        text = options.update.read_text()
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        options.update.write_text(f"{before}{BEGIN}\n{table}{END}{after}")
    return 0 if good else 3


if __name__ == "__main__":
    sys.exit(main())
