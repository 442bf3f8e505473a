"""What became of each leg: cell by journal mode by layer. Pure; nothing of runs without legs.

A leg is one cell in one journal mode. Its word is the worst of its trials on one layer, so that no pass hides a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.model import Kind, Result, Word
from lab.report.text import plural
from lab.run.data import JUDGED, SEVERITY, LegInfo, RunData, workload_of

NOT_OFFERED = "not offered"  # the subject has no such thing, and says why: no evidence, and not red
NOT_RUN = "not run"  # none of its trials has finished
NO_LEG = "–"  # the campaign does not have this cell in this mode
EACH = "each layer"
LEGEND = "the worst verdict of a leg, and how many of its trials on one layer ended so; – is no leg"


@dataclass(frozen=True)
class Outcome:
    """One leg on one layer."""

    leg: LegInfo
    storage: str
    planned: int
    results: tuple[Result, ...]

    @property
    def worst(self) -> Result | None:
        """The first of its trials that ended worst."""
        return min(self.results, key=lambda r: SEVERITY.index(r.verdict.word), default=None)

    @property
    def word(self) -> str:
        if not self.leg.offered:
            return NOT_OFFERED
        return self.worst.verdict.word.value if self.worst else NOT_RUN

    def __str__(self) -> str:
        """`pass 3` if all of its trials did, `violation 1 of 3`."""
        if self.worst is None:
            return self.word
        count = sum(r.verdict.word is self.worst.verdict.word for r in self.results)
        return f"{self.word} {count:,}" + (f" of {self.planned:,}" if count != self.planned else "")


@dataclass(frozen=True)
class Row:
    """One cell on one layer, or on each where all came to the same: an outcome for every mode, None where no leg is."""

    cell: str
    layer: str
    outcomes: tuple[Outcome | None, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(str(outcome) if outcome else NO_LEG for outcome in self.outcomes)


def shown(data: RunData) -> tuple[LegInfo, ...]:
    """The legs that the run is about: all, or those that a planted bug is tried in."""
    planned = {workload_of(t) for t in data.trials if t.kind is Kind.POINT}
    return tuple(leg for leg in data.legs if not data.is_of_a_bug or leg.workload in planned)


def modes(data: RunData) -> tuple[str, ...]:
    """The journal modes, in the order in which they were asked for."""
    return tuple(dict.fromkeys(leg.journal_mode for leg in shown(data)))


def outcomes(data: RunData) -> dict[tuple[str, str, str], Outcome]:
    """(cell, journal mode, layer) -> what became of it."""
    found = {}
    for leg in shown(data):
        for storage in data.storages:
            planned = sum(
                t.kind is Kind.POINT and t.storage == storage and leg.offered and workload_of(t) == leg.workload
                for t in data.trials
            )
            results = tuple(r for r in data.points(storage) if leg.offered and workload_of(r.trial) == leg.workload)
            found[leg.cell, leg.journal_mode, storage] = Outcome(leg, storage, planned, results)
    return found


def rows(data: RunData, *, fold: bool = False) -> list[Row]:
    """The table, a row for each cell on each layer; folded, one for a cell that came to the same on all of several."""
    found, columns = outcomes(data), modes(data)
    table: list[Row] = []
    for cell in dict.fromkeys(leg.cell for leg in shown(data)):
        mine = [Row(cell, s, tuple(found.get((cell, mode, s)) for mode in columns)) for s in data.storages]
        same = len(mine) > 1 and len({row.words for row in mine}) == 1
        table += [Row(cell, EACH, mine[0].outcomes)] if fold and same else mine
    return table


def refused(data: RunData) -> tuple[LegInfo, ...]:
    return tuple(leg for leg in shown(data) if not leg.offered)


def refusals(data: RunData) -> dict[str, str]:
    """Reason -> what is not offered for it: `delete, off in 6 cells`."""
    grouped: dict[str, list[LegInfo]] = {}
    for leg in refused(data):
        grouped.setdefault(leg.reason, []).append(leg)
    return {reason: _together(legs) for reason, legs in grouped.items()}


def _together(legs: Sequence[LegInfo]) -> str:
    names = list(dict.fromkeys(leg.cell for leg in legs))
    cells = names[0] if len(names) == 1 else plural(len(names), "cell")
    return f"{', '.join(dict.fromkeys(leg.journal_mode for leg in legs))} in {cells}"


def noted(data: RunData) -> list[list[Result]]:
    """Trials that lost what was not promised to be kept, together by their leg."""
    found: dict[LegInfo, list[Result]] = {}
    for result in data.points():
        if result.verdict.word is Word.NOTE and (leg := data.leg(result.trial)) is not None:
            found.setdefault(leg, []).append(result)
    return list(found.values())


def idle_legs(data: RunData) -> Sequence[str]:
    """Legs that could be green by doing nothing: nothing was killed in them, or their cell compared nothing."""
    missing: dict[tuple[str, str], list[str]] = {}
    for outcome in () if data.is_of_a_bug else outcomes(data).values():
        if outcome.leg.offered and (why := _idle(outcome)):
            missing.setdefault((outcome.leg.name, why), []).append(outcome.storage)
    return [f"{name} {why} on {', '.join(storages)}" for (name, why), storages in missing.items()]


def _idle(outcome: Outcome) -> str:
    judged = [r for r in outcome.results if r.verdict.word in JUDGED]
    if not outcome.planned:
        return "has no trial"
    if not any(r.hits for r in judged):
        return "was not killed"
    if not any(r.verdict.facts.get(outcome.leg.cell) for r in judged):
        return "checked no fact"
    return ""
