"""Runs a campaign, and goes on with one that was stopped: the same few steps for every campaign.

Whatever happens, the journal says how the session ended, and the reports are written.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import faults
from lab.campaigns.base import CAMPAIGNS, Campaign, Planning, Request, Session, campaign_of
from lab.campaigns.stage import Stage, collect_dead, environment, new_stage, old_stage
from lab.engine.errors import Interrupted, UsageError
from lab.engine.host import Say
from lab.model import Trial, Verdict, catches
from lab.report import write
from lab.report.progress import Goal, Progress
from lab.run.pool import Stop
from lab.run.record import Header, Record, new_run_id, took_s
from lab.run.scheduler import Order, run_groups
from lab.storage.layers import find as find_layer
from lab.subject.load import check_faults
from lab.subject.load import load as load_subject
from lab.subject.spec import Subject


@contextmanager
def interruptible(say: Say) -> Iterator[Stop]:
    """Turns SIGINT and SIGTERM into a wish: the first finishes what runs, the second stops now, the third kills."""
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.now.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.ask()
        say("stopping now" if stop.now.is_set() else "stopping: what runs is finished (again: stop now)")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def checked(request: Request) -> Subject:
    """The subject that was asked for, if the request fits it. Raises UsageError."""
    subject, campaign = load_subject(request.subject), CAMPAIGNS[request.campaign]
    if subject.driven_by != campaign.driven_by:
        others = " or ".join(f"`lab run {c.name}`" for c in CAMPAIGNS.values() if c.driven_by == subject.driven_by)
        raise UsageError(
            f"{subject.name} is driven by {subject.driven_by}, which {campaign.name} cannot run", f"{others} can."
        )
    check_faults(subject, faults.names())
    if request.bug is not None:
        subject.bug(request.bug)
    if len(set(request.storages)) != len(request.storages):
        raise UsageError("a storage layer is named twice")
    for layer, fault in itertools.product(map(find_layer, request.storages), faults.parse(",".join(request.faults))):
        if why := fault.unavailable(layer):
            raise UsageError(why)
    return subject


def run(request: Request, say: Say, progress: Progress) -> int:
    """A whole run of a campaign; the command's exit code."""
    campaign, subject = CAMPAIGNS[request.campaign], checked(request)
    inputs = campaign.inputs(subject, request)
    with interruptible(say) as stop:
        collect_dead(say)
        with new_stage(new_run_id(uuid.uuid4().hex), request, subject, inputs, stop, say) as stage:
            record = _new_record(request, stage, inputs.files)
            with record.locked():
                plan, files = campaign.plan(Planning(request, inputs, stage.setting, stage.pool, say))
                for name, content in files.items():
                    record.write(name, content)
                record.write_plan(plan)
                say(campaign.plan_line(plan, request, stage.setting))
                _carry_out(campaign, record, stage, stop, say, progress)
        return finish(record, say)


def resume(record: Record, say: Say, progress: Progress) -> int:
    """Finish a run that was stopped, each trial exactly once; the command's exit code."""
    campaign, header = campaign_of(record), record.header()
    with interruptible(say) as stop:
        with record.locked():
            collect_dead(say, dead_run=record.path.name)
            with old_stage(record, header.storages, header.workers, stop) as stage:
                _carry_out(campaign, record, stage, stop, say, progress)
            collect_dead(say, dead_run=record.path.name)
        return finish(record, say)


def finish(record: Record, say: Say) -> int:
    """Write the reports of a stored run again and show its end; the command's exit code."""
    return write.finish(record, campaign_of(record).report, say)


def _new_record(request: Request, stage: Stage, files: Mapping[str, Any]) -> Record:
    """Write down what is run on what, before anything is killed."""
    setting = stage.setting
    record = Record.create(
        Header(
            run=setting.run,
            campaign=request.campaign,
            subject=request.subject,
            seed=request.seed,
            storages=request.storages,
            workers=request.workers,
            keep_all_evidence=request.keep_evidence,
            bug=request.bug,
            faults=request.faults,
            options=dict(request.options),
            subject_image=setting.subject_image,
            verifier_image=setting.verifier_image,
            clients_image=setting.clients_image,
            environment=environment(stage, request.storages),
        )
    )
    record.write("subject.json", setting.subject.model_dump(mode="json"))
    record.write_inputs(setting.workloads, setting.prepared)
    for name, content in files.items():
        record.write(name, content)
    return record


def _carry_out(campaign: Campaign, record: Record, stage: Stage, stop: Stop, say: Say, progress: Progress) -> None:
    """Run every trial that has no result yet, and what the campaign does at its end."""
    header, setting = record.header(), stage.setting
    session = Session(record, header, setting, record.plan(), list(record.results()))
    bugs = {bug.name: bug.property for bug in setting.subject.bugs}

    def caught(trial: Trial, verdict: Verdict) -> bool:
        return catches(verdict, bugs.get(trial.bug or "", ""))

    spent_s = took_s(record.journal(), "result")
    record.begin_session()
    ended = False
    try:
        progress.start(header.campaign, Goal.of(session.plan), session.results, spent_s)
        order = Order(setting, record, header.keep_all_evidence, caught)
        with contextlib.closing(run_groups(campaign.groups(session), order, stage.pool)) as results:
            for result in results:  # if showing a result fails, the workers stop before their services do
                session.results.append(result)
                progress.finished(result)
        progress.stop()
        if not stop.soon.is_set():
            campaign.finish(session, stage.pool, say)
        ended = True
    except Interrupted:
        pass
    finally:
        with contextlib.suppress(OSError):  # a closed terminal must not hide why a run ended
            progress.stop()
        record.end_session(interrupted=not ended or stop.soon.is_set())
