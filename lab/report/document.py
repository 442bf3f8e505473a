"""A report as data: a headline, sections of blocks, test cases, and the numbers. What each format renders.

A campaign describes its report with `Report`: the sections it shows, and what a green run of it owes. Nothing here, nor
in any section or renderer, knows a campaign by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.model import Json, Word
from lab.report.timeline import Timeline
from lab.run.data import RunData

Tone = Literal["", "good", "bad", "warn", "muted"]

SYMBOLS = {"pass": "✓", "note": "✎", "violation": "✗", "hang": "…", "invalid": "∅", "error": "!"}


@dataclass(frozen=True)
class Cell:
    text: str
    tone: Tone = ""
    more: str = ""  # a second, smaller line: of a page only
    link: str = ""  # the anchor of the block that explains it: of a page only


@dataclass(frozen=True)
class Table:
    """Rows under a head. The first `left` columns are text, the others are numbers and flush right."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left: int = 1


def row(*cells: str | Cell) -> list[Cell]:
    return [cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]


@dataclass(frozen=True)
class Lines:
    """Labelled lines: `hooks     96 of 96 killed at on every layer`."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Items:
    """A list; each entry stands for itself. `label` is what a terminal puts before each."""

    entries: Sequence[str]
    label: str = ""


@dataclass(frozen=True)
class Failure:
    """One red trial or one note, all that is needed to understand and to repeat it."""

    word: Word
    title: str
    where: str  # trial 0412 · overlay · sigkill
    lines: Sequence[tuple[str, str]]
    script: Sequence[str] = ()  # its reproducer, if that is short
    picture: Timeline | None = None
    anchor: str = ""


@dataclass(frozen=True)
class Curves:
    """Of each series the share of its values that do not exceed x: of a page only."""

    series: Mapping[str, Sequence[float]]  # in ms
    x: str
    y: str


@dataclass(frozen=True)
class Ranges:
    """Of each name its quantiles, rising, in ms, on a logarithmic scale with a limit: of a page only."""

    quantiles: Mapping[str, Sequence[float]]
    limit_ms: float
    x: str


Block = Table | Lines | Items | Failure | Curves | Ranges


@dataclass(frozen=True)
class Section:
    """Blocks under a title. One without blocks is not shown."""

    title: str
    blocks: Sequence[Block]
    lead: str = ""  # a sentence below the title: of a page only
    brief: bool = True  # on a terminal and in Markdown too, not on the page alone
    urgent: bool = False  # a person must see it: first on a page, last on a terminal
    heading: str = ""  # of an urgent one on a terminal


@dataclass(frozen=True)
class Case:
    """One test of a suite, as CI systems show it."""

    name: str
    took_s: float = 0.0
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    kind: str = ""  # the verdict, of one that did not pass
    message: str = ""
    body: str = ""


@dataclass(frozen=True)
class Suite:
    """The tests of one storage layer, of the canaries, or of what a green run must have seen."""

    name: str
    cases: Sequence[Case]


@dataclass(frozen=True)
class Headline:
    """The verdict on a run in one word and one sentence, and the exit code that agrees with it."""

    word: str
    sentence: str
    exit_code: int
    tone: Tone


@dataclass(frozen=True)
class Document:
    run: str
    campaign: str
    subject: str
    seed: int
    took_s: float
    headline: Headline
    facts: Sequence[tuple[str, str, str]]  # at the head of a page: label, number, what qualifies it
    about: Sequence[tuple[str, str]]  # what was run, in labelled lines
    sections: Sequence[Section]
    suites: Sequence[Suite]
    numbers: Json  # the content of summary.json


Owes = Sequence[Callable[[RunData], Sequence[str]]]


@dataclass(frozen=True)
class Report:
    """What the report of a campaign consists of: a campaign has one, as data."""

    sections: Sequence[Callable[[RunData], Section]]
    owes: Owes  # each says why a run without a failure would still prove too little, a line a reason
    cases: Callable[[RunData, str], Sequence[Case]]  # the tests of one layer
    facts: Callable[[RunData], Sequence[tuple[str, str, str]]]
    work: Callable[[RunData], str]  # what a run has done, as a PASS says it: `1,500 real kills`
    partial: Callable[[RunData], str] = lambda data: ""  # what part of the whole a small run was asked for
