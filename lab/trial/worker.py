"""What a trial needs around it: the setting that all trials of a campaign share, and the things that a worker owns.

A setting is plain, picklable data. A worker has its own engine client and namespace holder; agent and ledger are the
run's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

import docker

from lab.engine.client import connect
from lab.engine.errors import UsageError
from lab.engine.gc import sweep
from lab.engine.services import (
    LABEL_KEPT,
    LABEL_RUN,
    Ledger,
    Service,
    effect_ledger,
    namespace_holder,
    pool_volume,
    storage_agent,
)
from lab.model import Json, Promises
from lab.storage import Backend, Provisioner, find
from lab.subject.load import Subject

WORKLOAD_BYTES = 100 * 1024  # Linux takes 128 KiB for one environment variable


@dataclass(frozen=True)
class Prepared:
    """The state that every trial starts from: a finished workload, what it left, and what the ledger saw of it."""

    workload: Json
    ledger: Json
    archive: bytes  # a tar of the data folder, as the subject's user

    @property
    def told(self) -> Json:
        """What the verifier is told of it."""
        return {"workload": self.workload, "ledger": self.ledger}


@dataclass(frozen=True)
class Setting:
    """What all trials of a campaign share. Plain data."""

    run: str
    seed: int
    subject: Subject
    subject_image: str
    verifier_image: str
    workloads: tuple[Json, ...]
    rules: tuple[Json, ...]  # of the ledger, per workload
    promises: tuple[Promises, ...]  # that a trial of it is judged by, per workload
    prepared: Prepared

    @cached_property
    def workload_texts(self) -> tuple[str, ...]:
        """The workloads as the subject gets them, in `LAB_WORKLOAD`."""
        return tuple(workload_text(w) for w in self.workloads)


def workload_text(workload: Json) -> str:
    """A workload as a subject gets it. Raises UsageError if it is longer than an environment variable may be."""
    text = json.dumps(workload, sort_keys=True, separators=(",", ":"))
    if len(text) > WORKLOAD_BYTES:
        raise UsageError(
            f"a workload has {len(text):,} bytes; at most {WORKLOAD_BYTES:,} fit", "Split it into several workloads."
        )
    return text


@dataclass(frozen=True)
class Images:
    """Tags of the lab's own images."""

    base: str
    storage: str
    ledger: str


@dataclass(frozen=True)
class Services:
    """A run's place on one engine: its agent, its ledger, its volumes. Made by `open_services`, which releases them."""

    run: str
    client: docker.DockerClient
    images: Images
    agent: Service
    ledger: Ledger
    labels: Mapping[str, str]

    @contextmanager
    def worker(self, number: int, layers: Mapping[str, Provisioner], stop: threading.Event) -> Iterator[Worker]:
        """A worker with an engine client and a namespace holder of its own."""
        client = connect()
        try:
            with namespace_holder(client, self.run, self.images.base, number) as holder:
                yield Worker(client, holder, layers, self.ledger, self.images.base, self.labels, stop)
        finally:
            client.close()


@dataclass(frozen=True)
class Worker:
    """All that one thread needs to run trials."""

    client: docker.DockerClient
    holder: str  # id of the container whose network namespace its trials share
    layers: Mapping[str, Provisioner]
    ledger: Ledger
    keeper_image: str  # has `sleep`
    labels: Mapping[str, str]
    stop: threading.Event  # set when the user wants to stop now


@contextmanager
def open_services(client: docker.DockerClient, run: str, images: Images, *, kept: bool = False) -> Iterator[Services]:
    """Volumes, storage agent and ledger of a run. On the way out they are gone, whatever has happened.

    The agent comes first and goes last but for the volumes: while it lives, no `lab gc` takes this run's things.
    `kept` leaves the volumes to `lab gc`, for a trial whose containers a person wants to look into.
    """
    labels = {LABEL_RUN: run, **({LABEL_KEPT: "1"} if kept else {})}
    with ExitStack() as stack:
        stack.callback(sweep, client, run)
        agent = stack.enter_context(storage_agent(client, run, images.storage, labels))
        ledger = stack.enter_context(effect_ledger(client, run, images.ledger, labels, agent))
        yield Services(run, client, images, agent, ledger, labels)


def open_layers(services: Services, names: Sequence[str], uid: int) -> dict[str, Provisioner]:
    """The storage layers that were asked for, each tried once. Raises StorageUnavailable: none is skipped silently."""
    backend = Backend(services.client, services.agent, pool_volume(services.run), services.labels, uid)
    layers = {name: Provisioner(find(name), backend) for name in names}
    for layer in layers.values():
        layer.probe()
    return layers
