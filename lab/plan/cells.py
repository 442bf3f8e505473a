"""From a store's cells to trials: legs, their workloads, and where each is struck (docs/cells.md). Pure.

A *leg* is one cell in one journal mode; each leg runs on every layer. What a store does not offer is said, with its
reason, and is no trial.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pydantic import Field

from lab.engine.errors import LabError, UsageError
from lab.model import ANSWER, CrashPoint, CrashScript, Hit, Json, Kind
from lab.plan.points import Drawn, Plan, laid_out
from lab.subject.load import read_table
from lab.subject.spec import Bug, Subject, Table, hooks_of
from lab.trial.setting import Setting
from lab.workloads import session_cells
from lab.workloads.session_cells import CELLS, Cell

OCCURRENCES_CI, OCCURRENCES_NIGHTLY = 1, 4  # crash points drawn for each place of a cell
CANARY_TRIES = 3


class StoreCells(Table):
    """A store's `cells.toml`."""

    not_offered: dict[str, str] = Field(default_factory=dict)  # cell or journal mode -> the reason
    points: dict[str, tuple[str, ...]]  # cell -> hooks, "hook > hook", or `answer`


@dataclass(frozen=True)
class Leg:
    """One cell in one journal mode: a workload, or the reason why this store has no such thing."""

    cell: str
    journal_mode: str
    workload: int | None
    reason: str = ""
    clause: str = ""  # of what contract, and where that is written


@dataclass(frozen=True)
class Asked:
    """What the user asked of the cells."""

    storages: tuple[str, ...]
    faults: tuple[str, ...]
    nightly: bool
    bug: str | None

    @property
    def size(self) -> session_cells.Size:
        return "nightly" if self.nightly else "ci"

    def planted(self, subject: Subject) -> list[Bug]:
        """The one bug that was asked for, or the canaries."""
        return [subject.bug(self.bug)] if self.bug is not None else [bug for bug in subject.bugs if bug.canary]


def store_cells(subject: Subject) -> StoreCells:
    """What a store says of its cells. Raises UsageError if it says nothing, or names what there is not."""
    path = subject.folder / "cells.toml"
    cells = read_table(StoreCells, path)
    for name in cells.not_offered:
        if name not in {*CELLS, *session_cells.JOURNAL_MODES}:
            raise UsageError(f"{path}: [not_offered] there is no cell and no journal mode {name!r}")
    for name, points in cells.points.items():
        if name not in CELLS:
            raise UsageError(f"{path}: [points] there is no cell {name!r}", f"There are: {', '.join(sorted(CELLS))}.")
        for point in points:
            _check_point(subject, point, f"{path}: [points] {name}")
    missing = set(CELLS) - {name for name, points in cells.points.items() if points} - set(cells.not_offered)
    if missing:
        raise UsageError(
            f"{path}: nothing is said of {', '.join(sorted(missing))}",
            "Name its points, or say under [not_offered] why it is not offered.",
        )
    return cells


def _check_point(subject: Subject, point: str, where: str) -> None:
    first, *seconds = hooks_of(point)
    hooks = {hook.name for hook in subject.hooks}
    for hook in (first, *seconds):
        if hook not in hooks | {ANSWER}:
            raise UsageError(f"{where} names the hook {hook!r}, which is not in the catalogue")
    if len(seconds) > 1 or ANSWER in seconds:
        raise UsageError(f"{where}: {point!r} has no such second crash", "It is one hook of the recovery.")


def legs_of(subject: Subject, seed: int, asked: Asked) -> tuple[tuple[Leg, ...], tuple[Json, ...]]:
    offered = store_cells(subject)
    legs: list[Leg] = []
    workloads: list[Json] = []
    for cell in CELLS.values():
        clause = f"{cell.clause} ({cell.source})"
        for mode in cell.modes(asked.size):
            reason = offered.not_offered.get(cell.name) or offered.not_offered.get(mode)
            if reason:
                legs.append(Leg(cell.name, mode, None, reason, clause))
                continue
            legs.append(Leg(cell.name, mode, len(workloads), clause=clause))
            workload = session_cells.generate(seed, cell.name, mode, asked.size)
            at_moments = ANSWER in offered.points[cell.name]
            workloads.append(session_cells.outlasting(workload) if at_moments else workload)
    for bug in asked.planted(subject):
        leg_of(bug, legs)
    return tuple(legs), tuple(workloads)


