"""What a campaign is, and the register of them. A campaign is data and a few functions; the rest is common to all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from lab.engine.errors import UsageError
from lab.engine.host import Say
from lab.model import Json, Result, Trial
from lab.plan.points import Plan
from lab.report.document import Report
from lab.run.pool import Pool
from lab.run.record import Header, Record
from lab.run.scheduler import Group, planned
from lab.subject.spec import Subject
from lab.trial.setting import Setting


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    campaign: str
    subject: str  # a name, or the path of a subject.toml
    seed: int
    storages: tuple[str, ...]
    workers: int
    keep_evidence: bool
    bug: str | None = None
    faults: tuple[str, ...] = ("sigkill",)  # the same plan runs once for each; `first>second` spells one
    options: Mapping[str, Any] = field(default_factory=dict)  # the campaign's own


@dataclass(frozen=True)
class Inputs:
    """What a seed gives before anything runs. Pure data."""

    workloads: tuple[Json, ...] = ()  # that the subject drives itself through
    preparing: Json | None = None  # worked to its end, it makes the state that trials start from; None: an empty one
    files: Mapping[str, Any] = field(default_factory=dict)  # name in the record → JSON: what the campaign reads again


@dataclass(frozen=True)
class Planning:
    """What a campaign plans with: services and workers are up, nothing was struck yet."""

    request: Request
    inputs: Inputs
    setting: Setting
    pool: Pool
    say: Say


@dataclass
class Session:
    """A run while its trials run, be it new or resumed."""

    record: Record
    header: Header
    setting: Setting
    plan: Plan
    results: list[Result]  # so far, those of earlier sessions among them


def _of_the_plan(session: Session) -> Iterable[Group]:
    return planned(session.plan.trials)


def _planned_trial(record: Record, ident: int) -> Trial | None:
    return next((trial for trial in record.plan().trials if trial.ident == ident), None)


def _nothing(session: Session, pool: Pool, say: Say) -> None:
    """Most campaigns are over when their trials are."""


@dataclass(frozen=True)
class Campaign:
    """A campaign. `register` makes it a command of `lab run`."""

    name: str
    summary: str  # of the command's help
    subject: str  # that is run if none is named
    driven_by: str  # "itself" or "clients": which subjects it can run
    options: Sequence[click.Option]
    inputs: Callable[[Subject, Request], Inputs]
    plan: Callable[[Planning], tuple[Plan, Mapping[str, Any]]]  # and files for the record, such as its census
    plan_line: Callable[[Plan, Request, Setting], str]
    report: Report
    groups: Callable[[Session], Iterable[Group]] = _of_the_plan
    trial: Callable[[Record, int], Trial | None] = _planned_trial  # one trial of a stored run, whole
    finish: Callable[[Session, Pool, Say], None] = _nothing  # after the last trial, such as shrinking what failed


CAMPAIGNS: dict[str, Campaign] = {}


def register(campaign: Campaign) -> Campaign:
    """Make a campaign known. Raises ValueError if its name is taken."""
    if CAMPAIGNS.setdefault(campaign.name, campaign) is not campaign:
        raise ValueError(f"there is a campaign {campaign.name!r} already")
    return campaign


def campaign_of(record: Record) -> Campaign:
    """The campaign of a stored run. Raises UsageError if this lab does not have it."""
    name = record.header().campaign
    if name not in CAMPAIGNS:
        raise UsageError(f"run {record.path.name} is of a campaign {name!r}, which this lab does not have")
    return CAMPAIGNS[name]
