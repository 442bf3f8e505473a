"""The fuzz campaign: clients against a daemon that is killed again and again, scenario after scenario."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import click

from lab.campaigns.base import Campaign, Inputs, Planning, Request, Session, register
from lab.codec import from_json, to_json
from lab.engine.host import Say
from lab.model import Result, Scenario, Trial, catches
from lab.plan.plan_file import PlanFile, Seed, corpus_of, plan_of
from lab.plan.points import Bounds, Plan
from lab.plan.schedule import Draw, groups
from lab.report.reports import FUZZ
from lab.report.text import plural
from lab.run import reproducer
from lab.run.pool import Pool
from lab.run.record import Record, took_s
from lab.run.scheduler import Group, breaks
from lab.run.shrinking import shrunk
from lab.subject.spec import Subject
from lab.trial.setting import Setting

MAX_SHRUNK = 3  # violations of one run, each of another property: others of the same most likely are the same again
DEFAULT_MINUTES = 2.0
SCENARIOS = "scenarios.json"


def inputs(subject: Subject, request: Request) -> Inputs:
    scenarios = {"plan": plan_of(subject).model_dump(mode="json"), "corpus": to_json(corpus_of(subject))}
    return Inputs(files={SCENARIOS: scenarios})


def plan(planning: Planning) -> tuple[Plan, Mapping[str, Any]]:
    """None of its trials is planned beforehand: they are drawn one after the other until the run's bounds."""
    minutes, trials = planning.request.options["minutes"], planning.request.options["trials"]
    if minutes is None and trials is None and planning.request.bug is None:
        minutes = DEFAULT_MINUTES
    return Plan((), 0, (), bounds=Bounds(minutes, trials, planning.request.options["shrink"])), {}


def plan_line(plan: Plan, request: Request, setting: Setting) -> str:
    bounds = [str(plan.bounds)] if str(plan.bounds) else []
    layers, hooks = plural(len(request.storages), "layer"), plural(len(setting.subject.hooks), "hook")
    return "plan     " + " · ".join([*bounds, layers, hooks])


def _draw(record: Record) -> tuple[Draw, tuple[Seed, ...]]:
    """All that a run's scenarios are drawn from, as it was when the run began."""
    stored, header = record.read(SCENARIOS), record.header()
    plan = from_json(PlanFile, stored["plan"])
    draw = Draw(plan, record.subject().hooks, header.seed, header.storages, header.faults)
    return draw, from_json(tuple[Seed, ...], stored["corpus"])


def fuzz_groups(session: Session) -> Iterator[Group]:
    """Groups until the bounds are reached or the planted bug is caught."""
    header, subject = session.header, session.setting.subject
    bug = subject.bug(header.bug) if header.bug is not None else None
    bounds = session.plan.bounds
    assert bounds is not None
    spent_s = took_s(session.record.journal())
    until_s = None if bounds.minutes is None else time.monotonic() + 60 * bounds.minutes - spent_s
    draw, corpus = _draw(session.record)
    for group in groups(draw, subject.bugs, corpus, bug, bounds.trials):
        if bug is not None and any(catches(result.verdict, bug.property) for result in session.results):
            return
        if until_s is not None and time.monotonic() >= until_s:
            return
        yield group


def stored_trial(record: Record, ident: int) -> Trial | None:
    """A trial with its scenario whole: as it was kept, or else drawn again from its seed and number."""
    result = next((result for result in record.results() if result.trial.ident == ident), None)
    if result is None:
        return None
    if result.evidence is not None:
        return record.evidence(result.evidence)[0].trial
    trial, (draw, _) = result.trial, _draw(record)
    assert isinstance(trial.script, Scenario)
    again = draw.trial(
        ident, trial.kind, trial.script.number, trial.storage, trial.bug, trial.script.seed, trial.faults
    )
    return replace(again, drawn=trial.drawn)


def shrink_failures(session: Session, pool: Pool, say: Say) -> None:
    """A reproducer for the first violation of each property, a few of them; of a planted bug for its own alone."""
    header, record = session.header, session.record
    seconds = session.plan.bounds.shrink_s if session.plan.bounds else 0.0
    bug = session.setting.subject.bug(header.bug) if header.bug is not None else None
    first: dict[str, Result] = {}
    for result in sorted(session.results, key=lambda r: r.trial.ident):
        prop = bug.property if bug is not None else result.verdict.property
        if breaks(result.verdict, prop) and result.evidence is not None:
            first.setdefault(prop, result)
    for prop, result in list(first.items())[:MAX_SHRUNK] if seconds else ():
        trial, kept = result.trial, result.evidence
        if kept is None or record.has(reproducer.path_of(trial.ident)):
            continue
        say(f"shrink   trial {trial.ident}, {prop}: at most {seconds:.0f} s")
        found = shrunk(record.evidence(kept)[0], prop, session.setting, pool, seconds)
        script = reproducer.Script(found.scenario, trial.storage, prop, trial.bug, header.subject, header.run)
        record.write(reproducer.how_path_of(trial.ident), found.how)
        record.write(reproducer.path_of(trial.ident), script)


def _number(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """A number that is one: no range keeps out nan."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("is no number")
    return value


FUZZ_CAMPAIGN = register(
    Campaign(
        name="fuzz",
        summary="Clients against a daemon that is killed again and again, every answer held against a model.",
        subject="muxd",
        driven_by="clients",
        options=(
            click.Option(
                ["--minutes"],
                type=click.FloatRange(0, 10_000, min_open=True),
                callback=_number,
                help="How long.  [default: 2, or --trials]",
            ),
            click.Option(
                ["--trials"], type=click.IntRange(1, 1_000_000), help="How many, canaries and old failures not counted."
            ),
            click.Option(["--shrink"], default=120, type=click.IntRange(0, 86_400), help="Seconds for each violation."),
        ),
        inputs=inputs,
        plan=plan,
        plan_line=plan_line,
        report=FUZZ,
        groups=fuzz_groups,
        trial=stored_trial,
        finish=shrink_failures,
    )
)
