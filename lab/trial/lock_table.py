"""Runs inside a container of lab.trial.diagnosis: prints what it sees as one line of JSON. Standard library only.

/proc/locks names a file by the device of its filesystem and by its inode. A home's own device is in its line of
mountinfo, which is what the table shows, even where `stat` shows another one (btrfs, some overlays).
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

FILES = 200  # of the top two levels
LOCKS = 20
TEXT = 64  # bytes: a process id, a host's name; never a file's real content
PARENTS = 6
COMMAND = 300
HERTZ = os.sysconf("SC_CLK_TCK")
LINE = re.compile(r"\d+: (?P<kind>\w+) +\w+ +(?P<access>\w+) +(?P<pid>-?\d+) +(?P<place>[0-9a-f]+:[0-9a-f]+:\d+) ")


def read(path: str, limit: int = 4096) -> str:
    """What can be read of it; empty if nothing can: a process may end while it is looked at."""
    try:
        with Path(path).open("rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def device(number: int) -> str:
    return f"{os.major(number):02x}:{os.minor(number):02x}"


def mounted(home: str) -> str:
    """The device of the home's filesystem, by mountinfo."""
    for line in read("/proc/self/mountinfo", 1 << 20).splitlines():
        fields = line.split(" ")
        if fields[4] == home:
            major, minor = fields[2].split(":")
            return f"{int(major):02x}:{int(minor):02x}"
    return ""


def files(home: str) -> list[dict[str, object]]:
    """Regular files only: a pipe or a device must not be opened."""
    found: list[dict[str, object]] = []
    for path in sorted([*Path(home).glob("*"), *Path(home).glob("*/*")]):
        try:
            seen = path.lstat()
        except OSError:
            continue
        if not stat.S_ISREG(seen.st_mode):
            continue
        found.append(
            {"path": str(path.relative_to(home)), "device": device(seen.st_dev), "inode": seen.st_ino,
             "size": seen.st_size, "text": read(str(path), TEXT) if seen.st_size <= TEXT else ""}
        )  # fmt: skip
    return found[:FILES]


def process(pid: int) -> dict[str, object] | None:
    """Its row, or None if it has ended. The command's name may hold spaces and brackets: the fields follow the last."""
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields:
        return None
    command = read(f"/proc/{pid}/cmdline", COMMAND).replace("\0", " ").strip() or read(f"/proc/{pid}/comm").strip()
    uptime = float(read("/proc/uptime").split()[0])
    cgroups = [line.split(":", 2)[2] for line in read(f"/proc/{pid}/cgroup").splitlines()]
    cgroup = max(cgroups, key=len, default="")  # of several controllers some may have none for it
    return {"pid": pid, "command": command, "age_s": round(uptime - int(fields[19]) / HERTZ, 2), "cgroup": cgroup}


def parents(pid: int) -> list[dict[str, object]]:
    chain: list[dict[str, object]] = []
    while len(chain) < PARENTS:
        fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
        row = process(pid) if pid else None
        if row is None:
            break
        chain.append(row)
    return chain


def having_open(file: dict[str, object]) -> list[dict[str, object]]:
    """Processes of the same user that have it open."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            opened = [fd.stat() for fd in (folder / "fd").iterdir()]
        except OSError:
            continue
        has_it = any((device(o.st_dev), o.st_ino) == (file["device"], file["inode"]) for o in opened)
        row = process(int(folder.name)) if has_it else None
        if row is not None:
            found.append(row)
    return found


def locks(home: str, there: list[dict[str, object]]) -> list[dict[str, object]]:
    """The held locks on these files; a line with an arrow is of one that waits."""
    devices = {mounted(home), *(str(file["device"]) for file in there)}
    places = {f"{where}:{file['inode']}": file for where in devices for file in there}
    found = []
    for line in read("/proc/locks", 1 << 20).splitlines():
        match = LINE.match(line)
        file = places.get(match["place"]) if match else None
        if match is None or file is None:
            continue
        holder = process(int(match["pid"]))
        found.append(
            {"path": file["path"], "kind": match["kind"], "access": match["access"], "pid": int(match["pid"]),
             "holder": holder, "parents": parents(int(match["pid"])) if holder else [],
             "open_in": [] if holder else having_open(file)}
        )  # fmt: skip
    return found[:LOCKS]


if __name__ == "__main__":
    home = sys.argv[1]
    there = files(home)
    print(json.dumps({"files": there, "locks": locks(home, there)}), flush=True)
