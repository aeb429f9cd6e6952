#!/usr/bin/env python3
"""Kills `teller run` with SIGKILL at random moments of perturbed runs, then runs `teller restore`, and compares the machine
with what it was before: namespaces, links, queueing disciplines, cgroups, processes, stopped processes, /dev/shm, journals.

    scripts/kill_runner.py              # 50 times, every kind of fault in turn: about 8 minutes on 2 cores
    scripts/kill_runner.py --times 4    # the short form that scripts/test.sh runs

Exit code 0: as before every time. 1: something was left (one line each). 4: nothing can be run here.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ONE_CALL = "calls_per_step: 1"
TARGETS = {
    "collective_delay": "{symbol: all_reduce, calls_per_step: 4}",
    "operator_slowdown": "{symbol: 'teller::linear', layer: backend, calls_per_step: 9}",
    "launch_delay": "{symbol: linear_f32_kernel, calls_per_step: 9}",
    "copy_delay": "{symbol: streamCopy, calls_per_step: 3}",
    "copy_throttle": "{symbol: streamCopy, calls_per_step: 3, call_us: 20}",
    "sync_delay": "{symbol: eventSynchronize, " + ONE_CALL + "}",
    "scheduler_stall": "{symbol: schedule, " + ONE_CALL + "}",
    "tokenizer_stall": "{symbol: tokenize, " + ONE_CALL + "}",
}
OTHERS = ["process_pause", "cpu_quota", "cpu_hog", "memory_pressure", "link_latency", "link_jitter", "link_loss",
          "link_bandwidth", "link_flap"]
# The strongest changes of the machine first, so that a short form meets them.
KINDS = ["cpu_quota", "link_latency", "process_pause", "collective_delay"]
KINDS += [kind for kind in list(TARGETS) + OTHERS if kind not in KINDS]
# What ends by itself after its runner was killed is given so long once `restore` is done.
GRACE_S = 5.0


def experiment(kind, folder):
    """An experiment whose runs are perturbed from their first second on by one kind."""
    targets = f", targets: [{TARGETS[kind]}]" if kind in TARGETS else ""
    path = folder / f"{kind}.yaml"
    path.write_text(f"""schema_version: 1
campaign:
  runs: 1
  clock_offset_share: {random.choice([0, 1])}
  workload:
    use: {ROOT}/configs/workload/reference.yaml
    model: {{layers: 2, hidden: 64, heads: 4, kv_heads: 2, intermediate: 128}}
  faults:
    calibration_s: 0.2
    duration_s: 60
    step_ms: 3
    stretch_steps: [300, 400]
    gap_steps: [5, 10]
    placebo_share: 0.1
    faults:
      - {{kind: {kind}{targets}}}
  load: {{concurrency: 2, arguments: [--prompt-tokens, '8:16', --output-tokens, '16:32']}}
""")
    return path


def processes():
    """(pid, state, command) of every process that a runner of ours started."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        name, state = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2]
        yield int(folder.name), state, name, command


def namespaces():
    found = set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found.add(os.readlink(folder / "ns" / "net"))
        except OSError:
            pass
    return found


def own_cgroups():
    found = set()
    for depth in ("*", "*/*"):
        found |= {str(path) for path in pathlib.Path("/sys/fs/cgroup").glob(depth) if path.name.startswith("teller-")}
    return found


def journalled(state_folder):
    """Run ids and network namespaces that runners of this script's have written down."""
    ids, networks = set(), set()
    for path in (state_folder / "journal").glob("*.jsonl"):
        ids.add(path.name.rsplit(".", 2)[0])
        for line in path.read_text(errors="replace").splitlines():
            entry = json.loads(line) if line.endswith("}") else {}
            if entry.get("change") == "network":
                networks.add(f"net:[{entry['what']}]")
    return ids, networks


