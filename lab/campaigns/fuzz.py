"""The fuzz campaign: three clients against a daemon that is killed again and again, scenario after scenario."""

from __future__ import annotations

import contextlib
import io
import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lab.campaigns import frame
from lab.campaigns.frame import OWN_IMAGES, Request, Say
from lab.engine import images
from lab.engine.client import connect
from lab.engine.errors import Interrupted
from lab.fuzz import run as runs
from lab.fuzz import store
from lab.fuzz.model import FuzzResult, FuzzTrial
from lab.fuzz.store import Bounds
from lab.fuzz.trial import FuzzSetting
from lab.model import catches
from lab.plan.plan_file import corpus_of, plan_of
from lab.plan.schedule import Draw, groups
from lab.report import write as reports
from lab.report.fuzz_progress import FuzzProgress
from lab.run import reproducer as scripts
from lab.run.load import recorded_subject, took_s
from lab.run.pool import Crew, Stop, crew
from lab.run.record import Header, Record, new_run_id
from lab.subject.load import Bug, Subject
from lab.trial.worker import Images, Services, open_layers, open_services

MAX_SHRUNK = 3  # violations of one run, each of another property: others of the same most likely are the same again
CLIENTS = images.SYSTEM / "clients"
MakeProgress = Callable[[tuple[str, ...]], FuzzProgress]


@dataclass(frozen=True)
class Tags:
    """The images of a run."""

    own: Images
    subject: str
    verifier: str
    clients: str


@dataclass(frozen=True)
class Stage:
    """Everything that the trials of one run need, ready."""

    setting: FuzzSetting
    services: Services
    tags: Tags
    filesystems: dict[str, str]
    crew: Crew


def run_fuzz(request: Request, bounds: Bounds, say: Say, progress: MakeProgress) -> int:
    """A whole fuzz run; the command's exit code."""
    subject = frame.checked(request)
    plan, _ = plan_of(subject), corpus_of(subject)  # both read before anything is built
    with frame.interruptible(say) as stop:
        client = connect()
        frame.collect_dead(client, say)
        tags = build(subject, say)
        with stage(new_run_id(uuid.uuid4().hex), request, subject, tags, stop) as ready:
            record = _new_record(request, ready)
            with record.locked():
                store.write_plan(record, plan, bounds, tags.clients)
                _carry_out(record, ready, stop, say, progress)
        return _end(record, stop, say)


def resume_fuzz(record: Record, say: Say, progress: MakeProgress) -> int:
    """Go on with a run that was stopped: what its journal has is not run again, and its time is what was left."""
    header, subject = record.header(), recorded_subject(record)
    request = Request(
        header.campaign, header.subject, header.seed, header.storages, header.workers, header.keep_all_evidence
    )
    with frame.interruptible(say) as stop:
        with record.locked():
            frame.collect_dead(connect(), say, dead_run=record.path.name)
            name = f"{header.run}-{uuid.uuid4().hex[:4]}"  # what a killed session left is another's to remove
            with stage(name, request, subject, recorded_tags(record), stop) as ready:
                _carry_out(record, ready, stop, say, progress)
        return _end(record, stop, say)


def build(subject: Subject, say: Say) -> Tags:
    """Build the images that are not up to date."""
    client = connect()
    assert subject.fuzz is not None
    own = images.ensure(client, OWN_IMAGES, say)
    named = (subject.subject.image, subject.verifier.image, subject.fuzz.clients or f"{images.BUILD}{CLIENTS}")
    return Tags(Images(**own), *(images.resolve(client, name, subject.folder, say) for name in named))


def recorded_tags(record: Record) -> Tags:
    """The images that a stored run ran on. Raises ImageMissing if one is not there any more."""
    header = record.header()
    own = Images(**{name: header.environment["images"][name] for name in OWN_IMAGES})
    tags = Tags(own, header.subject_image, header.verifier_image, store.read_plan(record)[2])
    client, folder = connect(), recorded_subject(record).folder
    for tag in (own.base, own.storage, own.ledger, tags.subject, tags.verifier, tags.clients):
        images.resolve(client, tag, folder, lambda _: None)
    return tags


@contextmanager
def stage(run: str, request: Request, subject: Subject, tags: Tags, stop: Stop) -> Iterator[Stage]:
    """Open services, layers and crew. All is released on the way out."""
    client = connect()
    with ExitStack() as stack:
        services = stack.enter_context(open_services(client, run, tags.own))
        layers = open_layers(services, request.storages, subject.subject.uid)
        for layer in layers.values():
            layer.prepare(_nothing(subject.subject.uid))
        workers = stack.enter_context(crew(services, layers, request.workers, stop))
        setting = FuzzSetting(run, subject, tags.subject, tags.verifier, tags.clients)
        yield Stage(setting, services, tags, {name: layer.filesystem for name, layer in layers.items()}, workers)


