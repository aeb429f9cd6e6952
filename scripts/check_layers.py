#!/usr/bin/env python3
"""Compares every #include with the table of rooms in docs/design.md, section 2.

A room may include itself, core (abi excepted) and the rooms its row names; an outside library that some row names may be
included only in those rooms. Tests may include anything. Exit code 3 where a rule is broken.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALIASES = {"src/workload/serve, load": ["src/workload/serve", "src/workload/load"]}
# How an include line shows which outside library it means.
LIBRARIES = {
    "spdlog": r"^spdlog/", "xxHash": r"^xxhash\.h$", "yaml-cpp": r"^yaml-cpp/", "HDF5": r"^(hdf5|H5\w+)\.h$",
    "SentencePiece": r"^sentencepiece", "torch": r"^(torch|ATen|c10|caffe2)/", "NVTX": r"^nv(tx3/|ToolsExt)",
    "CUPTI": r"^cupti", "cpp-httplib": r"^httplib\.h$", "SQLite": r"^sqlite3\.h$", "simdjson": r"^simdjson",
    "zlib": r"^zlib\.h$", "CLI11": r"^CLI/", "libarchive": r"^archive",
}
NO_FMT = {"src/abi", "src/agent", "src/workload/serve", "src/workload/load", "src/model"}


def room_key(name):
    """'src/workload/launch' -> 'launch', as the table's third column spells rooms."""
    return name.removeprefix("src/").removeprefix("workload/")


def read_table():
    rows = {}
    text = (ROOT / "docs/design.md").read_text()
    section = text.split("## 2. The house", 1)[1].split("\n## 3.", 1)[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or not re.match(r"^(src/|fault_injection)", cells[0]):
            continue
        for room in ALIASES.get(cells[0], [cells[0]]):
            rows[room] = (cells[2], cells[3])
    return rows


def allowed_rooms(room, rows):
    spec = rows[room][0]
    keys = {room_key(r): r for r in rows}
    if spec.startswith("nothing"):
        return {room}
    allowed = {room, "src/core"}
    if spec.startswith("all but"):
        excluded = {"agent", "serve", "load"}
        return allowed | {r for k, r in keys.items() if k not in excluded}
    for word in spec.split():
        if word in keys:
            allowed.add(keys[word])
    if "what it includes" in spec:
        allowed |= allowed_rooms("src/dataset", rows)
    return allowed


def room_of(path, rows):
    for room in sorted(rows, key=len, reverse=True):
        if path.startswith(room + "/"):
            return room
    return None


def check_file(path, room, rows, library_rooms):
    allowed = allowed_rooms(room, rows)
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        place, target = f"{path.relative_to(ROOT)}:{number}", match.group(2)
        other = room_of(target, rows)
        if other and other not in allowed:
            yield f"{place}: {room} may not include {other} ({target})"
        elif match.group(1) == '"' and not other:
            yield f'{place}: "{target}" is not spelled from the repository root or belongs to no room'
        for library, pattern in LIBRARIES.items():
            if re.match(pattern, target) and room not in library_rooms.get(library, set()):
                yield f"{place}: {library} belongs to {sorted(library_rooms.get(library, []))}, not to {room}"
        if target.startswith("fmt/") and room in NO_FMT:
            yield f"{place}: no fmt in {room}"


def main():
    rows = read_table()
    library_rooms = {}
    for room, (_, outside) in rows.items():
        for library in LIBRARIES:
            if library.lower() in outside.lower():
                library_rooms.setdefault(library, set()).add(room)
    problems, files = [], 0
    for folder in ("src", "fault_injection"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".h", ".c", ".cc", ".cu", ".cuh", ".in"}:
                continue
            files += 1
            room = room_of(str(path.relative_to(ROOT)), rows)
            if room is None:
                problems.append(f"{path.relative_to(ROOT)}: in no room of docs/design.md, section 2")
                continue
            problems.extend(check_file(path, room, rows, library_rooms))
    for problem in problems:
        print(problem)
    print(f"{len(rows)} rooms, {files} files, {len(problems)} problems")
    return 3 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
