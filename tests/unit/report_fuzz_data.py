"""A factory of synthetic fuzz runs for the tests of their reports: green, so that each test breaks one thing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from lab.fuzz.model import FuzzResult, FuzzTrial, Limits, Scenario
from lab.model import Fact, Kind, Verdict, Word
from lab.plan.shrink import How
from lab.report.fuzz_data import FuzzBug, FuzzData, Short

STORAGES = ("ext4", "tmpfs", "overlay")
HOOKS = ("chat.synced", "queue.removed", "recovery.locked")
FACTS = {"chats-durable": 12, "drafts-durable": 5, "removals-final": 7, "machine-kept-up": 40, "work-done": 3}
DIFFERS = Fact("step=41 op=queue/remove p38 of c1", "in no queue", ["p38"], "it was removed, and waits again")
NOTE = "settings-kept: step=12 op=chat/rename title of c1: expected 't12', found None"
BUG = FuzzBug("draft-before-write", "drafts-durable", "answers before it writes", 4)
RUN = "20261130-101502-7f3a"
SHORT = Short(
    Path(f".lab/runs/{RUN}/shrunk/0007.json"),
    How(61, 5, 140, serial=True, finished=True),
    (f"script    .lab/runs/{RUN}/shrunk/0007.json", "          kill -9   at queue.removed#1"),
)


def result(ident: int, word: Word = Word.PASS, prop: str = "removals-final", **changes: Any) -> FuzzResult:
    """A finished trial; the layers in turn. A violation is of step 41."""
    broken = word in (Word.VIOLATION, Word.UNREPRODUCED)
    verdict = Verdict(
        word,
        why="" if word is Word.PASS else DIFFERS.why if broken else f"why it is {word}",
        property=prop if broken else "",
        broken=(prop,) if broken else (),
        look="end" if broken else "",
        differs=DIFFERS if broken else None,
        facts=FACTS,
    )
    scenario = Scenario(7, ident, "jsonrpc", 3, Limits(), ())
    made = FuzzResult(
        trial=FuzzTrial(ident, Kind.POINT, STORAGES[ident % 3], scenario),
        verdict=verdict,
        took_s=2.5,
        operations=60,
        kills=(f"hook {HOOKS[ident % 2]}#4", "answer#7", "start + 20 ms", "end#1"),
        restarts=4,
        up_ms=(300.0 + ident, 200.0 + ident),
        waits_ms={"chat/new": (1.0, 2.0, 3.0), "queue/remove": tuple(float(n) for n in range(1, 11))},
        notes=(),
        mount="/dev/loop0 /home ext4",
        verifier="fuzz 1",
        evidence=f"evidence/{ident:04d}" if word is not Word.PASS else None,
    )
    return dataclasses.replace(made, **changes)


def canary(ident: int, word: Word = Word.VIOLATION, prop: str = BUG.property, kind: Kind = Kind.CANARY) -> FuzzResult:
    """A try of the planted bug, caught by `prop` if it is a violation."""
    made = result(ident, word, prop)
    return dataclasses.replace(made, trial=dataclasses.replace(made.trial, kind=kind, bug=BUG.name))


def green(count: int = 12) -> list[FuzzResult]:
    return [result(n) for n in range(1, count + 1)]


def data(**changes: Any) -> FuzzData:
    made = FuzzData(
        run=RUN,
        subject="muxd",
        seed=7,
        storages=STORAGES,
        promises={
            "chats-durable": ("sigkill",),
            "drafts-durable": ("sigkill",),
            "removals-final": ("sigkill",),
        },
        hooks=HOOKS[:2],
        took_s=36.0,
        interrupted=False,
        path=Path(f".lab/runs/{RUN}"),
        audits=("machine-kept-up", "work-done"),
        minutes=10.0,
        corpus=2,
        environment={"kernel": "6.18.0", "engine": {"version": "20.10.24"}},
    )
    return dataclasses.replace(made, **changes)
