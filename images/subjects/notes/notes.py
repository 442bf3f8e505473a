#!/usr/bin/python3 -I
"""An example of a subject: an append-only store of notes. `notes run` and `notes recover`.

The file /data/notes has one note a line, "ID TEXT\\n". A note is acknowledged once its line is durable. A last line
without its "\\n" is torn: a crash fell into it, and recovery cuts it off. Nothing else is ever rewritten.
"""

import json
import os
import signal
import sys
from pathlib import Path

# The lab's protocol, all of it. Outside the lab nothing is armed, and nothing here does anything.

NONCE = os.environ.get("LAB_NONCE")
CENSUS = os.environ.get("LAB_CENSUS")
BARRIER = os.environ.get("LAB_BARRIER")
ARMED = os.environ.get("LAB_HOOK")
hits: dict[str, int] = {}


def record(**fields: object) -> None:
    """One record, in one write: 0x1E, JSON, LF. Anything else that is printed is log."""
    if NONCE:
        os.write(1, b"\x1e" + json.dumps({"lab": NONCE, **fields}).encode() + b"\n")


def hook(name: str, **tags: str) -> None:
    """A place where this program may die. The lab kills it where it stands."""
    hits[name] = n = hits.get(name, 0) + 1
    if f"{name}#{n}" == ARMED:
        record(hit=name, n=n, tags=tags)
        while True:
            signal.pause()
    if CENSUS:
        record(hit=name, n=n, tags=tags)
    if name == BARRIER and n == 1:
        record(hit=name, n=n, tags=tags, barrier=True)
        sys.stdin.readline()  # the verifier looks meanwhile


# The store. Hooks stand wherever a crash would leave something else behind.

PATH = Path("/data/notes")
BUG = os.environ.get("BUG")  # a planted bug, see bugs.toml; a real program would have none


def work(store: int, notes: list[dict]) -> None:
    """Add the notes that are not there yet, one after the other."""
    there = {line.split(b" ")[0] for line in PATH.read_bytes().splitlines()}
    missing = [note for note in notes if str(note["id"]).encode() not in there]
    for k, note in enumerate(missing, 1):
        line = f"{note['id']} {note['text']}\n".encode()
        record(op="add", type="invoke", id=k, note=note["id"])
        if BUG == "acknowledge-early":
            record(op="add", type="ok", id=k, note=note["id"])
        hook("note.begun")
        os.write(store, line[: len(line) // 2])
        hook("note.half")
        os.write(store, line[len(line) // 2 :])
        hook("note.written")
        os.fsync(store)
        hook("note.synced")
        if BUG != "acknowledge-early":
            record(op="add", type="ok", id=k, note=note["id"])
        hook("note.acknowledged")


def recover(store: int) -> None:
    """Cut a torn last line."""
    hook("recovery.begun")
    content = PATH.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole != len(content) and BUG != "keep-torn-line":
        os.truncate(store, whole)
        os.fsync(store)
        hook("recovery.cut")
    hook("recovery.done")  # the barrier: recovered, and not yet at work again


def main() -> int:
    if sys.argv[1:] not in (["run"], ["recover"]):
        print("usage: notes run | notes recover", file=sys.stderr)
        return 64
    store = os.open(PATH, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    folder = os.open(PATH.parent, os.O_RDONLY)
    os.fsync(folder)  # the file's name is as durable as its content
    if sys.argv[1] == "recover":
        recover(store)
    work(store, json.loads(os.environ["LAB_WORKLOAD"])["notes"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
