"""What the trials of a run stand on: images, services, storage layers, workers, the prepared state."""

from __future__ import annotations

import io
import platform
import tarfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import docker

from lab.campaigns.base import Inputs, Request
from lab.engine import gc, images
from lab.engine.client import connect
from lab.engine.host import Say
from lab.model import Json
from lab.run.pool import Pool, Stop, open_pool
from lab.run.record import Record
from lab.storage import Provisioner
from lab.subject.spec import Subject
from lab.trial.prepare import prepare
from lab.trial.setting import Prepared, Setting
from lab.trial.worker import Images, Services, open_layers, open_services

OWN_IMAGES = ("base", "storage", "ledger")
CLIENTS = images.SYSTEM / "clients"


@dataclass(frozen=True)
class Tags:
    """The images of a run."""

    own: Images
    subject: str
    verifier: str
    clients: str | None

    @property
    def named(self) -> tuple[str, ...]:
        """Those that the subject names."""
        return tuple(tag for tag in (self.subject, self.verifier, self.clients) if tag is not None)


@dataclass(frozen=True)
class Stage:
    """Everything that trials of one run need, ready."""

    setting: Setting
    services: Services
    tags: Tags
    filesystems: Mapping[str, str]
    pool: Pool


def build(client: docker.DockerClient, subject: Subject, stop: Stop, say: Say) -> Tags:
    """Build the images that are not up to date. Raises LabError, Interrupted as soon as the user wants to stop."""

    def image(reference: str) -> str:
        return images.resolve(client, reference, subject.folder, say, stop.soon)

    own = Images(**images.ensure(client, OWN_IMAGES, say, stop.soon))
    clients = image(subject.fuzz.clients or f"{images.BUILD}{CLIENTS}") if subject.fuzz is not None else None
    verifier = image(subject.verifier.image)
    return Tags(own, image(subject.subject.image), verifier, clients)


def recorded_tags(client: docker.DockerClient, record: Record) -> Tags:
    """The images that a stored run ran on. Raises ImageMissing if one is not there any more."""
    header, folder = record.header(), record.subject().folder
    own = Images(**{name: header.environment["images"][name] for name in OWN_IMAGES})
    tags = Tags(own, header.subject_image, header.verifier_image, header.clients_image)
    for tag in (own.base, own.storage, own.ledger, *tags.named):
        images.resolve(client, tag, folder, lambda _: None)
    return tags


@contextmanager
def new_stage(run: str, request: Request, subject: Subject, inputs: Inputs, tags: Tags, stop: Stop) -> Iterator[Stage]:
    """The stage of a new run, its prepared state made. All is released on the way out."""
    with _services(run, request.storages, request.workers, subject, tags, stop) as (services, layers, pool):
        prepared = Prepared({}, {}, _empty(subject.subject.uid))
        if inputs.preparing is not None:
            (prepared,) = pool.all(
                [inputs.preparing], lambda w, script: prepare(services, w, subject, tags.subject, script)
            )
        for layer in layers.values():
            layer.prepare(prepared.archive)
        setting = Setting(
            run, request.seed, subject, tags.subject, tags.verifier, tags.clients, inputs.workloads, prepared
        )
        yield Stage(setting, services, tags, {name: layer.filesystem for name, layer in layers.items()}, pool)


@contextmanager
def old_stage(
    record: Record, storages: Sequence[str], workers: int, stop: Stop, *, keep: bool = False
) -> Iterator[Stage]:
    """The stage of a run that is on disk: the same images, workloads and prepared state. Raises LabError."""
    setting = record.setting()
    tags = recorded_tags(connect(), record)
    # A name of its own for this session's services: what a killed session left is another's to remove.
    session = f"{setting.run}-{uuid.uuid4().hex[:4]}"
    with _services(session, storages, workers, setting.subject, tags, stop, keep=keep) as (services, layers, pool):
        for layer in layers.values():
            layer.prepare(setting.prepared.archive)
        yield Stage(setting, services, tags, {name: layer.filesystem for name, layer in layers.items()}, pool)


@contextmanager
def _services(
    run: str, storages: Sequence[str], workers: int, subject: Subject, tags: Tags, stop: Stop, *, keep: bool = False
) -> Iterator[tuple[Services, dict[str, Provisioner], Pool]]:
    with ExitStack() as stack:
        services = stack.enter_context(open_services(connect(), run, tags.own, kept=keep))
        layers = open_layers(services, storages, subject.subject.uid)
        yield services, layers, stack.enter_context(open_pool(services, layers, workers, stop))


def _empty(uid: int) -> bytes:
    """A prepared state in which nothing is: a folder that belongs to the subject."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        home = tarfile.TarInfo("./")
        home.type, home.mode, home.uid, home.gid = tarfile.DIRTYPE, 0o755, uid, uid
        archive.addfile(home)
    return buffer.getvalue()


def collect_dead(client: docker.DockerClient, say: Say, dead_run: str | None = None) -> None:
    """Remove what dead runs left, before a run of ours begins or is resumed. What a person kept is left alone."""
    for gone in gc.collect(client, kept_too=False, dead_run=dead_run):
        say(f"gc       {gone.run}: {len(gone.containers)} containers, {len(gone.volumes)} volumes removed")


def environment(stage: Stage) -> Json:
    """What the run stands on, for the record: a result is worth little without it."""
    client, own = stage.services.client, stage.tags.own
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
        "image_digests": {tag: client.images.get(tag).id for tag in (*tags.values(), *stage.tags.named)},
        "filesystems": dict(stage.filesystems),
        "packages": list(images.packages(client, own.base)),
    }
