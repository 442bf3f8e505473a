"""The evidence of a good trial as data, so that a test can break one link of it and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

from lab.model import CrashPoint, CrashScript, Evidence, Fact, Finding, Hit, Kind, Look, Phase, Process, Trial

PROMISES = {"prefix-durable": ("sigkill",), "legal-state": ("sigkill",), "effects": ("powercut",)}
LINE = "271 262 7:0 / /data rw,relatime - ext4 /dev/loop0 rw"
WRONG_LINE = "271 262 0:52 / /data rw,relatime - tmpfs tmpfs rw,size=65536k"
FIRST = CrashPoint(1, "log.synced", 17)
SECOND = CrashPoint(2, "recovery.cut", 1)
DIFFERS = Fact("log[41]", "a record", None, "the acknowledged record 41 is lost")


def killed(point: CrashPoint, **changes: Any) -> Process:
    """A process that was really killed at its point."""
    process = Process(
        number=point.life,
        command=("kernel", "run" if point.life == 1 else "recover"),
        armed=None if point.is_moment else point.place,
        hit=Hit(point.hook, point.occurrence, {"class": "once"}),
        alive="psutil",
        killed=True,
        exit_code=137,
        oom_killed=False,
        gone="psutil",
        mount=LINE,
        fault=point.fault,
    )
    return dataclasses.replace(process, **changes)


def finished(number: int, armed: str | None = None, **changes: Any) -> Process:
    """A process that worked to its end by itself."""
    process = Process(number, ("kernel", "recover"), armed, exit_code=0, oom_killed=False)
    return dataclasses.replace(process, **changes)


def look(name: str, process: int, **differs: Fact) -> Look:
    """A look that compared some facts of every property; `differs` by property, with _ for -."""
    found = {p: Finding(9, differs.get(p.replace("-", "_"))) for p in PROMISES}
    return Look(name, process, found, LINE, history=2, ledger={"requests": [], "effects": []})


def crash(ident: int, *points: CrashPoint, racers: int = 0, **more: Any) -> Trial:
    """A trial of a subject that drives itself, and is struck at these points."""
    return Trial(ident, more.pop("kind", Kind.POINT), "ext4", CrashScript(7, points, racers), **more)


def good(**changes: Any) -> Evidence:
    """One crash, recovered, resumed to the end: every link was seen."""
    evidence = Evidence(
        trial=crash(412, FIRST),
        nonce="c0ffee",
        mount={"filesystem": "ext4", "source": "/dev/loop0", "options": {}},
        phases=(Phase("volume", 0.0, 20.0), Phase("hook", 20.0, 300.0), Phase("look:end", 600.0, 25.0)),
        processes=(killed(FIRST), finished(2)),
        looks=(look("killed", 1), look("recovered", 2), look("end", 2)),
        history=({"op": "append", "type": "invoke", "id": 1, "process": 1}, {"process": 1, "died": True}),
        ledger={"requests": [], "effects": []},
        verifier="kernel 1",
        starts=3,
        up_ms=(41.5,),
    )
    return dataclasses.replace(evidence, **changes)


def twice_killed(**changes: Any) -> Evidence:
    """Killed in its run and again in its recovery."""
    evidence = good(
        trial=crash(413, FIRST, SECOND),
        processes=(killed(FIRST), killed(SECOND), finished(3)),
        looks=(look("killed", 1), look("killed", 2), look("recovered", 3), look("end", 3)),
    )
    return dataclasses.replace(evidence, **changes)


def probed(**changes: Any) -> Evidence:
    """A probe whose occurrence does not exist: one process, to its end."""
    evidence = good(
        trial=crash(900, FIRST, kind=Kind.PROBE, drawn="all"),
        processes=(finished(1, armed=FIRST.place),),
        looks=(look("end", 1),),
        up_ms=(),
    )
    return dataclasses.replace(evidence, **changes)


def with_process(evidence: Evidence, number: int, **changes: Any) -> Evidence:
    """The same evidence with one process changed."""
    processes = tuple(dataclasses.replace(p, **changes) if p.number == number else p for p in evidence.processes)
    return dataclasses.replace(evidence, processes=processes)


def with_look(evidence: Evidence, index: int, **changes: Any) -> Evidence:
    """The same evidence with one look changed."""
    looks = tuple(dataclasses.replace(seen, **changes) if i == index else seen for i, seen in enumerate(evidence.looks))
    return dataclasses.replace(evidence, looks=looks)