def make_plan(setting: Setting, asked: Asked, legs: Sequence[Leg], found: dict[int, tuple[Hit, ...]]) -> Plan:
    """For each leg some crash points of each of its places, and a race; then one canary a cell."""
    planted = asked.planted(setting.subject)
    if asked.bug is not None:
        tries = [draw for bug in planted for draw in _tries(setting, bug, Kind.POINT, legs, found)]
        trials = list(laid_out(tries, asked.storages, asked.faults))
        return Plan(tuple(trials), 0, (), whole=len(trials))
    offered = store_cells(setting.subject)
    draws: list[Drawn] = []
    known: set[tuple[int, CrashPoint]] = set()
    for leg in legs:
        if leg.workload is None:
            continue
        rng = random.Random(f"{setting.seed}/{leg.cell}/{leg.journal_mode}")
        cell = CELLS[leg.cell]
        count = OCCURRENCES_NIGHTLY if asked.nightly else OCCURRENCES_CI
        for place in offered.points[leg.cell]:
            candidates = list(_candidates(cell, place, found[leg.workload]))
            if not candidates:
                raise LabError(
                    f"cell {leg.cell}: no run of {setting.subject.name} reaches {place} where it must be killed"
                )
            known.update((leg.workload, points[0]) for points in candidates)
            chosen = rng.sample(candidates, min(count, len(candidates)))
            draws += [Drawn(CrashScript(leg.workload, points), "cover") for points in chosen]
        if cell.races and setting.subject.subject.race is not None:
            races = session_cells.RACES[asked.size]
            draws += [Drawn(CrashScript(leg.workload, (), session_cells.RACERS), "cover")] * races
    trials = list(laid_out(draws, asked.storages, asked.faults))
    covers = sorted({point.hook for draw in draws for point in draw.script.points if not point.is_moment})
    tries = [draw for bug in planted for draw in _tries(setting, bug, Kind.CANARY, legs, found)]
    trials += laid_out(tries, asked.storages, asked.faults, start=len(trials) + 1)
    return Plan(tuple(trials), len(known), tuple(covers), tuple(bug.name for bug in planted), len(trials))


def leg_of(bug: Bug, legs: Sequence[Leg]) -> Leg:
    """The leg that a planted bug shows in. Raises UsageError if it has none here: nothing could catch it."""
    wanted = {"cell": bug.property, "journal_mode": "default", **bug.workload}
    for leg in legs:
        if leg.workload is not None and {"cell": leg.cell, "journal_mode": leg.journal_mode} == wanted:
            return leg
    where = ", ".join(f"{key} {value}" for key, value in wanted.items())
    raise UsageError(f"no leg of this campaign is the one that planted bug {bug.name} shows in: {where}")


def _tries(
    setting: Setting, bug: Bug, kind: Kind, legs: Sequence[Leg], found: dict[int, tuple[Hit, ...]]
) -> list[Drawn]:
    """Where a planted bug may show, in the leg that is about it."""
    leg = leg_of(bug, legs)
    assert leg.workload is not None
    rng = random.Random(f"{setting.seed}/bugs/{bug.name}")
    hits = found[leg.workload]
    pool = [points for place in bug.points for points in _candidates(CELLS[leg.cell], place, hits)]
    if not pool:
        raise LabError(f"no run of {setting.subject.name} reaches the points of planted bug {bug.name}")
    last = pool[-1]  # a bug that needs a long story shows at the end of it
    rng.shuffle(pool)
    scripts = [CrashScript(leg.workload, points) for points in (last, *pool)]
    return [Drawn(script, "cover", kind, bug.name) for script in scripts[:CANARY_TRIES]]


def _candidates(cell: Cell, place: str, hits: Sequence[Hit]) -> Iterator[tuple[CrashPoint, ...]]:
    """Every way to be killed at a place, late enough for what the cell must have seen acknowledged before."""
    first, *seconds = hooks_of(place)
    for hit in _moments(cell, hits) if first == ANSWER else _late_hits(cell, first, hits):
        yield (CrashPoint(1, hit.hook, hit.n), *(CrashPoint(2, hook, 1) for hook in seconds))


def _moments(cell: Cell, hits: Sequence[Hit]) -> Sequence[Hit]:
    """From where enough has been acknowledged to the end of the story, which `outlasting` put there."""
    answers = [hit for hit in hits if hit.hook == ANSWER][: -session_cells.TAIL]
    low = len(answers) // 5
    if cell.least is not None:
        op, least = cell.least
        acknowledged = accumulate(hit.tags["op"] == op for hit in answers)
        low = next((at for at, count in enumerate(acknowledged) if count >= least), len(answers))
    return answers[low:]


def _late_hits(cell: Cell, hook: str, hits: Sequence[Hit]) -> Iterator[Hit]:
    """Hits of a hook. Where much must be acknowledged before, only that op's own: their number tells how much was."""
    op, least = cell.least or ("", 0)
    for hit in hits:
        if hit.hook == hook and (not op or hook.startswith(f"{op}.")) and hit.n > least:
            yield hit
