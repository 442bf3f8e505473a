"""The matrix campaign: kill at seeded points of a subject's census, on each storage layer, and judge every recovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from lab.campaigns.base import Campaign, Inputs, Planning, Request, register
from lab.codec import to_json
from lab.engine.errors import LabError
from lab.model import ANSWER, Kind, Word
from lab.plan.census import Census, Taken, Wanted, census_for_exhaustive, census_for_random, census_of_runs, unreached
from lab.plan.exhaustive import exhaustive_plan
from lab.plan.points import Plan, bug_plan, shard
from lab.plan.sampled import random_plan, recoveries_wanted
from lab.report.reports import MATRIX
from lab.report.text import plural, some
from lab.subject.spec import Subject
from lab.trial import take_census
from lab.trial.prepare import workloads
from lab.trial.setting import Setting
from lab.trial.worker import Worker

WORKLOADS = 10  # scripts of a campaign: enough that each hook is met in many neighbourhoods
MAX_SHARD_CHARS = 20  # Python refuses to read a number of thousands of digits


def inputs(subject: Subject, request: Request) -> Inputs:
    scripts = workloads(subject, request.seed, WORKLOADS)
    return Inputs(scripts.killed, scripts.prepared)


def census(planning: Planning, *, exhaustive: bool) -> Census:
    """What can be reached: every run on the first and the last layer, then recoveries."""
    setting, pool, storages = planning.setting, planning.pool, planning.request.storages
    hooks, barrier = setting.subject.hooks, setting.subject.barrier

    def take(worker: Worker, wanted: Wanted) -> Taken:
        first = wanted.first.point if wanted.first else None
        found = take_census(setting, worker, wanted.workload, wanted.storage, first)
        if found.failure is not None and found.failure.word is Word.ERROR:
            raise LabError(f"a census on {wanted.storage} failed: {found.failure.what}")
        hits = tuple(hit for hit in found.hits if hit.hook != ANSWER)
        return Taken(hits, found.failure.what if found.failure else None)

    def take_all(wanted: Sequence[Wanted]) -> list[Taken]:
        return pool.all(wanted, take)

    planning.say(f"census   {len(setting.workloads)} workloads, each twice")
    runs = census_of_runs(take_all, len(setting.workloads), storages, hooks)
    if exhaustive:
        return census_for_exhaustive(take_all, setting.seed, runs, storages, hooks, barrier)
    least = recoveries_wanted(planning.request.options.get("points", 0), len(setting.workloads))
    return census_for_random(
        take_all, setting.seed, runs, storages[0], hooks, barrier, least=least, batch=2 * pool.size
    )


def plan(planning: Planning) -> tuple[Plan, Mapping[str, Any]]:
    request, subject, options = planning.request, planning.setting.subject, planning.request.options
    points, where = options["points"], (request.storages, request.faults)
    found = census(planning, exhaustive=options["exhaustive"])
    for failure in found.failed:
        planning.say(f"census   {failure}; it is tried first")
    missing = [] if found.failed else list(unreached(subject.hooks, found))
    if missing:  # a recovery that loses what it should recover reaches fewer hooks: the trials must show it
        planning.say(f"census   no recovery reaches {some(missing)}: without a violation that is a gap at the end")
    if request.bug is not None:
        made = bug_plan(request.seed, points, *where, subject.bug(request.bug), found)
    elif options["exhaustive"]:
        made = exhaustive_plan(request.seed, *where, subject.bugs, found)
    else:
        made = random_plan(request.seed, points, *where, subject.hooks, subject.coverage, subject.bugs, found)
    if options.get("shard"):
        made = shard(made, *options["shard"])
    return made, {"census.json": to_json(found)}


def plan_line(plan: Plan, request: Request, setting: Setting) -> str:
    points = sum(t.kind is Kind.POINT for t in plan.trials)
    layers, faults = len(request.storages), len(request.faults)
    parts = [f"{plural(points, 'trial')} = {plural(points // (layers * faults), 'point')} × {plural(layers, 'layer')}"]
    if faults > 1:
        parts[0] += f" × {plural(faults, 'fault')}"
    parts += [f"{len(setting.workloads)} workloads", f"{len(setting.subject.hooks)} hooks"]
    if probes := sum(t.kind is Kind.PROBE for t in plan.trials):
        parts.append(f"{probes:,} probes")
    if canaries := len({(t.bug, t.storage) for t in plan.trials if t.kind is Kind.CANARY}):
        parts.append(f"{canaries} canaries")
    return "plan     " + " · ".join(parts)


def _shard(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if not value:
        return None
    index, slash, of = value.partition("/")
    plain = slash and index.isdecimal() and of.isdecimal() and value.isascii() and len(value) <= MAX_SHARD_CHARS
    if not plain or not 1 <= int(index) <= int(of):
        raise click.BadParameter("is i/n with 1 <= i <= n, such as 2/8")
    return int(index), int(of)


MATRIX_CAMPAIGN = register(
    Campaign(
        name="matrix",
        summary="Kill a subject at seeded points of its census, on each storage layer.",
        subject="kernel",
        driven_by="itself",
        options=(
            click.Option(
                ["--points"], default=500, envvar="LAB_POINTS", type=click.IntRange(1, 100_000), help="Per layer."
            ),
            click.Option(
                ["--exhaustive"], is_flag=True, help="Every crash point of the census instead of --points of them."
            ),
            click.Option(["--shard"], envvar="LAB_SHARD", callback=_shard, help="Only part i of n of the plan: i/n."),
        ),
        inputs=inputs,
        plan=plan,
        plan_line=plan_line,
        report=MATRIX,
    )
)
