"""Synthetic runs driven by clients for the tests of reports: green, so that each test breaks one thing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from lab.model import (
    CrashPoint,
    Fact,
    Hit,
    Kind,
    LedgerCounts,
    Life,
    Limits,
    Op,
    Reproduced,
    Result,
    Scenario,
    Trial,
    Verdict,
    Word,
)
from lab.plan.shrink import How
from lab.run.data import Bounds, BugInfo, HookInfo, Reproducer, RunData

STORAGES = ("ext4", "tmpfs", "overlay")
HOOKS = ("chat.synced", "queue.removed", "recovery.locked")
FACTS = {"chats-durable": 12, "drafts-durable": 5, "removals-final": 7, "machine-kept-up": 40, "work-done": 3}
DIFFERS = Fact("step=41 op=queue/remove p38 of c1", "in no queue", ["p38"], "it was removed, and waits again")
NOTE = "settings-kept: step=12 op=chat/rename title of c1: expected 't12', found None"
BUG = BugInfo("draft-before-write", "drafts-durable", "answers before it writes", canary=True, within=4)
RUN = "20261130-101502-7f3a"
SCRIPT = Scenario(
    7,
    7,
    "jsonrpc",
    1,
    Limits(),
    (
        Life(
            (Op(38, 1, "prompt/send", {"chat": "c1", "prompt": "p38", "text": "reply 2"}),
             Op(41, 1, "queue/remove", {"chat": "c1", "prompt": "p38"})),
            CrashPoint(1, "queue.removed", 1),
        ),
        Life((), None),
    ),
)  # fmt: skip


def short(after: int = 2, **changes: Any) -> Reproducer:
    """What is left of the scenario of trial 7."""
    how = dataclasses.replace(How(61, after, 140, serial=True, finished=True), **changes)
    return Reproducer(Path(f".lab/runs/{RUN}/shrunk/0007.json"), how, SCRIPT)


def result(ident: int, word: Word = Word.PASS, prop: str = "removals-final", **changes: Any) -> Result:
    """A finished trial; the layers in turn. A violation is of step 41."""
    broken = word is Word.VIOLATION
    verdict = Verdict(
        word,
        why="" if word is Word.PASS else DIFFERS.why if broken else f"why it is {word}",
        property=prop if broken else "",
        broken=(prop,) if broken else (),
        look="end" if broken else "",
        differs=DIFFERS if broken else None,
        facts=FACTS,
    )
    made = Result(
        trial=Trial(ident, Kind.POINT, STORAGES[ident % 3], Scenario(7, ident, "jsonrpc", 3, Limits(), ())),
        verdict=verdict,
        hits=(Hit(HOOKS[ident % 2], 4), Hit("answer", 7), Hit("start", 20), Hit("end", 1)),
        up_ms=(300.0 + ident, 200.0 + ident),
        starts=7,
        took_s=2.5,
        counts=LedgerCounts(),
        processes=5,
        operations=60,
        waits_ms={"chat/new": (1.0, 2.0, 3.0), "queue/remove": tuple(float(n) for n in range(1, 11))},
        mount="/dev/loop0 /home ext4",
        verifier="fuzz 1",
        evidence=f"evidence/{ident:04d}" if word is not Word.PASS else None,
        reproduced=Reproduced(2, 3) if broken else None,
    )
    return dataclasses.replace(made, **changes)


def noted(ident: int, *notes: str) -> Result:
    """A trial that lost what was not promised to be kept."""
    made = result(ident)
    return dataclasses.replace(made, verdict=dataclasses.replace(made.verdict, word=Word.NOTE, notes=notes or (NOTE,)))


def canary(ident: int, word: Word = Word.VIOLATION, prop: str = BUG.property, kind: Kind = Kind.CANARY) -> Result:
    """A try of the planted bug, caught by `prop` if it is a violation."""
    made = result(ident, word, prop)
    return dataclasses.replace(made, trial=dataclasses.replace(made.trial, kind=kind, bug=BUG.name))


def green(count: int = 12) -> list[Result]:
    return [result(n) for n in range(1, count + 1)]


def run_of(results: list[Result], **changes: Any) -> RunData:
    made = RunData(
        run=RUN,
        campaign="fuzz",
        subject="muxd",
        seed=7,
        storages=STORAGES,
        trials=(),
        results=tuple(results),
        hooks=tuple(HookInfo(name, f"what {name} means", "run") for name in HOOKS[:2]),
        expected_hooks=2,
        promises={
            "chats-durable": ("sigkill",),
            "drafts-durable": ("sigkill",),
            "removals-final": ("sigkill",),
        },
        environment={"kernel": "6.18.0", "engine": {"version": "20.10.24"}},
        took_s=36.0,
        interrupted=False,
        path=Path(f".lab/runs/{RUN}"),
        audits=("machine-kept-up", "work-done"),
        has_ledger=False,
        bounds=Bounds(10.0, None),
    )
    return dataclasses.replace(made, **changes)
