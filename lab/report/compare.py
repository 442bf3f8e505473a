"""Storage layers side by side within one run, or two runs layer by layer. Pure; at most 100 columns.

A difference of something that should be equal is marked with `≠`; times differ always, so they get a ratio and no
mark. The trials whose verdicts differ are listed one by one: they are what a comparison is for.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.model import CrashPoint, Result, Word
from lab.report.compare_legs import layers_of_legs, legs_of_runs, modes_of_cells
from lab.report.data import GREEN, RunData
from lab.report.statistics import Quantiles
from lab.report.summary import Layer, summarise
from lab.report.table import align, labelled
from lab.report.text import one_line, percent, plural, points

LISTED = 20  # differing points that are listed; a layer that is broken altogether differs everywhere
COLUMNS = 4  # layers side by side that fit 100 columns

Key = tuple[int, tuple[CrashPoint, ...], str]  # workload, points, fault: what the same trial is on another layer


def compare(first: RunData, second: RunData | None = None) -> str:
    """The comparison as text. With two runs, each layer that either has is compared with the same one of the other."""
    lines = _within(first) if second is None else _between(first, second)
    legend = "≠ differs from the first column; ×1.2 is a ratio to it, and only an indication"
    bound = "of the failure rate of untried points, 95 %, from those drawn at random alone"
    return "\n".join([*lines, "", *labelled("*", bound), *labelled("legend", legend)]) + "\n"


def _within(data: RunData) -> list[str]:
    layers = summarise(data).layers
    lines = [f"{data.run}  {data.campaign} of {data.subject}, seed {data.seed}", ""]
    if not layers:
        return [*lines, "no layer to compare"]
    first, others = layers[0], layers[1:]
    for start in range(0, max(1, len(others)), COLUMNS - 1):
        shown = (first, *others[start : start + COLUMNS - 1])
        lines += [*_columns([layer.storage for layer in shown], shown, [data] * len(shown)), ""]
    for block in (layers_of_legs(data), modes_of_cells(data)):
        lines += [*block, ""] if block else []
    lines += _differing(data, [(s, _by_key(data, s)) for s in data.storages])
    return lines


def _between(first: RunData, second: RunData) -> list[str]:
    here, there = ({layer.storage: layer for layer in summarise(data).layers} for data in (first, second))
    lines = [f"A  {first.run}  {first.campaign} of {first.subject}, seed {first.seed}"]
    lines += [f"B  {second.run}  {second.campaign} of {second.subject}, seed {second.seed}"]
    for storage in dict.fromkeys((*here, *there)):
        lines.append("")
        if storage not in here or storage not in there:
            lines.append(f"{storage}: only in {'A' if storage in here else 'B'}")
            continue
        lines += _columns([f"{storage} A", f"{storage} B"], (here[storage], there[storage]), [first, second])
        block = legs_of_runs(first, second, storage)
        lines += ["", *block] if block else []
    lines.append("")
    if (first.seed, first.subject) != (second.seed, second.subject):
        return [*lines, *labelled("points", "not compared one by one: another seed or subject means other workloads")]
    both = [s for s in here if s in there]
    pairs = [[(f"{s} A", _by_key(first, s)), (f"{s} B", _by_key(second, s))] for s in both]
    return lines + [line for pair in pairs for line in _differing(first, pair)]


def _columns(names: Sequence[str], layers: Sequence[Layer], runs: Sequence[RunData]) -> list[str]:
    rows = [["", *names]]
    rows += [_equal("trials", [f"{layer.trials:,}" for layer in layers])]
    rows += [_equal(word.value, [f"{layer.verdicts[word]:,}" for layer in layers]) for word in Word]
    rows += [
        _equal(
            "hooks killed at",
            [f"{layer.hooks_covered} of {r.expected_hooks}" for layer, r in zip(layers, runs, strict=True)],
        ),
        _equal(
            "points tried",
            [f"{layer.points_tried:,} of {r.points_known:,}" for layer, r in zip(layers, runs, strict=True)],
        ),
        _equal("second crashes", [f"{layer.second_crashes:,}" for layer in layers]),
        ["upper bound *", *(percent(layer.bound.upper) if layer.bound else "none" for layer in layers)],
        ["drawn at random", *(f"{layer.bound.drawn:,}" if layer.bound else "0" for layer in layers)],
        ["starts a trial", *(f"{layer.starts_per_trial:.1f}" for layer in layers)],
    ]
    for name in ("p50", "p95", "max"):
        rows.append([f"recovery {name}", *_times([layer.recovery for layer in layers], name)])
    return align(rows)


def _equal(label: str, cells: list[str]) -> list[str]:
    """A row of what should be equal, each cell that is not marked."""
    return [label, *(cell if cell == cells[0] else f"≠ {cell}" for cell in cells)]


def _times(found: Sequence[Quantiles | None], name: str) -> list[str]:
    base = getattr(found[0], name) if found[0] else 0.0
    cells = []
    for n, quantiles in enumerate(found):
        value = getattr(quantiles, name) if quantiles else None
        ratio = f"×{value / base:.2f} " if n and base and value is not None else ""
        cells.append(f"{ratio}{value:,.0f} ms" if value is not None else "none")
    return cells


def _by_key(data: RunData, storage: str) -> dict[Key, Result]:
    return {(r.trial.workload, r.trial.points, r.trial.fault): r for r in data.points(storage)}


def _differing(data: RunData, columns: Sequence[tuple[str, dict[Key, Result]]]) -> list[str]:
    """The points that more than one column tried and that ended differently; reds first."""
    if len(columns) < 2:
        return []
    found = []
    shared = {key for _, column in columns for key in column if sum(key in other for _, other in columns) > 1}
    for key in sorted(shared, key=_order):
        ended = [(name, column[key].verdict.word) for name, column in columns if key in column]
        if len({word for _, word in ended}) > 1:
            found.append((all(word in GREEN for _, word in ended), key, ended))
    found.sort(key=lambda entry: entry[0])
    names = ", ".join(name for name, _ in columns)
    lines = labelled(
        "points", f"{plural(len(shared), 'point')} tried on more than one of {names}: {len(found):,} ended differently"
    )
    for _, key, ended in found[:LISTED]:
        said = ", ".join(f"{name} {word}" for name, word in ended)
        trial = next(column[key] for _, column in columns if key in column).trial
        leg = data.leg(trial)
        lines += labelled("≠", one_line(f"{points(trial)} ({leg.name if leg else f'workload {key[0]}'}): {said}"))
    if len(found) > LISTED:
        lines += labelled("", f"and {len(found) - LISTED:,} more")
    return lines


def _order(key: Key) -> tuple[int, list[tuple[int, str, int]], str]:
    workload, points, fault = key
    return workload, [(p.process, p.hook, p.occurrence) for p in points], fault
