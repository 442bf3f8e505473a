"""A stored run as frozen data: all that the reports see.

`lab.record` reads it from a run's folder; everything in `lab.report` is a pure view of it. No I/O here, and
nothing of ours is imported but the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.model import Json, Kind, Result, Trial, Word

#: Verdicts that do not make a campaign red.
GREEN = frozenset({Word.PASS, Word.NOTE})
#: Verdicts of trials whose evidence is whole: killed, recovered, judged. Only these count as coverage.
JUDGED = frozenset({Word.PASS, Word.NOTE, Word.VIOLATION, Word.UNREPRODUCED})
#: Every verdict, the worst first.
SEVERITY = (Word.VIOLATION, Word.ERROR, Word.UNREPRODUCED, Word.HANG, Word.INVALID, Word.NOTE, Word.PASS)
#: Verdicts that say that a property found a difference which breaks a promise.
BROKEN = frozenset({Word.VIOLATION, Word.UNREPRODUCED})


@dataclass(frozen=True)
class HookInfo:
    """One line of the subject's hook catalogue."""

    name: str
    meaning: str
    where: str  # "run" or "recovery"


@dataclass(frozen=True)
class BugInfo:
    """One planted bug of the subject's catalogue."""

    name: str
    property: str  # that must catch it
    meaning: str
    canary: bool = False  # every campaign plants it


@dataclass(frozen=True)
class Coverage:
    """What a campaign must have seen, from `[coverage]` of subject.toml; empty if the subject asks for nothing."""

    windows: tuple[str, ...] = ()
    by: str = ""
    values: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()


@dataclass(frozen=True)
class LegInfo:
    """One cell in one journal mode: the workload that asks for it, or the reason why the subject does not offer it."""

    cell: str  # the property that its trials are judged by
    journal_mode: str
    workload: int | None
    reason: str = ""
    clause: str = ""  # of what contract, and where that is written
    promised: tuple[str, ...] = ()  # the faults that the cell is claimed to survive in this mode

    @property
    def name(self) -> str:
        """As `[promises]` writes it: `prefix-durability@off`."""
        return f"{self.cell}@{self.journal_mode}"

    @property
    def offered(self) -> bool:
        return self.workload is not None


@dataclass(frozen=True)
class RunData:
    """A finished or partial run."""

    run: str
    campaign: str
    subject: str  # as it was given on the command line, for replay lines
    seed: int
    storages: tuple[str, ...]
    trials: tuple[Trial, ...]  # the plan
    results: tuple[Result, ...]  # finished trials, in any order
    hooks: tuple[HookInfo, ...]
    expected_hooks: int
    points_known: int  # crash points that the census found; the same on every layer
    bugs: tuple[BugInfo, ...]
    coverage: Coverage
    promises: dict[str, tuple[str, ...]]  # property -> the faults it is claimed to survive
    environment: Json
    took_s: float
    interrupted: bool
    workloads: int
    path: Path  # the run's folder
    covers: tuple[str, ...] = ()  # hooks that the plan means to kill at on every layer
    whole: int = 0  # trials of the whole plan, of which this may be a shard
    audits: tuple[str, ...] = ()  # properties that say whether a trial ran as asked, and promise nothing
    legs: tuple[LegInfo, ...] = ()  # of a cells campaign; a matrix has none

    @cached_property
    def ordered(self) -> tuple[Result, ...]:
        """The results by trial number: workers finish in any order, reports must not show it."""
        return tuple(sorted(self.results, key=lambda r: r.trial.ident))

    def points(self, storage: str | None = None) -> tuple[Result, ...]:
        """Finished trials that count: crash points, of one layer or of all."""
        return tuple(r for r in self.ordered if r.trial.kind is Kind.POINT and storage in (None, r.trial.storage))

    def judged(self, storage: str | None = None) -> tuple[Result, ...]:
        """Those of `points` whose chain of evidence is whole."""
        return tuple(r for r in self.points(storage) if r.verdict.word in JUDGED)

    def planned(self, storage: str) -> int:
        """How many crash points the plan has on one layer."""
        return sum(t.kind is Kind.POINT and t.storage == storage for t in self.trials)

    def failures(self) -> tuple[Result, ...]:
        """Red trials, worst first. A canary is meant to be red, so none is among them; a probe is, if it failed."""
        red = [r for r in self.ordered if r.trial.kind is not Kind.CANARY and r.verdict.word not in GREEN]
        return tuple(sorted(red, key=lambda r: SEVERITY.index(r.verdict.word)))

    @property
    def draws_from_every_hook(self) -> bool:
        """A matrix does; cells are killed at the places that they name."""
        return self.campaign == "matrix"

    def leg(self, trial: Trial) -> LegInfo | None:
        """The leg that a trial is of; None in a matrix."""
        return next((leg for leg in self.legs if leg.workload == trial.workload), None)

    def asked(self) -> tuple[str, ...]:
        """Properties that must have compared facts: cells of the legs that are tried or, in a matrix, all promised."""
        if not self.legs:
            return (*sorted(self.promises), *self.audits)
        tried = {t.workload for t in self.trials if t.kind is Kind.POINT}
        return (*dict.fromkeys(leg.cell for leg in self.legs if leg.workload in tried), *self.audits)

    @property
    def is_shard(self) -> bool:
        """A part of a plan owes no coverage and no canary of its own: the merged run does."""
        return len(self.trials) < self.whole

    @property
    def is_of_a_bug(self) -> bool:
        """The whole campaign runs a planted bug: it is asked what breaks, not whether enough was tried."""
        return any(t.kind is Kind.POINT and t.bug for t in self.trials)
