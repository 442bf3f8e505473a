"""What a worker owns: an engine client and a namespace holder of its own. Agent and ledger are the run's."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import docker

from lab.engine.client import connect
from lab.engine.container import Spec
from lab.engine.gc import sweep
from lab.engine.services import (
    LABEL_KEPT,
    LABEL_ROLE,
    LABEL_RUN,
    Ledger,
    Service,
    effect_ledger,
    namespace_holder,
    pool_volume,
    storage_agent,
)
from lab.storage import Backend, Provisioner, find


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

    def spec(self, name: str, role: str, uid: int, image: str, command: Sequence[str]) -> Spec:
        """A container without a network, as a subject's user."""
        labels = {**self.labels, LABEL_ROLE: role}
        return Spec(image, command, f"{name}-{role}", labels, f"{uid}:{uid}", f"container:{self.holder}")


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
