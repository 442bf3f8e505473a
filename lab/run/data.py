"""A stored run as frozen data, whatever its campaign: all that reports see. No I/O; `lab.run.load` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lab.model import CrashScript, Json, Kind, Promises, Result, Scenario, Trial, Word
from lab.plan.cells import Leg
from lab.plan.points import Bounds
from lab.plan.shrink import How
from lab.subject.spec import CoverageTable

GREEN = frozenset({Word.PASS, Word.NOTE})
#: Verdicts of trials whose evidence is whole: killed, recovered, judged. Only these count as coverage.
JUDGED = frozenset({Word.PASS, Word.NOTE, Word.VIOLATION})
#: Every verdict, the worst first.
SEVERITY = (Word.VIOLATION, Word.ERROR, Word.HANG, Word.INVALID, Word.NOTE, Word.PASS)


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
    within: int = 0  # trials of a run with bounds


@dataclass(frozen=True)
class LegInfo(Leg):
    """A leg, named by the property that its trials are judged by, with what is promised of it."""

    promised: tuple[str, ...] = ()  # the faults that the cell is claimed to survive in this mode

    @property
    def name(self) -> str:
        """As `[promises]` writes it: `prefix-durability@off`."""
        return f"{self.cell}@{self.journal_mode}"

    @property
    def offered(self) -> bool:
        return self.workload is not None


@dataclass(frozen=True)
class Reproducer:
    """What the shrinker left of a violation: a script that `lab replay` runs, and how it was found."""

    path: Path
    how: How
    scenario: Scenario

    @property
    def is_shorter(self) -> bool:
        return self.how.shorter


@dataclass(frozen=True)
class RunData:
    run: str
    campaign: str
    subject: str  # as it was given on the command line, for replay lines
    seed: int
    storages: tuple[str, ...]
    trials: tuple[Trial, ...]  # the plan; none if the run ends by its bounds
    results: tuple[Result, ...]  # finished trials, in any order
    hooks: tuple[HookInfo, ...]
    expected_hooks: int
    promises: Promises  # property -> the faults it is claimed to survive
    environment: Json
    took_s: float
    interrupted: bool
    path: Path  # the run's folder
    points_known: int = 0  # crash points that the census found; the same on every layer
    population: int = 0  # of them, those that the random ones were drawn from
    workloads: int = 0
    bugs: tuple[BugInfo, ...] = ()
    bug: str | None = None  # the whole run is of this planted bug
    coverage: CoverageTable = field(default_factory=CoverageTable)
    covers: tuple[str, ...] = ()  # hooks that the plan means to kill at on every layer
    whole: int = 0  # trials of the whole plan, of which this may be a shard
    audits: tuple[str, ...] = ()  # properties that say whether a trial ran as asked, and promise nothing
    has_ledger: bool = True
    legs: tuple[LegInfo, ...] = ()
    bounds: Bounds | None = None
    reproducers: Mapping[int, Reproducer] = field(default_factory=dict)  # by the trial's ident

    @cached_property
    def ordered(self) -> tuple[Result, ...]:
        """The results by trial number: workers finish in any order, reports must not show it."""
        return tuple(sorted(self.results, key=lambda r: r.trial.ident))

    def points(self, storage: str | None = None) -> tuple[Result, ...]:
        """Finished trials that count, of one layer or of all: no canary, no probe."""
        return tuple(r for r in self.ordered if r.trial.kind is Kind.POINT and storage in (None, r.trial.storage))

    def judged(self, storage: str | None = None) -> tuple[Result, ...]:
        """Those of `points` whose chain of evidence is whole."""
        return tuple(r for r in self.points(storage) if r.verdict.word in JUDGED)

    def planned(self, storage: str | None = None) -> int:
        """How many counted trials the plan has, on one layer or on all."""
        return sum(t.kind is Kind.POINT and storage in (None, t.storage) for t in self.trials)

    @cached_property
    def failures(self) -> tuple[Result, ...]:
        """Red trials, worst first. A canary is meant to be red, so none is among them; a probe is, if it failed."""
        red = [r for r in self.ordered if r.trial.kind is not Kind.CANARY and r.verdict.word not in GREEN]
        return tuple(sorted(red, key=lambda r: SEVERITY.index(r.verdict.word)))

    def leg(self, trial: Trial) -> LegInfo | None:
        """The leg that a trial is of, if the run has legs."""
        workload = workload_of(trial)
        return next((leg for leg in self.legs if leg.workload == workload), None) if workload is not None else None

    @property
    def faults(self) -> tuple[str, ...]:
        """Those that were asked for, as they were spelled."""
        asked = self.trials or tuple(r.trial for r in self.results)
        return tuple(sorted({t.faults for t in asked}))

    @property
    def is_shard(self) -> bool:
        """A part of a plan owes no coverage and no canary of its own: the merged run does."""
        return len(self.trials) < self.whole

    @property
    def is_of_a_bug(self) -> bool:
        """The whole run is of a planted bug: it is asked what breaks, not whether enough was tried."""
        return self.bug is not None


def workload_of(trial: Trial) -> int | None:
    """The workload of a subject that drives itself; None where clients drive it."""
    return trial.script.workload if isinstance(trial.script, CrashScript) else None
