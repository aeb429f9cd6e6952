#!/usr/bin/env python3
"""Imports and diagnoses every file of a folder of shared traces; compares what was found with what was counted independently.

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
KERNEL, HOST_API_LAYER, MEMCPY, MEMSET = 8, 2, 9, 10

# Counted by other means than COUNTS.tsv: sqlite3 over the file itself (462 ranges whose text stands behind textId; 4,280 pairs
# of launch and device item without the process id, of which 294 are false).
COUNTED_APART = {"nsys-ai/mfu_2gpu_before.sqlite": {"nccl_ranges": 462, "pairs": 3986, "false_pairs_without_process_id": 294}}

# What a diagnosis must say. healthy_1pct: its label file. The ranks: who began each of the eight collectives last, from the
# JSON files themselves.
MUST_SAY = {
    "nsys-ai/healthy_1pct.sqlite": lambda run: run["verdict"] != "abnormal",
    "param/dlrm_kineto.tar.gz": lambda run: [(late["rank"], late["collectives"]) for late in run["late_starters"]] ==
    [(7, 5), (5, 2), (4, 1)],
}


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
    launches, items = [], []  # correlation ids by process
    with h5py.File(path, "r") as file:
        is_nccl = numpy.array([text.startswith(b"nccl") and not text.startswith(b"nccl:") for text in file["strings"][:]] + [False])
        for process in file["processes"].values():
            rows = process.attrs["rows"]
            column = {name: process[name][:rows] for name in ("flags", "layer", "kind", "correlation", "name")}
            on_device = (column["flags"] & FLAG_ON_DEVICE) != 0
            found["nccl_kernels"] += int(numpy.count_nonzero(on_device & (column["layer"] == LAYER_COMM)))
            found["nccl_ranges"] += int(numpy.count_nonzero(is_nccl[column["name"]] & ~on_device))
            correlations = column["correlation"]
            found["gpu_corr"] += len(numpy.unique(correlations[on_device & (correlations != 0)]))
            launches.append(collections.Counter(correlations[(column["layer"] == HOST_API_LAYER) & (correlations != 0)].tolist()))
            kernels = on_device & ((column["kind"] == KERNEL) | (column["layer"] == LAYER_COMM)) & (correlations != 0)
            items.append(collections.Counter(correlations[kernels].tolist()))
    pairs = lambda calls, kernels: sum(count * kernels[key] for key, count in calls.items())
    found["pairs"] = sum(pairs(calls, kernels) for calls, kernels in zip(launches, items))
    found["false_pairs_without_process_id"] = sum(pairs(calls, kernels) for calls in launches for kernels in items) - found["pairs"]
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
    for key, wanted in (expected_of(row, counts) | COUNTED_APART.get(row["file"], {})).items():
        if key not in found:
            continue
        same = found[key] == wanted
        good = good and same
        cells.append(f"{key} {wanted:,}" if same else f"**{key} expected {wanted:,}, found {found[key]:,}**")
    return "; ".join(cells) or "-", good


def duration(ns: int) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def told(step: dict) -> str:
    """The first suspect of a step."""
    first = step["candidates"][0]
    where = f"rank {first['rank']}" if first["peer"] is None else f"link {first['rank']}-{first['peer']}"
    times = duration(first["observed_ns"]) + ("" if first["late_start"] or first["expected_ns"] is None
                                              else f" for {duration(first['expected_ns'])}")
    what = "entered last" if first["late_start"] else first["measure"].replace("_", " ")
    return f"{where}, `{first['operator'][:60]}` {what} {times}"


def diagnosis(row: dict, run: dict) -> tuple[str, bool]:
    parts = [run["verdict"]]
    suspicious = [step for step in run["steps"] if step["candidates"] and (step["abnormal"] or run["verdict"] == "undecided")]
    if suspicious:
        most = max(suspicious, key=lambda step: (step["abnormal"], step["score"]))
        parts.append(("" if most["abnormal"] else "stands out most: ") + told(most) +
                     (f" ({most['score']:.0f} % of the step)" if run["basis"] == "inside" else ""))
    if run["late_starters"]:
        parts.append("entered collectives last: " + ", ".join(
            f"rank {late['rank']} {late['collectives']} of {late['of']} ({duration(late['late_ns'])})" for late in run["late_starters"]))
    holds = MUST_SAY.get(row["file"], lambda _: True)(run)
    return "; ".join(parts) + ("" if holds else " **not what it must be**"), holds


def run_diagnose(teller: str, source: pathlib.Path) -> dict:
    done = subprocess.run([teller, "diagnose", str(source), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def make_table(traces: pathlib.Path, teller: str) -> tuple[str, bool]:
    counts = expected_counts(traces)
    lines = ["| file | counted independently, and found | imported as | diagnosis |", "|---|---|---|---|"]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for row in read_tsv(traces / "MANIFEST.tsv"):
            source, file = traces / row["file"], pathlib.Path(folder) / "trace.h5"
            code, info, error = run_import(teller, source, file)
            if code != 0:
                lines.append(f"| {row['file']} | - | refused with {code}: {error.removeprefix('teller: error: ')} | - |")
                good = good and row["file"].endswith("label_healthy_1pct.json")
                continue
            cells, same = compare(row, info, file, counts)
            said, holds = diagnosis(row, run_diagnose(teller, source))
            good = good and same and holds
            lines.append(f"| {row['file']} | {cells} | {describe(info)} | {said} |")
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
