"""Merges the shards of one campaign into one run: `lab merge`. Refuses a set that is not whole, or not of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.codec import dump
from lab.engine.errors import UsageError
from lab.plan.points import Plan
from lab.run.record import ARCHIVE_BYTES, Record

SHARED = ("subject.json", "inputs.json", "census.json")  # must say the same in every shard


def merge_shards(out: Path, names: tuple[str, ...], say: Callable[[str], None]) -> Record:
    """Make the run `out` of the given ones. Raises UsageError if they do not fit."""
    records = [Record.find(name) for name in names]
    for record in records:
        record.header()  # of another format: that is what it says, and not that its plan is damaged
        if not record.plan().trials:
            raise UsageError(f"{record.path.name} has no shards: its plan has no end", "Run it longer, or more seeds.")
    first = records[0]
    for record in records[1:]:
        _refuse_strangers(first, record)
    if out.exists():
        raise UsageError(f"{out} already exists", "Choose a new folder.")
    plan = _union([record.plan() for record in records])
    out.mkdir(parents=True)
    merged = Record(out.resolve())
    for name in (*SHARED, "prepared.tar"):
        merged.write_bytes(name, first.read_bytes(name, ARCHIVE_BYTES))
    merged.write("run.json", replace(first.header(), run=out.name))
    merged.write_plan(plan)
    merged.write_bytes("journal.jsonl", _journal(records))
    for record in records:
        for path in sorted((record.path / "evidence").rglob("*")):
            name = path.relative_to(record.path).as_posix()
            if record.has(name):  # no link: it may lead anywhere
                merged.write_bytes(name, record.read_bytes(name, ARCHIVE_BYTES))
    say(f"merge    {len(records)} shards, {len(plan.trials):,} trials")
    return merged


def _refuse_strangers(first: Record, other: Record) -> None:
    a, b = first.header(), other.header()
    for what in ("campaign", "seed", "storages", "bug", "faults", "options", "subject_image", "verifier_image"):
        if getattr(a, what) != getattr(b, what):
            raise UsageError(f"{b.run} is not a shard of the same run as {a.run}: its {what} is {getattr(b, what)!r}")
    for name in SHARED:
        if _content(first, name) != _content(other, name):
            raise UsageError(f"{b.run} is not a shard of the same run as {a.run}: its {name} differs")


def _content(record: Record, name: str) -> Any:
    """A shared file, without where the subject's own files lay: shards may come from several machines."""
    content = record.read(name)
    return {**content, "folder": ""} if name == "subject.json" else content


def _union(plans: list[Plan]) -> Plan:
    """One plan of all shards. A shard that is not there leaves a hole in the numbers, which is refused."""
    for plan in plans[1:]:
        if replace(plan, trials=()) != replace(plans[0], trials=()):
            raise UsageError("the shards are of different plans: were all made with the same options?")
    trials = sorted((trial for plan in plans for trial in plan.trials), key=lambda t: t.ident)
    idents = [trial.ident for trial in trials]
    if len(set(idents)) != len(idents):
        raise UsageError("two of the shards hold the same trial: is one of them given twice?")
    missing = set(range(1, plans[0].whole + 1)) - set(idents)
    if missing:
        raise UsageError(f"{len(missing):,} trials are in no shard, the first is {min(missing)}", "Give all shards.")
    return replace(plans[0], trials=tuple(trials))


def _journal(records: list[Record]) -> bytes:
    """One session per shard, one after the other: the time of the whole is the work of all."""
    return b"".join(dump(line) for record in records for line in record.journal())
