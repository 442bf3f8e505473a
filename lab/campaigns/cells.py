"""The cells campaign: conformance cells of a session store, in journal modes, on storage layers (docs/cells.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from lab.campaigns.base import Campaign, Inputs, Planning, Request, register
from lab.codec import from_json, to_json
from lab.engine.errors import LabError
from lab.model import CrashScript, Hit, Kind
from lab.plan.cells import Asked, Leg, leg_of, legs_of, make_plan
from lab.plan.census import refuse_if_different
from lab.plan.points import Plan
from lab.report.reports import CELLS
from lab.report.text import plural
from lab.subject.spec import Subject
from lab.trial import take_census
from lab.trial.setting import Setting
from lab.trial.worker import Worker
from lab.workloads import session_cells

LEGS = "legs.json"


def inputs(subject: Subject, request: Request) -> Inputs:
    legs, workloads = legs_of(subject, request.seed, _asked(request))
    return Inputs(workloads, session_cells.prepared(request.seed), {LEGS: to_json(legs)})


def _asked(request: Request) -> Asked:
    return Asked(request.storages, request.faults, request.options["nightly"], request.bug)


def census(planning: Planning, legs: Sequence[Leg]) -> dict[int, tuple[Hit, ...]]:
    """Per workload every hit and every answer, taken on the first and the last layer, and refused if they differ."""
    request, setting = planning.request, planning.setting
    ends = (request.storages[0], request.storages[-1])
    if request.bug is not None:
        legs = [leg_of(setting.subject.bug(request.bug), legs)]
    tasks = [(leg.workload, storage) for leg in legs if leg.workload is not None for storage in ends]

    def take(worker: Worker, task: tuple[int, str]) -> tuple[Hit, ...]:
        found = take_census(setting, worker, *task, None)
        if found.failure is not None:
            raise LabError(f"the census of workload {task[0]} on {task[1]} failed: {found.failure.what}")
        return found.hits

    taken: dict[int, list[tuple[Hit, ...]]] = {}
    for (workload, _), hits in zip(tasks, planning.pool.all(tasks, take), strict=True):
        taken.setdefault(workload, []).append(hits)
    for workload, pair in taken.items():
        refuse_if_different(f"workload {workload}", pair, ends)
    return {workload: pair[0] for workload, pair in taken.items()}


def plan(planning: Planning) -> tuple[Plan, Mapping[str, Any]]:
    legs = from_json(tuple[Leg, ...], planning.inputs.files[LEGS])
    offered = sum(leg.workload is not None for leg in legs)
    planning.say(f"census   {offered} legs, each twice; {len(legs) - offered} not offered")
    found = census(planning, legs)
    made = make_plan(planning.setting, _asked(planning.request), legs, found)
    return made, {"census.json": to_json(found)}


def plan_line(plan: Plan, request: Request, setting: Setting) -> str:
    points = [trial for trial in plan.trials if trial.kind is Kind.POINT]
    races = sum(isinstance(t.script, CrashScript) and bool(t.script.racers) for t in points)
    cells = {str(workload.get("cell")) for workload in setting.workloads}
    canaries = len({(t.bug, t.storage) for t in plan.trials if t.kind is Kind.CANARY})
    parts = [f"{plural(len(points), 'trial')} on {plural(len(request.storages), 'layer')}", plural(len(cells), "cell")]
    return "plan     " + " · ".join([*parts, plural(races, "race"), f"{canaries} canaries"])


CELLS_CAMPAIGN = register(
    Campaign(
        name="cells",
        summary='Conformance cells: does "resume" mean resume? A session store, over journal modes and storage layers.',
        subject="sessions",
        driven_by="itself",
        options=(
            click.Option(["--nightly"], is_flag=True, help="All journal modes, long stories, more crash points."),
        ),
        inputs=inputs,
        plan=plan,
        plan_line=plan_line,
        report=CELLS,
    )
)
