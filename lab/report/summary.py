"""A run in numbers: what `summary.json` holds, and the exit code that follows from it.

Pure. The JSON form is an interface that other tools read: docs/reports.md names every key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from lab import model
from lab.model import Json, Kind, Word
from lab.report import coverage, legs
from lab.report.data import BROKEN, LegInfo, RunData
from lab.report.statistics import Quantiles, quantiles, upper_bound

EXIT_PASS = 0
EXIT_BROKEN = 1
EXIT_NO_EVIDENCE = 2
EXIT_ERROR = 3
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Bound:
    """The upper 95 % bound of the failure rate of untried points, from those drawn at random and only from them."""

    drawn: int
    failed: int
    upper: float


@dataclass(frozen=True)
class Layer:
    """One storage layer in numbers."""

    storage: str
    planned: int
    trials: int
    verdicts: dict[str, int]  # every word, zeros included
    kills: int
    second_crashes: int
    hooks_covered: int
    points_tried: int  # different first points, of `points_known`
    starts_per_trial: float
    recovery: Quantiles | None
    bound: Bound | None


@dataclass(frozen=True)
class Summary:
    """A whole run in numbers. Canaries and probes are in no count of trials, verdicts, kills or starts."""

    run: str
    campaign: str
    subject: str
    seed: int
    planned: int
    trials: int
    verdicts: dict[str, int]
    layers: tuple[Layer, ...]
    points_known: int
    hooks_expected: int
    hooks_covered: int  # on every layer
    canaries_planted: int
    canaries_caught: int
    canaries_missed: tuple[str, ...]  # "bug on layer"
    kills: int
    second_crashes: int
    container_starts_per_trial: float
    trials_per_second: float
    took_s: float
    ledger: dict[str, int]
    facts: dict[str, int]
    bound: Bound | None  # of the layer where it is highest
    no_work: tuple[str, ...]
    interrupted: bool
    exit_code: int
    cells: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)  # layer -> cell -> journal mode -> word
    not_offered: tuple[LegInfo, ...] = ()


def summarise(data: RunData) -> Summary:
    """All numbers of a run. A partial run gives a partial summary, and is not green."""
    layers = tuple(_layer(data, storage) for storage in data.storages)
    planted = coverage.canaries(data)
    missed = tuple(f"{c.bug.name} on {c.storage}" for c in planted if c.caught_by is None)
    no_work = coverage.gaps(data)
    points = data.points()
    bounds = [layer.bound for layer in layers if layer.bound]
    return Summary(
        run=data.run,
        campaign=data.campaign,
        subject=data.subject,
        seed=data.seed,
        planned=sum(t.kind is Kind.POINT for t in data.trials),
        trials=len(points),
        verdicts=_verdicts(data, None),
        layers=layers,
        points_known=data.points_known,
        hooks_expected=data.expected_hooks,
        hooks_covered=coverage.covered_everywhere(data),
        canaries_planted=len(planted),
        canaries_caught=len(planted) - len(missed),
        canaries_missed=missed,
        kills=sum(layer.kills for layer in layers),
        second_crashes=sum(layer.second_crashes for layer in layers),
        container_starts_per_trial=_mean([r.starts for r in points]),
        trials_per_second=round(len(data.results) / data.took_s, 3) if data.took_s > 0 else 0.0,
        took_s=data.took_s,
        ledger=coverage.ledger_totals(data),
        facts=coverage.facts(data),
        bound=max(bounds, key=lambda b: b.upper) if bounds else None,
        no_work=no_work,
        interrupted=data.interrupted,
        exit_code=exit_code({r.verdict.word for r in data.failures()}, data.interrupted, bool(no_work or missed)),
        cells=_cells(data),
        not_offered=tuple(leg for leg in legs.shown(data) if not leg.offered),
    )


def _layer(data: RunData, storage: str) -> Layer:
    points, judged = data.points(storage), data.judged(storage)
    return Layer(
        storage=storage,
        planned=data.planned(storage),
        trials=len(points),
        verdicts=_verdicts(data, storage),
        kills=sum(len(r.hits) for r in judged),
        second_crashes=sum(len(r.hits) > 1 for r in judged),
        hooks_covered=len(data.hooks) - len(coverage.uncovered(data, storage)),
        points_tried=len({(r.trial.workload, r.trial.points[0]) for r in judged if r.trial.points}),
        starts_per_trial=_mean([r.starts for r in points]),
        recovery=quantiles([ms for r in judged for ms in r.recovery_ms]),
        bound=_bound(data, storage),
    )


def _cells(data: RunData) -> dict[str, dict[str, dict[str, str]]]:
    words: dict[str, dict[str, dict[str, str]]] = {}
    for (cell, mode, storage), outcome in legs.outcomes(data).items():
        words.setdefault(storage, {}).setdefault(cell, {})[mode] = outcome.word
    return words


def _verdicts(data: RunData, storage: str | None) -> dict[str, int]:
    counts = Counter(r.verdict.word for r in data.points(storage))
    return {word.value: counts[word] for word in Word}


def _bound(data: RunData, storage: str) -> Bound | None:
    """Per layer, since the same points are tried on each: together they are not independent draws."""
    drawn = [r for r in data.judged(storage) if r.trial.drawn == "random"]
    failed = sum(r.verdict.word in BROKEN for r in drawn)
    return Bound(len(drawn), failed, upper_bound(failed, len(drawn))) if drawn else None


def _mean(counts: list[int]) -> float:
    return round(sum(counts) / len(counts), 3) if counts else 0.0


def exit_code(words: Collection[Word], interrupted: bool, lacks_evidence: bool) -> int:
    """Of the red trials' words, the first that applies.

    An unfinished run has no last word; a broken promise stands whatever else failed.
    """
    if interrupted:
        return EXIT_INTERRUPTED
    if Word.VIOLATION in words:
        return EXIT_BROKEN
    if Word.ERROR in words:
        return EXIT_ERROR
    if words or lacks_evidence:
        return EXIT_NO_EVIDENCE
    return EXIT_PASS


def to_json(summary: Summary) -> Json:
    """The content of `summary.json`."""
    refused = [
        {"cell": leg.cell, "journal_mode": leg.journal_mode, "reason": leg.reason} for leg in summary.not_offered
    ]
    of_cells = {"cells": summary.cells, "not_offered": refused} if summary.cells else {}
    return {
        "run": summary.run,
        "campaign": summary.campaign,
        "subject": summary.subject,
        "seed": summary.seed,
        "planned": summary.planned,
        "trials": summary.trials,
        "verdicts": summary.verdicts,
        "by_storage": {layer.storage: layer.verdicts for layer in summary.layers},
        "hooks": {"expected": summary.hooks_expected, "covered": summary.hooks_covered},
        "canaries": {
            "planted": summary.canaries_planted,
            "caught": summary.canaries_caught,
            "missed": list(summary.canaries_missed),
        },
        "container_starts_per_trial": summary.container_starts_per_trial,
        "trials_per_second": summary.trials_per_second,
        "took_s": round(summary.took_s, 3),
        "kills": summary.kills,
        "second_crashes": summary.second_crashes,
        "points": {
            "known": summary.points_known,
            "tried": {layer.storage: layer.points_tried for layer in summary.layers},
        },
        "recovery_ms": {layer.storage: model.to_json(layer.recovery) for layer in summary.layers},
        "bound": {layer.storage: model.to_json(layer.bound) for layer in summary.layers},
        "ledger": summary.ledger,
        "facts": summary.facts,
        "no_work": list(summary.no_work),
        "interrupted": summary.interrupted,
        "exit_code": summary.exit_code,
        **of_cells,
    }
