"""Reads `fuzz.toml` and `corpus.toml`: what a daemon is sent, how it is killed, and which seeds once failed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import Field

from lab.engine.errors import UsageError
from lab.model import Limits
from lab.plan.operations import Count, Name, Operation, Thing, Weight, problems
from lab.subject.load import read_table
from lab.subject.spec import Subject, Table

STRIKES = ("hook", "answer", "invoke", "start", "end")

Range = tuple[Count, Count]  # least and most


class LimitsTable(Table):
    answer_ms: Annotated[int, Field(ge=10, le=60_000)] = Limits.answer_ms
    timeout_ms: Annotated[int, Field(ge=10, le=60_000)] = Limits.timeout_ms
    up_s: Annotated[float, Field(gt=0, le=600)] = Limits.up_s
    settle_s: Annotated[float, Field(gt=0, le=600)] = Limits.settle_s


class PlanFile(Table):
    """What a campaign draws from."""

    adapter: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    clients: Annotated[int, Field(ge=1, le=16)] = 3
    kills: Range  # of a trial
    ops: Range  # of a life, over all clients
    pause_ms: Range
    limits: LimitsTable = LimitsTable()
    things: dict[Name, Thing] = Field(default_factory=dict)
    operations: Annotated[dict[str, Operation], Field(min_length=1)]
    texts: dict[Name, Annotated[dict[str, Weight], Field(min_length=1)]] = Field(default_factory=dict)
    strikes: Annotated[dict[str, Weight], Field(min_length=1)]

    @property
    def exercised(self) -> dict[str, tuple[str, ...]]:
        """Of each property that needs it, the operations of which every trial has to send one."""
        names = dict.fromkeys(op.promise for op in self.operations.values() if op.promise is not None)
        return {p: tuple(name for name, op in self.operations.items() if op.promise == p) for p in names}

    @pydantic.model_validator(mode="after")
    def _fits(self) -> PlanFile:
        for name, (least, most) in (("kills", self.kills), ("ops", self.ops), ("pause_ms", self.pause_ms)):
            if least > most:
                raise ValueError(f"`{name}` begins with the least: {least} > {most}")
        for wrong in problems(self.things, self.operations, self.texts):
            raise ValueError(wrong)
        for name in self.strikes:
            if name not in STRIKES:
                raise ValueError(f"[strikes] names {name!r}; there are {', '.join(STRIKES)}")
        if self.limits.timeout_ms <= self.limits.answer_ms:
            raise ValueError("`timeout_ms` must be above `answer_ms`: else no answer could ever be too late")
        return self


class Seed(Table):
    """A scenario that once failed: which one, and what it found."""

    seed: Annotated[int, Field(ge=0)]
    number: Annotated[int, Field(ge=1)]
    found: Annotated[str, Field(min_length=1)]


class _Corpus(Table):
    seed: tuple[Seed, ...] = ()


def plan_of(subject: Subject) -> PlanFile:
    """The plan file of a daemon. Raises UsageError if it does not fit the subject."""
    assert subject.fuzz is not None
    path = subject.folder / subject.fuzz.plan
    plan = read_table(PlanFile, path)
    if "hook" in plan.strikes and not subject.hooks:
        raise UsageError(f"{path}: [strikes] names `hook`, but {subject.name} has no hooks")
    return plan


def corpus_of(subject: Subject) -> tuple[Seed, ...]:
    """The seeds that once failed, in the order of the file; none if the subject keeps no corpus."""
    if subject.fuzz is None or subject.fuzz.corpus is None:
        return ()
    return read_table(_Corpus, Path(subject.folder / subject.fuzz.corpus)).seed
