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
    trials_per_second, operations_per_second, kills_per_second = rates(data)
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
        "trials_per_second": trials_per_second,
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
        "waits_ms": waits_ms(data),
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
            {"cell": leg.cell, "journal_mode": leg.journal_mode, "reason": leg.reason} for leg in legs.refused(data)
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


def waits_ms(data: RunData) -> dict[str, dict[str, float]]:
    """Operation of the clients -> how many waits for an answer, and their quantiles, each a value that was measured."""
    found: dict[str, list[float]] = {}
    for result in data.points():
        for op, waited in result.waits_ms.items():
            found.setdefault(op, []).extend(waited)
    ranked = {op: sorted(waited) for op, waited in sorted(found.items()) if waited}
    shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {
        op: {"count": len(waits), **{name: nearest_rank(waits, share) for name, share in shares.items()}}
        for op, waits in ranked.items()
    }


def _notes(data: RunData) -> dict[str, int]:
    """Kind of loss that was not promised not to happen -> how many, most first."""
    found: Counter[str] = Counter()
    for result in data.points():
        found.update(note_kind(note) for note in result.verdict.notes)
        if result.verdict.word is Word.NOTE and not result.verdict.notes:
            found[result.verdict.property] += 1
    return dict(found.most_common())


def rates(data: RunData) -> tuple[float, float, float]:
    """Trials, operations and kills a second, canaries and probes too."""

    def per_second(count: int) -> float:
        return round(count / data.took_s, 3) if data.took_s > 0 else 0.0

    operations, kills = sum(r.operations for r in data.results), sum(len(r.hits) for r in data.results)
    return per_second(len(data.results)), per_second(operations), per_second(kills)


def _cells(data: RunData) -> dict[str, dict[str, dict[str, str]]]:
    """Layer -> cell -> journal mode -> word."""
    words: dict[str, dict[str, dict[str, str]]] = {}
    for (cell, mode, storage), outcome in legs.outcomes(data).items():
        words.setdefault(storage, {}).setdefault(cell, {})[mode] = outcome.word
    return words