def machine(state_folder, own, ids, networks):
    """What a runner may change: of namespaces, cgroups and shared memory only its own, since others may come and go. `own` tells
    a process of this script's runners by its command."""
    disciplines = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=False).stdout
    alive = [entry for entry in processes() if entry[1] not in "ZX" and entry[0] != os.getpid()]
    journal = state_folder / "journal"
    return {
        "namespaces": namespaces() & networks,
        "links": set(os.listdir("/sys/class/net")),
        "qdiscs": set(disciplines.splitlines()),
        "cgroups": {path for path in own_cgroups() if any(run in path for run in ids)},
        "processes": {f"{pid} {name}" for pid, _, name, command in alive if own in command},
        "stopped": {f"{pid} {name}" for pid, state, name, _ in alive if state == "T"},
        "shm": {name for name in os.listdir("/dev/shm") if any(name == f"teller-{run}" for run in ids)},
        "journals": set(os.listdir(journal)) if journal.is_dir() else set(),
    }


def left(before, after):
    """New things only: what else runs on the machine may come and go."""
    return [f"{what}: {thing}" for what in before for thing in sorted(after[what] - before[what])]


def wait_for_faults(folder, runner):
    """Until the truth says that a stretch has begun, or the runner has ended."""
    while runner.poll() is None:
        for truth in folder.rglob("truth.jsonl"):
            if "stretch_begin" in truth.read_text(errors="replace"):
                return
        time.sleep(0.05)


def attempt(number, kind, teller, work, environment):
    """Kills one runner. Returns (moment, what was left, seconds until the machine was as before, leftovers undone)."""
    own = str(work / str(number))
    folder = pathlib.Path(own)
    folder.mkdir()
    before = machine(work / "state", own, set(), set())
    begun = time.monotonic()
    runner = subprocess.Popen([teller, "run", experiment(kind, folder), "--output", folder / "results"],
                              env=environment, stdout=subprocess.DEVNULL, stderr=open(folder / "err", "w"))
    if number % 3 == 0:
        time.sleep(random.uniform(0, 4))
    else:
        wait_for_faults(folder, runner)
        time.sleep(random.uniform(0, 1.5))
    moment = time.monotonic() - begun
    ended = runner.poll()
    runner.kill()
    runner.wait()
    if ended is not None:
        print((folder / "err").read_text(), file=sys.stderr)
        return moment, [f"the runner had ended by itself with code {ended}"], 0, 0
    ids, networks = journalled(work / "state")
    restore = subprocess.run([teller, "restore", "--json"], env=environment, capture_output=True, text=True, check=False)
    undone = len(json.loads(restore.stdout)["leftovers"]) if restore.returncode == 0 else 0
    restored = time.monotonic()
    problems = [f"restore: {restore.stderr.strip()}"] if restore.returncode != 0 else []
    while True:
        remains = left(before, machine(work / "state", own, ids, networks))
        if not remains or time.monotonic() - restored > GRACE_S:
            break
        time.sleep(0.05)
    return moment, problems + remains, time.monotonic() - restored, undone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50, help="runners to kill (default 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--teller", default=ROOT / "build/release/bin/teller", type=pathlib.Path)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    options = parser.parse_args()
    random.seed(options.seed)
    if not options.teller.exists():
        print(f"kill_runner: {options.teller} is not there; build it first", file=sys.stderr)
        return 4
    if os.geteuid() != 0:
        print("kill_runner: skipped, it needs root: quotas and links are among the kinds", file=sys.stderr)
        return 4
    work = pathlib.Path(tempfile.mkdtemp(prefix="teller-kill-"))
    environment = {**os.environ, "TELLER_STATE_DIR": str(work / "state"), "OMP_NUM_THREADS": "1"}
    failed, slowest = 0, 0.0
    for number in range(options.times):
        kind = options.kinds[number % len(options.kinds)]
        moment, problems, seconds, undone = attempt(number, kind, options.teller, work, environment)
        slowest = max(slowest, seconds)
        failed += bool(problems)
        print(f"{number + 1:3} {kind:18} killed after {moment:5.2f} s, {undone} undone, as before {seconds:4.2f} s after "
              f"'restore'{'' if not problems else ': LEFT ' + '; '.join(problems)}", flush=True)
    shutil.rmtree(work, ignore_errors=True)
    print(f"{options.times - failed} of {options.times} left the machine as it was; at most {slowest:.2f} s after 'restore'")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
