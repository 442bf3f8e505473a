"""Storage layers side by side within one run, or two runs layer by layer. Pure; at most 100 columns.

A difference of something that should be equal is marked with `≠`; times differ always, so they get a ratio and no
mark. The trials whose verdicts differ are listed one by one: they are what a comparison is for. Of legs only verdicts
are compared: one that is not offered, or not there, differs from everything, and gets no mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.model import CrashPoint, Result, Word
from lab.report import coverage, legs
from lab.report.failures import place
from lab.report.numbers import up_ms, verdicts
from lab.report.sections import FIRST_POINTS, STARTS
from lab.report.statistics import Quantiles
from lab.report.text import align, in_parts, labelled, percent, plural
from lab.run.data import GREEN, RunData, workload_of
from lab.text import one_line

LISTED = 20  # differing points that are listed; a layer that is broken altogether differs everywhere
COLUMNS = 4  # layers side by side that fit 100 columns

Key = tuple[int, tuple[CrashPoint, ...], str]  # workload, points, faults: what the same trial is on another layer
Column = tuple[str, RunData, str]  # its head, and a layer of a run


def compare(first: RunData, second: RunData | None = None) -> str:
    """The comparison as text. With two runs, each layer that either has is compared with the same one of the other."""
    lines = _within(first) if second is None else _between(first, second)
    legend = "≠ differs from the first column; ×1.2 is a ratio to it, and only an indication"
    bound = "of the failure rate of untried points, 95 %, from those drawn at random alone"
    return "\n".join([*lines, "", *labelled("*", bound), *labelled("legend", legend)]) + "\n"


def _within(data: RunData) -> list[str]:
    lines = [f"{data.run}  {data.campaign} of {data.subject}, seed {data.seed}", ""]
    if not data.storages:
        return [*lines, "no layer to compare"]
    columns = [(storage, data, storage) for storage in data.storages]
    for start in range(1, max(2, len(columns)), COLUMNS - 1):
        lines += [*_numbers([columns[0], *columns[start : start + COLUMNS - 1]]), ""]
    for block in filter(None, (_layers_of_legs(data), _modes_of_cells(data))):
        lines += [*block, ""]
    return lines + _differing(columns)


def _between(first: RunData, second: RunData) -> list[str]:
    runs = (("A", first), ("B", second))
    lines = [f"{name}  {data.run}  {data.campaign} of {data.subject}, seed {data.seed}" for name, data in runs]
    pairs = []
    for storage in dict.fromkeys((*first.storages, *second.storages)):
        lines.append("")
        if storage not in first.storages or storage not in second.storages:
            lines.append(f"{storage}: only in {'A' if storage in first.storages else 'B'}")
            continue
        pairs.append([(f"{storage} {name}", data, storage) for name, data in runs])
        block = _legs_of_runs(first, second, storage)
        lines += [*_numbers(pairs[-1]), *(["", *block] if block else [])]
    lines.append("")
    if (first.seed, first.subject) != (second.seed, second.subject):
        return [*lines, *labelled("points", "not compared one by one: another seed or subject means other workloads")]
    return lines + [line for pair in pairs for line in _differing(pair)]


def _numbers(columns: Sequence[Column]) -> list[str]:
    def each(of: Callable[[RunData, str], str]) -> list[str]:
        return [of(data, storage) for _, data, storage in columns]

    bounds = [coverage.bound(data, storage) for _, data, storage in columns]
    times = [up_ms(data, storage) for _, data, storage in columns]
    rows = [
        ["", *(head for head, _, _ in columns)],
        _equal("trials", each(lambda data, s: f"{len(data.points(s)):,}")),
        *(_equal(word, [f"{verdicts(data, s)[word]:,}" for _, data, s in columns]) for word in Word),
        _equal("hooks killed at", each(lambda data, s: f"{coverage.covered(data, s)} of {data.expected_hooks}")),
        _equal("first points", each(FIRST_POINTS[1])),
        _equal("struck again", each(lambda data, s: f"{coverage.second_crashes(data, s):,}")),
        ["upper bound *", *(percent(bound.upper) if bound else "none" for bound in bounds)],
        ["drawn at random", *(f"{bound.drawn:,}" if bound else "0" for bound in bounds)],
        ["starts a trial", *each(STARTS[1])],
        *([f"recovery {name}", *_times(times, name)] for name in ("p50", "p95", "max")),
    ]
    return align(rows)


def _equal(label: str, cells: list[str]) -> list[str]:
    """A row of what should be equal, each cell that is not marked."""
    return [label, *(cell if cell == cells[0] else f"≠ {cell}" for cell in cells)]


def _times(found: Sequence[Quantiles | None], name: str) -> list[str]:
    values: list[float | None] = [getattr(quantiles, name, None) for quantiles in found]
    base, cells = values[0], []
    for n, value in enumerate(values):
        ratio = f"×{value / base:.2f} " if n and base and value is not None else ""
        cells.append(f"{ratio}{value:,.0f} ms" if value is not None else "none")
    return cells


def _differing(columns: Sequence[Column]) -> list[str]:
    """The points that more than one column tried and that ended differently; reds first."""
    if len(columns) < 2:
        return []
    tried: dict[Key, dict[str, Result]] = {}
    for name, data, storage in columns:
        for result in data.points(storage):
            key = (workload_of(result.trial) or 0, result.trial.kills, result.trial.faults)
            tried.setdefault(key, {})[name] = result
    shared = [tried[key] for key in sorted(tried, key=_order) if len(tried[key]) > 1]
    found = [ended for ended in shared if len(_words(ended)) > 1]
    found.sort(key=lambda ended: _words(ended) <= GREEN)
    names = ", ".join(name for name, _, _ in columns)
    count = f"{plural(len(shared), 'point')} tried on more than one of {names}: {len(found):,} ended differently"
    lines = labelled("points", count)
    for ended in found[:LISTED]:
        words_of = ", ".join(f"{name} {result.verdict.word}" for name, result in ended.items())
        trial = next(iter(ended.values())).trial
        leg = columns[0][1].leg(trial)
        about = leg.name if leg else f"workload {workload_of(trial)}"
        lines += labelled("≠", one_line(f"{place(trial)} ({about}): {words_of}"))
    return lines + (labelled("", f"and {len(found) - LISTED:,} more") if len(found) > LISTED else [])


def _words(ended: dict[str, Result]) -> set[Word]:
    return {result.verdict.word for result in ended.values()}


def _order(key: Key) -> tuple[int, list[tuple[int, str, int, int]], str]:
    workload, points, faults = key
    return workload, [(p.life, p.hook, p.occurrence, p.after_ms) for p in points], faults


# Legs: on the layers, in the journal modes, in two runs.


def _layers_of_legs(data: RunData) -> list[str]:
    """Each leg, its words on the layers, if there are several."""
    if len(data.storages) < 2:
        return []
    found = legs.outcomes(data)
    rows = [
        [leg.cell, leg.journal_mode, *_marked([found[leg.cell, leg.journal_mode, s] for s in data.storages])]
        for leg in legs.shown(data)
    ]
    return in_parts([["cell", "mode", *data.storages], *rows], left=2) if rows else []


def _modes_of_cells(data: RunData) -> list[str]:
    """Each cell on each layer, its words in the journal modes."""
    rows = [[row.cell, row.layer, *_marked(row.outcomes)] for row in legs.rows(data)]
    return in_parts([["cell", "layer", *legs.modes(data)], *rows], left=2) if rows else []


def _legs_of_runs(first: RunData, second: RunData, storage: str) -> list[str]:
    """Each leg of either run, its words in the two runs on one layer."""
    found = [legs.outcomes(data) for data in (first, second)]
    either = dict.fromkeys((leg.cell, leg.journal_mode) for data in (first, second) for leg in legs.shown(data))
    rows = [[cell, mode, *_marked([of.get((cell, mode, storage)) for of in found])] for cell, mode in either]
    return in_parts([["cell", "mode", f"{storage} A", f"{storage} B"], *rows], left=2) if rows else []


def _marked(outcomes: Sequence[legs.Outcome | None]) -> list[str]:
    """Their words; one that is not that of the first which has a verdict is marked."""
    words = [outcome.word if outcome else legs.NO_LEG for outcome in outcomes]
    verdicts_of = [word for word in words if word in list(Word)]
    return [f"≠ {word}" if word in verdicts_of and word != verdicts_of[0] else word for word in words]