def _nothing(uid: int) -> bytes:
    """The prepared state of a daemon: an empty home that belongs to it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        home = tarfile.TarInfo("./")
        home.type, home.mode, home.uid, home.gid = tarfile.DIRTYPE, 0o755, uid, uid
        archive.addfile(home)
    return buffer.getvalue()


def _new_record(request: Request, ready: Stage) -> Record:
    """Write down what is run on what, before anything is killed."""
    tags, client = ready.tags, ready.services.client
    others = (tags.subject, tags.verifier, tags.clients)
    header = Header(
        run=ready.setting.run,
        campaign=request.campaign,
        subject=request.subject,
        seed=request.seed,
        storages=request.storages,
        workers=request.workers,
        keep_all_evidence=request.keep_evidence,
        bug=request.bug,
        subject_image=tags.subject,
        verifier_image=tags.verifier,
        environment=frame.environment(client, tags.own, others, ready.filesystems),
    )
    record = Record.create(header)
    record.write("subject.json", ready.setting.subject.model_dump(mode="json"))
    return record


def _carry_out(record: Record, ready: Stage, stop: Stop, say: Say, make: MakeProgress) -> None:
    """Trials until the bounds are reached or the planted bug is caught; then what broke a promise is made short."""
    header, subject = record.header(), ready.setting.subject
    plan, bounds, _ = store.read_plan(record)
    bug = subject.bug(header.bug) if header.bug is not None else None
    draw = Draw(plan, subject.hooks, header.seed, header.storages)
    caught = caught_by(bug, store.results(record))
    asked = groups(draw, subject.bugs, corpus_of(subject), bug, bounds.trials)
    asked = _until(bounds, took_s(record.journal()), caught, asked)
    progress = make(header.storages)
    record.begin_session()
    ended = False
    try:
        progress.start(bounds.minutes, bounds.trials)
        found = runs.run_groups(asked, ready.setting, ready.crew, record, keep_evidence=header.keep_all_evidence)
        with contextlib.closing(found):
            for result in found:
                progress.finished(result)
                if bug is not None and catches(result.verdict, bug.property):
                    caught.set()
        progress.stop()
        if not stop.soon.is_set():
            _make_short(record, bug, bounds.shrink_s, ready, say)
        ended = True
    except Interrupted as error:
        raise Interrupted("in the middle of its trials", f"`lab resume {header.run}` finishes it.") from error
    finally:
        with contextlib.suppress(OSError):  # a closed terminal must not hide why a run ended
            progress.stop()
        record.end_session(interrupted=not ended or stop.soon.is_set())


def caught_by(bug: Bug | None, results: Iterable[FuzzResult]) -> threading.Event:
    """Set once the planted bug is caught, be it in a session before."""
    caught = threading.Event()
    if bug is not None and any(catches(result.verdict, bug.property) for result in results):
        caught.set()
    return caught


def _until(
    bounds: Bounds, before_s: float, caught: threading.Event, asked: Iterator[tuple[FuzzTrial, ...]]
) -> Iterator[tuple[FuzzTrial, ...]]:
    """Groups until the time is up or the planted bug has been caught."""
    until_s = None if bounds.minutes is None else time.monotonic() + 60 * bounds.minutes - before_s
    for group in asked:
        if caught.is_set() or (until_s is not None and time.monotonic() >= until_s):
            return
        yield group


def _make_short(record: Record, bug: Bug | None, seconds: float, ready: Stage, say: Say) -> None:
    """A short script for the first violation of each property, a few of them; of a planted bug for its own alone."""
    first: dict[str, FuzzResult] = {}
    for result in sorted(store.results(record), key=lambda r: r.trial.ident):
        prop = bug.property if bug is not None else result.verdict.property
        if runs.breaks(result.verdict, prop) and result.evidence is not None:
            first.setdefault(prop, result)
    for prop, result in list(first.items())[:MAX_SHRUNK] if seconds else ():
        path = store.script_of(result.trial.ident)
        if record.has(path) or result.evidence is None:
            continue
        say(f"shrink   trial {result.trial.ident}, {prop}: at most {seconds:.0f} s")
        evidence = store.read_evidence(record, result.evidence)
        found = runs.shrunk(evidence, prop, ready.setting, ready.crew, seconds)
        header = record.header()
        script = scripts.Script(
            found.scenario, result.trial.storage, prop, result.trial.bug, header.subject, header.run
        )
        record.write(store.how_of(result.trial.ident), scripts.how(found))
        record.write(path, scripts.to_json(script))


def _end(record: Record, stop: Stop, say: Say) -> int:
    code = reports.finish(record, say)
    if stop.soon.is_set():
        say(f"stopped  `lab resume {record.path.name}` finishes it")
        return 130
    return code
