"""Reads `fuzz.toml` and `corpus.toml`: what a daemon is sent, how it is killed, and which seeds once failed.

`fuzz.toml` maps the daemon's operations onto the families of lab.models. A *thing* is what operations create and others
speak of: a chat, a key, a message. Its name is an argument of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import pydantic
from pydantic import Field

from lab.engine.errors import UsageError
from lab.model import Limits
from lab.models import ROLES
from lab.subject.load import read_table
from lab.subject.spec import Subject, Table

STRIKES = ("hook", "answer", "invoke", "start", "end")

Weight = Annotated[float, Field(gt=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=1000)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]  # of a thing, and so of an argument
Range = tuple[Count, Count]  # least and most

FIELD = re.compile(r"\{(step|n|name|\d+-\d+)\}")  # of a template
BRACES = re.compile(r"\{[^{}]*\}?")


class Thing(Table):
    name: Annotated[str, Field(min_length=1, max_length=100)]  # a template of {n} or {step}
    within: str | None = None  # the thing that it lies in, whose name is an argument beside its own
    most: Count | None = None  # few: it is counted from 1 by {n}; without, each has the {step} that created it
    recent: Count | None = None  # only the last so many are spoken of: older ones are done

    @pydantic.model_validator(mode="after")
    def _named(self) -> Thing:
        counted = "{n}" if self.most is not None else "{step}"
        if FIELD.findall(self.name) != [counted[1:-1]]:
            raise ValueError(f"`name` of a thing {'with' if self.most else 'without'} `most` has one {counted}")
        if self.most is not None and self.within is not None:
            raise ValueError("a thing with `most` lies in no other: the small set would be one for all of them")
        return self


class Operation(Table):
    """One operation of the daemon: what it is in its family, and what it is called with."""

    model: str  # a role of lab.models: "register.write"
    weight: Weight  # how often it is drawn
    creates: str | None = None  # a thing
    needs: str | None = None  # a thing that was created before
    where: dict[str, str] = Field(default_factory=dict)  # of those, the ones created with these arguments, if any
    args: dict[str, str | tuple[str | bool | int, ...]] = Field(default_factory=dict)  # templates; or one of several
    effect: str | None = None  # the ledger's name of it, a template of {name}
    promise: str | None = None  # the property that is checked on nothing unless this was sent

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Operation:
        role = ROLES.get(self.model)
        if role is None:
            raise ValueError(f"`model` is {self.model!r}; there are {', '.join(ROLES)}")
        for key, asked, given in (("creates", role.creates, self.creates), ("effect", role.effect, self.effect)):
            if asked != (given is not None):
                raise ValueError(f"{self.model} {'lacks' if asked else 'has no'} `{key}`")
        if role.needs and self.needs is None:
            raise ValueError(f"{self.model} lacks `needs`")
        if self.creates is not None and self.needs is not None:
            raise ValueError("`creates` and `needs`: what a new thing needs is the thing that it lies within")
        for template in (t for t in (*self.args.values(), self.effect) if isinstance(t, str)):
            if any(not FIELD.fullmatch(found) for found in BRACES.findall(template)):
                raise ValueError(f"{template!r} may hold {{step}}, {{name}} and a range such as {{1-4}}")
        return self

    @property
    def thing(self) -> str | None:
        return self.creates or self.needs


def problems(
    things: Mapping[str, Thing], operations: Mapping[str, Operation], texts: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """What one table cannot say of another, each in words."""
    said = []
    for name, thing in things.items():
        if thing.within is not None and (thing.within not in things or things[thing.within].within is not None):
            said.append(f"[things] {name} lies within {thing.within!r}, which is no thing that lies in no other")
        if not thing.most and name not in {op.creates for op in operations.values()}:
            said.append(f"[things] {name} is created by no operation")
    for name, op in operations.items():
        if op.thing is not None and op.thing not in things:
            said.append(f"[operations] {name!r} names the thing {op.thing!r}; there are {', '.join(things) or 'none'}")
    named = {text for op in operations.values() for text in op.args.values() if isinstance(text, str)}
    said += [f"[texts.{name}] is named by no operation" for name in texts if f"[{name}]" not in named]
    return said


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
    return read_table(_Corpus, subject.folder / subject.fuzz.corpus).seed
