"""A stored fuzz run as frozen data, beside its results: all that its reports see. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.fuzz.model import FAULT, FuzzResult
from lab.model import RECOVERS, Json, Kind, Promises, Word, catches
from lab.plan.shrink import How
from lab.report.data import GREEN, SEVERITY

# As lab.fuzz.trial writes down where it struck: `hook chat.synced#4`, `answer#3`, `start + 20 ms`, `end#1`.
_STRUCK = re.compile(r"(?P<kind>\w+)(?: (?P<hook>[^ #]+))?(?:#\d+)?(?: \+ \d+ ms)?$")
# As the oracle begins each fact, and a note after its property.
_FACT = re.compile(r"(?:(?P<property>[\w-]+): )?step=(?P<step>\S+) op=(?P<op>[^\s:]+)[:\s]*(?P<rest>.*)$", re.DOTALL)


@dataclass(frozen=True)
class FuzzBug:
    """A bug that this run plants and must catch within so many trials."""

    name: str
    property: str
    meaning: str
    within: int


@dataclass(frozen=True)
class Short:
    """The short script of a violation: its file, how it was found, and how it reads."""

    path: Path
    how: How
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class FuzzData:
    """What a fuzz run was asked for and stood on. Its results go beside it."""

    run: str
    subject: str  # as it was given on the command line, for replay lines
    seed: int
    storages: tuple[str, ...]
    promises: Promises
    hooks: tuple[str, ...]  # the catalogue's names; none for a daemon without hooks
    took_s: float
    interrupted: bool
    path: Path  # the run's folder
    audits: tuple[str, ...] = ()
    bugs: tuple[FuzzBug, ...] = ()  # planted in this run, as canaries or by --bug
    minutes: float | None = None  # asked for
    trials: int | None = None  # asked for
    corpus: int = 0  # seeds that once failed, run first
    shrunk: Mapping[int, Short] = field(default_factory=dict)  # by the trial's ident
    environment: Json = field(default_factory=dict)

    @property
    def promised(self) -> tuple[str, ...]:
        """Properties whose loss is a violation: a kill of the process is all that the clients ever do to a daemon."""
        return tuple(name for name, faults in self.promises.items() if FAULT in faults)


@dataclass(frozen=True)
class Struck:
    """Where a kill struck: `kind` as in a scenario; `hook` only at one."""

    kind: str
    hook: str = ""

    @classmethod
    def of(cls, text: str) -> Struck:
        match = _STRUCK.match(text)
        return cls(match["kind"], match["hook"] or "") if match else cls(text)


@dataclass(frozen=True)
class Said:
    """What differs, taken apart: the operation it names, and the rest. `recovers` names none."""

    property: str
    step: str
    op: str
    what: str

    def line(self, word: str, result: FuzzResult) -> str:
        return f"{word} seed={result.trial.scenario.name} step={self.step} op={self.op} what={self.what}"


def said(text: str, prop: str = "", why: str = "") -> Said:
    """Of a fact and why it differs, or of a note, which has both in one."""
    match = _FACT.match(text)
    name = (match["property"] if match else None) or prop
    rest = match["rest"] if match else text
    parts = [part for part in (name, rest, why) if part]
    return Said(name, match["step"] if match else "-", match["op"] if match else "-", ": ".join(parts))


def points(results: Sequence[FuzzResult], storage: str | None = None) -> tuple[FuzzResult, ...]:
    """Those that count, by number: canaries do not."""
    ordered = sorted(results, key=lambda r: r.trial.ident)
    return tuple(r for r in ordered if r.trial.kind is Kind.POINT and storage in (None, r.trial.storage))


def failures(results: Sequence[FuzzResult]) -> tuple[FuzzResult, ...]:
    """Red trials that count, worst first."""
    red = [r for r in points(results) if r.verdict.word not in GREEN]
    return tuple(sorted(red, key=lambda r: SEVERITY.index(r.verdict.word)))


def said_of(result: FuzzResult) -> Said:
    """What a red trial is about."""
    verdict = result.verdict
    fact = verdict.differs.fact if verdict.differs else ""
    return said(fact, verdict.property, verdict.why)


def distinct(results: Sequence[FuzzResult]) -> list[list[FuzzResult]]:
    """Red trials by verdict, property and operation: those of one group most likely are one fault."""
    groups: dict[tuple[Word, str, str], list[FuzzResult]] = {}
    for result in failures(results):
        groups.setdefault((result.verdict.word, result.verdict.property, said_of(result).op), []).append(result)
    return list(groups.values())


@dataclass(frozen=True)
class Caught:
    """What became of a planted bug."""

    bug: FuzzBug
    tries: tuple[FuzzResult, ...]
    by: FuzzResult | None


def caught(results: Sequence[FuzzResult], data: FuzzData) -> tuple[Caught, ...]:
    """Every bug that this run plants. One that had no trial is not caught."""
    found = []
    for bug in data.bugs:
        tries = tuple(sorted((r for r in results if r.trial.bug == bug.name), key=lambda r: r.trial.ident))
        found.append(Caught(bug, tries, next((r for r in tries if catches(r.verdict, bug.property)), None)))
    return tuple(found)


def is_of_a_bug(results: Sequence[FuzzResult]) -> bool:
    """The whole run is of a planted bug: it is asked whether it is caught, not whether enough was tried."""
    return any(r.trial.bug for r in points(results))


def promise(data: FuzzData, prop: str) -> str:
    """What was promised, from the subject's own file."""
    if prop == RECOVERS:
        return f"{RECOVERS}: it starts again after each kill, and answers in time"
    if prop in data.audits:
        return f"audit {prop}: no promise, it says whether the trial ran as asked, and it did not"
    faults = data.promises.get(prop, ())
    return f"{prop} after {' or '.join(faults)}" if faults else f"{prop}: by nobody"
