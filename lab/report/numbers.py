"""A run in numbers: the content of `summary.json`, one schema for all campaigns. docs/reports.md names every key. Pure.

An interface that other tools read: keys are only ever added, and are always there, empty where a run has no such thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from lab.model import Json, Word
from lab.report import coverage, legs
from lab.report.document import Headline
from lab.report.failures import groups, note_kind
from lab.report.statistics import Quantiles, nearest_rank, quantiles
from lab.run.data import RunData

FORMAT = 1


def numbers(data: RunData, headline: Headline, gaps: Sequence[str]) -> Json:
    """All numbers of a run. A partial run gives partial ones."""
    points, planted = data.points(), coverage.canaries(data)
    bounds = {storage: coverage.bound(data, storage) for storage in data.storages}
    times = {storage: up_ms(data, storage) for storage in data.storages}
    operations_per_second, kills_per_second = rates(data)
    return {
        "format": FORMAT,
        "run": data.run,
        "campaign": data.campaign,
        "subject": data.subject,
        "seed": data.seed,
        "faults": list(data.faults),
        "word": headline.word,
        "exit_code": headline.exit_code,
        "interrupted": data.interrupted,
        "no_work": list(gaps),
        "took_s": round(data.took_s, 3),
        "planned": data.planned(),
        "trials": len(points),
        "verdicts": verdicts(data),
        "by_storage": {storage: verdicts(data, storage) for storage in data.storages},
        "distinct_violations": sum(group[0].verdict.word is Word.VIOLATION for group in groups(data)),
        "kills": coverage.kills(data),
        "second_crashes": coverage.second_crashes(data),
        "kills_by_kind": coverage.kinds(data),
        "operations": sum(r.operations for r in points),
        "restarts": restarts(data),
        "trials_per_second": per_second(len(data.results), data),
        "operations_per_second": operations_per_second,
        "kills_per_second": kills_per_second,
        "container_starts_per_trial": starts_each(data),
        "hooks": {
            "expected": data.expected_hooks,
            "covered": coverage.covered_everywhere(data),
            "killed_at": {hook.name: coverage.kills_at(data)[hook.name] for hook in data.hooks},
            "never": list(coverage.uncovered(data)),
        },
        "points": {"known": data.points_known, "tried": {s: coverage.first_points(data, s) for s in data.storages}},
        "bound": {storage: found and asdict(found) for storage, found in bounds.items()},
        "up_ms": {storage: found and asdict(found) for storage, found in times.items()},
        "waits_ms": {op: waits(ranked) for op, ranked in waits_ms(data).items()},
        "facts": coverage.facts(data),
        "notes": _notes(data),
        "ledger": coverage.ledger_totals(data) if data.has_ledger else {},
        "canaries": {
            "planted": len(planted),
            "caught": sum(c.caught_by is not None for c in planted),
            "missed": [c.name for c in coverage.missed_canaries(data)],
        },
        "shrunk": sum(found.is_shorter for found in data.reproducers.values()),
        "corpus": sum(r.trial.drawn == "corpus" for r in points),
        "cells": _cells(data),
        "not_offered": [
            {"cell": leg.cell, "journal_mode": leg.journal_mode, "reason": leg.reason}
            for leg in legs.shown(data)
            if not leg.offered
        ],
    }


def verdicts(data: RunData, storage: str | None = None) -> dict[str, int]:
    """Every word, zeros included."""
    counts = Counter(r.verdict.word for r in data.points(storage))
    return {word.value: counts[word] for word in Word}


def restarts(data: RunData, storage: str | None = None) -> int:
    return sum(max(0, r.processes - 1) for r in data.points(storage))


def starts_each(data: RunData, storage: str | None = None) -> float:
    """Containers that were started for a trial, in the mean."""
    counts = [r.starts for r in data.points(storage)]
    return round(sum(counts) / len(counts), 3) if counts else 0.0


def up_ms(data: RunData, storage: str) -> Quantiles | None:
    """How long it took a process to be up again, or to recover."""
    return quantiles([ms for r in data.judged(storage) for ms in r.up_ms])


def waits_ms(data: RunData) -> dict[str, list[float]]:
    """Operation of the clients -> every wait for an answer, sorted."""
    found: dict[str, list[float]] = {}
    for result in data.points():
        for op, waited in result.waits_ms.items():
            found.setdefault(op, []).extend(waited)
    return {op: sorted(waited) for op, waited in sorted(found.items()) if waited}


def waits(ranked: Sequence[float]) -> dict[str, float]:
    """Of sorted waits; each a value that was measured (nearest rank)."""
    p50, p95, p99 = (nearest_rank(ranked, share) for share in (0.50, 0.95, 0.99))
    return {"count": len(ranked), "p50": p50, "p95": p95, "p99": p99, "max": ranked[-1]}


def _notes(data: RunData) -> dict[str, int]:
    """Kind of loss that was not promised not to happen -> how many, most first."""
    found: Counter[str] = Counter()
    for result in data.points():
        found.update(note_kind(note) for note in result.verdict.notes)
        if result.verdict.word is Word.NOTE and not result.verdict.notes:
            found[result.verdict.property] += 1
    return dict(found.most_common())


def per_second(count: int, data: RunData) -> float:
    return round(count / data.took_s, 3) if data.took_s > 0 else 0.0


def rates(data: RunData) -> tuple[float, float]:
    """Operations and kills a second, of all trials, canaries and probes too."""
    operations, kills = sum(r.operations for r in data.results), sum(len(r.hits) for r in data.results)
    return per_second(operations, data), per_second(kills, data)


def _cells(data: RunData) -> dict[str, dict[str, dict[str, str]]]:
    """Layer -> cell -> journal mode -> word."""
    words: dict[str, dict[str, dict[str, str]]] = {}
    for (cell, mode, storage), outcome in legs.outcomes(data).items():
        words.setdefault(storage, {}).setdefault(cell, {})[mode] = outcome.word
    return words
