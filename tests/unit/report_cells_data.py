"""Synthetic runs of a cells campaign for the tests of the reports: green by default, and each way not to be."""

from __future__ import annotations

import dataclasses

from report_data import green as green_matrix

from lab.model import CrashPoint, CrashScript, Fact, Hit, Kind, LedgerCounts, Result, Trial, Verdict, Word
from lab.run.data import BugInfo, HookInfo, LegInfo, RunData

STORAGES = ("ext4", "tmpfs")
CELLS = ("prefix-durability", "consume-once", "outbox-exactly-once")
MODES = ("default", "delete", "wal")
NIGHTLY = (*MODES, "truncate", "persist", "memory", "off")
REASON = "always ends in WAL (store.py, open)"
CLAUSE = 'effect exactly-once ("Resume Means Resume", arXiv 2608.03836)'
DIFFERS = Fact("deliveries[d-1] copies", "at most one unmarked", "request 1 (unmarked), request 3 (unmarked)")
PER_LEG = 3  # trials of a leg on a layer: at a hook, at a moment, and a race


def legs_of(modes=MODES, refused=("delete",)):
    """Every cell in every mode, `consume-once` in the default one alone; what is refused has no workload."""
    found = []
    for cell in CELLS:
        for mode in modes if cell != "consume-once" else modes[:1]:
            if mode in refused:
                found.append(LegInfo(cell, mode, None, REASON, CLAUSE))
            else:
                workload = sum(leg.offered for leg in found)
                found.append(LegInfo(cell, mode, workload, "", CLAUSE, () if mode == "off" else ("sigkill",)))
    return tuple(found)


def results_of(asked, storages=STORAGES):
    """A green result for each trial, the layers of a point one after the other as the campaign plans them."""
    made = []
    for leg in asked:
        for n in range(PER_LEG) if leg.offered else ():
            for storage in storages:
                made.append(_passed(len(made) + 1, leg, storage, n))
    return made


def _passed(ident, leg, storage, n):
    points = ((CrashPoint(1, "append.durable", 7),), (CrashPoint(1, "answer", 9),), ())[n]
    script = CrashScript(leg.workload, points, racers=0 if points else 8)
    trial = Trial(ident, Kind.POINT, storage, script, drawn="cover")
    hits = tuple(Hit(p.hook, p.occurrence) for p in points)
    verdict = Verdict(Word.PASS, facts={leg.cell: 40, "journal-mode": 6})
    return Result(trial, verdict, hits, (300.0,), 3, 2.0, LedgerCounts(effects=3), mount="m", verifier="cells 1")


def run_of(results, asked, **changes):
    data = RunData(
        run="20261130-101502-7f3a",
        campaign="cells",
        subject="sessions",
        seed=3,
        storages=STORAGES,
        trials=tuple(r.trial for r in results),
        results=tuple(results),
        hooks=(HookInfo("append.durable", "an append is durable", "run"), HookInfo("park.before", "unused", "run")),
        expected_hooks=2,
        points_known=90,
        bugs=(BugInfo("redelivery-unmarked", "outbox-exactly-once", "redelivers without a marker"),),
        promises=dict.fromkeys(CELLS, ("sigkill",)),
        environment={"kernel": "6.18.0"},
        took_s=60.0,
        interrupted=False,
        workloads=sum(leg.offered for leg in asked),
        path=green_matrix().path,
        covers=("append.durable",),
        audits=("journal-mode",),
        legs=asked,
    )
    return dataclasses.replace(data, **changes)


def green(**changes):
    asked = legs_of()
    return run_of(results_of(asked), asked, **changes)


def ended(data, ident, word, prop="", differs=None, why="why it is so", **changes):
    """The same run, one trial of which ended otherwise."""
    notes = (f"{prop}: {why}",) if word is Word.NOTE else ()  # as the judge writes them
    verdict = Verdict(word, why, prop, (prop,) if prop else (), "recovered" if differs else "", differs, {}, notes)

    def other(result):
        facts = result.verdict.facts
        changed = dataclasses.replace(result, verdict=dataclasses.replace(verdict, facts=facts), **changes)
        return dataclasses.replace(changed, evidence=f"evidence/{ident:04d}")

    return dataclasses.replace(data, results=tuple(other(r) if r.trial.ident == ident else r for r in data.results))


def number(data, cell, mode, storage, n=0):
    """The trial number of the n-th trial of a leg on a layer."""
    leg = next(g for g in data.legs if (g.cell, g.journal_mode) == (cell, mode))
    return [t.ident for t in data.trials if (t.script.workload, t.storage) == (leg.workload, storage)][n]


def red():
    """A violation of the outbox on one layer, a note on both, a leg that ran in another mode."""
    data = green()
    data = ended(data, number(data, CELLS[2], "wal", "tmpfs"), Word.VIOLATION, CELLS[2], DIFFERS)
    for storage in STORAGES:
        data = ended(data, number(data, CELLS[1], "default", storage, 2), Word.NOTE, CELLS[1], DIFFERS)
    return ended(data, number(data, CELLS[0], "wal", "ext4"), Word.INVALID, "journal-mode", DIFFERS)


def nightly():
    asked = legs_of(NIGHTLY, refused=())
    data = run_of(results_of(asked), asked)
    return ended(data, number(data, CELLS[0], "truncate", "ext4"), Word.VIOLATION, CELLS[0], DIFFERS)


def interrupted():
    return dataclasses.replace(green(), results=green().results[:5], interrupted=True)


def nothing_offered():
    asked = legs_of(refused=MODES)
    return run_of([], asked)


def of_a_bug():
    data = green()
    leg = next(g for g in data.legs if g.name == "outbox-exactly-once@default")
    tries = [r for r in data.results if r.trial.script.workload == leg.workload and r.trial.kills]
    tries = [dataclasses.replace(r, trial=dataclasses.replace(r.trial, bug="redelivery-unmarked")) for r in tries]
    return ended(
        run_of(tries, data.legs, bug="redelivery-unmarked"), tries[0].trial.ident, Word.VIOLATION, CELLS[2], DIFFERS
    )
