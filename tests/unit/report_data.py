"""Synthetic runs of a plan for the tests of reports: green by default, so that each test breaks one thing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from lab.model import CrashPoint, CrashScript, Fact, Hit, Kind, LedgerCounts, Result, Trial, Verdict, Word
from lab.run.data import BugInfo, HookInfo, RunData
from lab.subject.spec import CoverageTable

STORAGES = ("ext4", "tmpfs", "overlay")
HOOKS = (
    HookInfo("log.synced", "a frame is durable", "run"),
    HookInfo("intent.durable_unsent", "an intent is durable and not sent", "run"),
    HookInfo("intent.landed_unrecorded", "an effect has landed and is not recorded", "run"),
    HookInfo("recovery.replayed", "the log has been replayed", "recovery"),
)
WINDOWS = ("intent.durable_unsent", "intent.landed_unrecorded")
CLASSES = ("pure", "keyed", "once")
BUG = BugInfo("ack-before-append", "prefix-durable", "acknowledges before it appends", canary=True)
FACTS = {"prefix-durable": 41, "effects-exactly-once": 12}
DIFFERS = Fact('effects["11/4/charge/{\\"amount\\":17}"]', 1, 2, "requests 41 and 58, the second after recovery")


def trial_at(ident: int, kind: Kind, storage: str, workload: int, *points: CrashPoint, **more: Any) -> Trial:
    """A trial of a subject that drives itself."""
    return Trial(ident, kind, storage, CrashScript(workload, points), **more)


def point_result(ident: int, storage: str, word: Word = Word.PASS, **changes: Any) -> Result:
    """A finished trial at a first point, in turn over the hooks and classes; one in five crashes in recovery too."""
    turn = ident % 100
    hook = HOOKS[turn % 3].name
    first = CrashPoint(1, hook, 1 + turn // 3)
    second = (CrashPoint(2, HOOKS[3].name, 1),) if turn % 5 == 0 else ()
    tags = {"class": CLASSES[turn // 3 % 3]}
    hits = (Hit(hook, first.occurrence, tags), *(Hit(p.hook, p.occurrence) for p in second))
    broken = word is Word.VIOLATION
    verdict = Verdict(
        word,
        why="" if word is Word.PASS else f"why it is {word}",
        property="effects-exactly-once" if broken else "",
        broken=("effects-exactly-once",) if broken else (),
        look="recovered" if broken else "",
        differs=DIFFERS if broken else None,
        facts=FACTS,
    )
    result = Result(
        trial=trial_at(ident, Kind.POINT, storage, turn % 4, first, *second, drawn="cover" if turn < 9 else "random"),
        verdict=verdict,
        hits=hits,
        up_ms=tuple(30.0 + turn + 10 * STORAGES.index(storage) for _ in hits),
        starts=2 + len(hits),
        took_s=0.9,
        counts=LedgerCounts(resent=2, deduped=1, fenced=1, receipts=1, effects=4),
        mount=f"/dev/loop0 /data {storage}",
        verifier="kernel 1",
        evidence=f"evidence/{ident:04d}" if word is not Word.PASS else None,
        processes=1 + len(hits),
    )
    return dataclasses.replace(result, **changes)


def canary_result(ident: int, storage: str, word: Word = Word.VIOLATION, caught_by: str = BUG.property) -> Result:
    """A try of the planted bug, caught by `caught_by`."""
    trial = trial_at(ident, Kind.CANARY, storage, 0, CrashPoint(1, "log.synced", 2), bug=BUG.name)
    verdict = Verdict(word, property=caught_by, broken=(caught_by,) if caught_by else (), facts=FACTS)
    return Result(trial, verdict, (Hit("log.synced", 2),), (40.0,), 3, 0.8, LedgerCounts())


def probe_result(ident: int, word: Word = Word.PASS) -> Result:
    """An occurrence that does not exist was asked for."""
    trial = trial_at(ident, Kind.PROBE, "ext4", 0, CrashPoint(1, "log.synced", 99))
    return Result(trial, Verdict(word, why=f"why it is {word}", facts=FACTS), (), (), 2, 0.5, LedgerCounts())


def green_results(per_layer: int = 40) -> list[Result]:
    """Every point on every layer passes, and every canary is caught. Trial numbers: 0…, 100…, 200…; canaries 300…"""
    points = [point_result(100 * n + i, s) for n, s in enumerate(STORAGES) for i in range(per_layer)]
    return points + [canary_result(300 + n, s) for n, s in enumerate(STORAGES)]


def run_of(results: list[Result], **changes: Any) -> RunData:
    """A run whose plan is just what these results are of."""
    data = RunData(
        run="20261130-101502-7f3a",
        campaign="matrix",
        subject="kernel",
        seed=814467209,
        storages=STORAGES,
        trials=tuple(r.trial for r in results),
        results=tuple(results),
        hooks=HOOKS,
        expected_hooks=len(HOOKS),
        points_known=8214,
        population=8205,
        bugs=(BUG, BugInfo("key-from-attempt", "effects-exactly-once", "takes the key from the attempt number")),
        coverage=CoverageTable(
            windows=WINDOWS, by="class", values=CLASSES, ledger=("resent", "deduped", "fenced", "receipts")
        ),
        promises={"prefix-durable": ("sigkill",), "effects-exactly-once": ("sigkill", "powercut")},
        environment={
            "engine": {"version": "20.10.24", "storage_driver": "overlay2"},
            "kernel": "6.18.0",
            "cores": 2,
            "images": {"kernel": "sha256:0e1f…", "verifier": "sha256:77ab…"},
            "filesystems": {"ext4": "loop, 64 MiB", "tmpfs": "64 MiB", "overlay": "two layers"},
            "packages": ["docker 7.2.0", "rich 15.0.0"],
        },
        took_s=358.0,
        interrupted=False,
        workloads=10,
        path=Path(".lab/runs/20261130-101502-7f3a"),
    )
    return dataclasses.replace(data, **changes)


def green(**changes: Any) -> RunData:
    """A green run."""
    return run_of(green_results(), **changes)


def replaced(results: list[Result], *others: Result) -> list[Result]:
    """The same results, with those of the same trial number replaced."""
    by_ident = {r.trial.ident: r for r in others}
    return [by_ident.pop(r.trial.ident, r) for r in results] + list(by_ident.values())
