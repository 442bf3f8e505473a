"""What the trials of a run stand on: images, services, storage layers, workers, the prepared state."""

from __future__ import annotations

import io
import platform
import tarfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from lab.campaigns.base import Inputs, Request
from lab.engine import gc, images
from lab.engine.client import connect
from lab.engine.host import Say
from lab.model import Json
from lab.run.pool import Pool, Stop, open_pool
from lab.run.record import Record
from lab.storage import find
from lab.subject.spec import Subject
from lab.trial.prepare import prepare
from lab.trial.setting import Prepared, Setting
from lab.trial.worker import Images, Services, open_layers, open_services

OWN_IMAGES = {name: images.SYSTEM / name for name in ("base", "storage", "ledger")}
CLIENTS = images.SYSTEM / "clients"


@dataclass(frozen=True)
class Stage:
    """Everything that trials of one run need, ready."""

    setting: Setting
    services: Services
    pool: Pool


@contextmanager
def new_stage(run: str, request: Request, subject: Subject, inputs: Inputs, stop: Stop, say: Say) -> Iterator[Stage]:
    """The stage of a new run: its images built, its prepared state made. All but the images is released on the way out.

    Raises LabError, Interrupted as soon as the user wants to stop.
    """
    client = connect()

    def image(reference: str) -> str:
        return images.resolve(client, reference, subject.folder, say, stop.soon)

    own = Images(**images.ensure_folders(client, OWN_IMAGES, say, stop.soon))
    clients = image(subject.fuzz.clients or f"{images.BUILD}{CLIENTS}") if subject.fuzz is not None else None
    verifier = image(subject.verifier.image)
    program = image(subject.subject.image)
    with open_services(client, run, own) as services:
        layers = open_layers(services, request.storages, subject.subject.uid)
        with open_pool(services, layers, request.workers, stop) as pool:
            prepared = Prepared({}, {}, _empty(subject.subject.uid))
            if inputs.preparing is not None:
                (prepared,) = pool.all([inputs.preparing], lambda w, work: prepare(services, w, subject, program, work))
            for layer in layers.values():
                layer.prepare(prepared.archive)
            setting = Setting(run, request.seed, subject, program, verifier, clients, inputs.workloads, prepared)
            yield Stage(setting, services, pool)


@contextmanager
def old_stage(
    record: Record, storages: Sequence[str], workers: int, stop: Stop, *, keep: bool = False
) -> Iterator[Stage]:
    """The stage of a run that is on disk: the same images, workloads and prepared state.

    Raises LabError, such as ImageMissing for an image that is not there any more.
    """
    client, setting = connect(), record.setting()
    tags = record.header().environment["images"]
    own = Images(**{name: tags[name] for name in OWN_IMAGES})
    for tag in (*asdict(own).values(), *_named(setting)):
        images.resolve(client, tag, setting.subject.folder, lambda _: None)
    # A name of its own for this session's services: what a killed session left is another's to remove.
    session = f"{setting.run}-{uuid.uuid4().hex[:4]}"
    with open_services(client, session, own, kept=keep) as services:
        layers = open_layers(services, storages, setting.subject.subject.uid)
        for layer in layers.values():
            layer.prepare(setting.prepared.archive)
        with open_pool(services, layers, workers, stop) as pool:
            yield Stage(setting, services, pool)


def _empty(uid: int) -> bytes:
    """A prepared state in which nothing is: a folder that belongs to the subject."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        home = tarfile.TarInfo("./")
        home.type, home.mode, home.uid, home.gid = tarfile.DIRTYPE, 0o755, uid, uid
        archive.addfile(home)
    return buffer.getvalue()


def collect_dead(say: Say, dead_run: str | None = None) -> None:
    """Remove what dead runs left, before a run of ours begins or is resumed. What a person kept is left alone."""
    for gone in gc.collect(connect(), kept_too=False, dead_run=dead_run):
        say(f"gc       {gone.run}: {len(gone.containers)} containers, {len(gone.volumes)} volumes removed")


def environment(stage: Stage, storages: Sequence[str]) -> Json:
    """What the run stands on, for the record: a result is worth little without it."""
    client, own = stage.services.client, asdict(stage.services.images)
    info, version = client.info(), client.version()
    return {
        "engine": {"version": version["Version"], "api": version["ApiVersion"], "driver": info["Driver"]},
        "kernel": version["KernelVersion"],
        "architecture": info["Architecture"],
        "cpus": info["NCPU"],
        "memory_bytes": info["MemTotal"],
        "controller": {"python": platform.python_version(), "system": platform.platform()},
        "images": own,
        "image_digests": {tag: client.images.get(tag).id for tag in (*own.values(), *_named(stage.setting))},
        "filesystems": {name: find(name).filesystem for name in storages},
        "packages": list(images.packages(client, own["base"])),
    }


def _named(setting: Setting) -> Iterator[str]:
    """The images that the subject names."""
    return filter(None, (setting.subject_image, setting.verifier_image, setting.clients_image))
