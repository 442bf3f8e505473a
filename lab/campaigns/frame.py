"""What every campaign stands in: images, services, layers and crew of a run; the record; the trials; the reports.

A campaign adds what to run (a census and a plan) and what of it must have been seen.
"""

from __future__ import annotations

import contextlib
import platform
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

import docker

from lab.engine import gc, images
from lab.engine.client import connect
from lab.engine.errors import Interrupted, UsageError
from lab.fuzz.model import CAMPAIGN
from lab.model import Json, Result, Trial, Verdict, catches
from lab.plan.points import Plan
from lab.run.load import recorded_subject
from lab.run.pool import Crew, Stop, crew
from lab.run.record import Header, Record, new_run_id
from lab.run.scheduler import run_plan
from lab.storage import Provisioner, find
from lab.subject.load import Subject
from lab.subject.load import load as load_subject
from lab.trial.prepare import Scripts, prepare, promises_of, rules_of
from lab.trial.worker import Images, Prepared, Services, Setting, open_layers, open_services

OWN_IMAGES = ("base", "storage", "ledger")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What the user asked for, whatever the campaign."""

    campaign: str
    subject: str
    seed: int
    storages: tuple[str, ...]
    workers: int
    keep_evidence: bool
    bug: str | None = None


@dataclass(frozen=True)
class Stage:
    """Everything that trials of one run need, ready."""

    setting: Setting
    services: Services
    layers: Mapping[str, Provisioner]
    crew: Crew


@contextmanager
def interruptible(say: Say) -> Iterator[Stop]:
    """Turns SIGINT and SIGTERM into a wish to stop: the first finishes what runs, the second stops now."""
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.ask()
        say("stopping now" if stop.now.is_set() else "stopping: what runs is finished (again: stop now)")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def all_ran(ran: int, times: int) -> None:
    """Raises Interrupted if a replay was stopped: what is left to run has neither come again nor not."""
    if ran < times:
        raise Interrupted(f"after {ran} of {times}")


def in_words(verdict: Verdict) -> str:
    """A verdict as a replay says it."""
    return f"{verdict.word} of {verdict.property}" if verdict.property else str(verdict.word)


@contextmanager
def new_stage(request: Request, subject: Subject, scripts: Scripts, stop: Stop, say: Say) -> Iterator[Stage]:
    """Build what is missing, open services, layers and crew, prepare the state. All is released on the way out."""
    client = connect()
    collect_dead(client, say)
    tags = images.ensure(client, OWN_IMAGES, say)
    subject_image = images.resolve(client, subject.subject.image, subject.folder, say)
    verifier_image = images.resolve(client, subject.verifier.image, subject.folder, say)
    run = new_run_id(uuid.uuid4().hex)
    with ExitStack() as stack:
        services = stack.enter_context(open_services(client, run, Images(**tags)))
        layers = open_layers(services, request.storages, subject.subject.uid)
        workers = stack.enter_context(crew(services, layers, request.workers, stop))
        (prepared,) = workers.all(
            [scripts.prepared], lambda w, script: prepare(services, w, subject, subject_image, script)
        )
        for layer in layers.values():
            layer.prepare(prepared.archive)
        setting = _setting(run, request.seed, subject, (subject_image, verifier_image), scripts.killed, prepared)
        yield Stage(setting, services, layers, workers)


@contextmanager
def old_stage(
    record: Record, storages: Sequence[str], worker_count: int, stop: Stop, *, keep: bool = False
) -> Iterator[Stage]:
    """The stage of a run that is on disk: the same images, workloads and prepared state. Raises LabError."""
    header, subject = record.header(), recorded_subject(record)
    client = connect()
    tags = header.environment["images"]
    for tag in (header.subject_image, header.verifier_image, *(tags[name] for name in OWN_IMAGES)):
        images.resolve(client, tag, subject.folder, lambda _: None)
    scripts, prepared = record.inputs()
    setting = _setting(
        header.run, header.seed, subject, (header.subject_image, header.verifier_image), scripts, prepared
    )
    # A name of its own for this session's services: what a killed session left is another's to remove.
    session = f"{header.run}-{uuid.uuid4().hex[:4]}"
    with ExitStack() as stack:
        services = stack.enter_context(
            open_services(client, session, Images(**{n: tags[n] for n in OWN_IMAGES}), kept=keep)
        )
        layers = open_layers(services, storages, subject.subject.uid)
        for layer in layers.values():
            layer.prepare(prepared.archive)
        workers = stack.enter_context(crew(services, layers, worker_count, stop))
        yield Stage(setting, services, layers, workers)


def _setting(
    run: str, seed: int, subject: Subject, tags: tuple[str, str], scripts: tuple[Json, ...], prepared: Prepared
) -> Setting:
    """`tags` are of the subject's image and of its verifier's."""
    rules = tuple(rules_of(script) for script in scripts)
    promises = tuple(promises_of(subject, script) for script in scripts)
    return Setting(run, seed, subject, *tags, scripts, rules, promises, prepared)


def collect_dead(client: docker.DockerClient, say: Say, dead_run: str | None = None) -> None:
    """Remove what dead runs left, before a run of ours begins or is resumed. What a person kept is left alone."""
    for gone in gc.collect(client, kept_too=False, dead_run=dead_run):
        say(f"gc       {gone.run}: {len(gone.containers)} containers, {len(gone.volumes)} volumes removed")


def new_record(request: Request, stage: Stage) -> Record:
    """Write down what is run on what, before anything is killed."""
    setting = stage.setting
    header = Header(
        run=setting.run,
        campaign=request.campaign,
        subject=request.subject,
        seed=request.seed,
        storages=request.storages,
        workers=request.workers,
        keep_all_evidence=request.keep_evidence,
        bug=request.bug,
        subject_image=setting.subject_image,
        verifier_image=setting.verifier_image,
        environment=environment(
            stage.services.client,
            stage.services.images,
            (setting.subject_image, setting.verifier_image),
            {name: layer.filesystem for name, layer in stage.layers.items()},
        ),
    )
    record = Record.create(header)
    record.write("subject.json", setting.subject.model_dump(mode="json"))
    record.write_inputs(setting.workloads, setting.prepared)
    return record


def environment(
    client: docker.DockerClient, own: Images, others: Sequence[str], filesystems: Mapping[str, str]
) -> Json:
    """What the run stands on, for the record: a result is worth little without it. `others` are tags of images."""
    info, version = client.info(), client.version()
    tags = {"base": own.base, "storage": own.storage, "ledger": own.ledger}
    return {
        "engine": {"version": version["Version"], "api": version["ApiVersion"], "driver": info["Driver"]},
        "kernel": version["KernelVersion"],
        "architecture": info["Architecture"],
        "cpus": info["NCPU"],
        "memory_bytes": info["MemTotal"],
        "controller": {"python": platform.python_version(), "system": platform.platform()},
        "images": tags,
        "image_digests": {tag: client.images.get(tag).id for tag in (*tags.values(), *others)},
        "filesystems": dict(filesystems),
        "packages": list(images.packages(client, own.base)),
    }


def carry_out(record: Record, plan: Plan, stage: Stage, stop: Stop, finished: Callable[[Result], None]) -> None:
    """Run every trial of the plan that has no result yet. Whatever happens, the journal says how the session ended."""
    bugs = {bug.name: bug.property for bug in stage.setting.subject.bugs}

    def caught(trial: Trial, verdict: Verdict) -> bool:
        return catches(verdict, bugs.get(trial.bug or "", ""))

    keep = record.header().keep_all_evidence
    record.begin_session()
    ended = False
    try:
        results = run_plan(plan.trials, stage.setting, stage.crew, record, keep_evidence=keep, catches=caught)
        with contextlib.closing(results):  # if showing a result fails, the workers stop before their services do
            for result in results:
                finished(result)
        ended = True
    finally:
        record.end_session(interrupted=not ended or stop.soon.is_set())


def checked(request: Request) -> Subject:
    """The subject that was asked for, if the request fits it. Raises UsageError."""
    subject = load_subject(request.subject)
    if (request.campaign == CAMPAIGN) != (subject.fuzz is not None):
        kind, campaign = ("a daemon", CAMPAIGN) if subject.fuzz else ("no daemon", "matrix")
        raise UsageError(
            f"{subject.name} is {kind}: this campaign cannot run it", f"`lab run {campaign} --subject …` can."
        )
    if request.bug is not None:
        subject.bug(request.bug)
    if len(set(request.storages)) != len(request.storages):
        raise UsageError("a storage layer is named twice")
    for name in request.storages:
        find(name)
    return subject
