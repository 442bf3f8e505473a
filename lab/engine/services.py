"""The long-lived services around trials: the storage agent, the effect ledger, and one namespace holder per worker.

Each ends by itself when its standard input closes (the ledger: when the agent ends) and is then removed by the engine.
So a `kill -9` of the lab takes them along, and a run without a living agent is known to be dead.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import docker
import docker.errors
import docker.types
from docker.types import LogConfig
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from lab.engine.base import present
from lab.engine.container import ATTACHED, Container, Mount, Spec
from lab.engine.errors import DeadlinePassed, ImageMissing, LabError, ServiceFailed
from lab.engine.removal import discard_volume
from lab.engine.stream import LineParser, Stream
from lab.model import Json

# Testcontainers' reaper would take the ledger away after a `kill -9` of the lab, before `lab resume` could say what
# was there, and its image cannot be had everywhere. Our own labels and `lab gc` do that work.
testcontainers_config.ryuk_disabled = True

LABEL_RUN = "crashlab.run"
LABEL_ROLE = "crashlab.role"
LABEL_KEPT = "crashlab.kept"  # on what a person asked to keep: only `lab gc` takes it
SOCKETS = "/ledger"  # in the ledger's container, a folder for each trial; in a subject's, that of its own trial
STORE = "/store"  # the ledger's database
POOL = "/pool"  # in the agent's container

SERVICE_CPU = {"cpu_quota": -1, "cpu_shares": 1024}  # no limit, and twice the share of a trial's container
AGENT_HOST_CONFIG = {
    # Only these, each for one thing: mount templates and probes; make device nodes; give the prepared state and fresh
    # file systems to the subject's user, and look into what belongs to that user.
    "cap_add": ["SYS_ADMIN", "MKNOD", "CHOWN", "DAC_OVERRIDE", "FOWNER"],
    "security_opt": ["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"],
    "device_cgroup_rules": ["b 7:* rmw", "c 10:237 rmw"],  # loop devices and their control
    "tmpfs": {"/tmp": "size=16m", "/images": "size=2g", "/dev-lab": "dev,size=1m"},
    "mem_limit": "3g",  # the images are sparse, in memory, and belong to its tmpfs
    "memswap_limit": "3g",
    "auto_remove": True,
    **SERVICE_CPU,
}


class Service:
    """A container that answers one JSON line to each JSON line. Safe to use from several threads."""

    def __init__(self, name: str, ident: str, stream: Stream, parser: LineParser) -> None:
        self.name = name
        self.ident = ident  # of its container
        self._stream = stream
        self._parser = parser
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def request(self, request: Mapping[str, object], timeout_s: float = 30.0) -> Json:
        """Ask and return the answer. Raises ServiceFailed if it refuses, has ended, or says nothing in time."""
        number = next(self._numbers)
        what = f"the {self.name} to answer `{request.get('do')}`"
        with self._lock:
            try:
                self._stream.send_line(json.dumps({"id": number, **request}).encode())
                answer = self._answer_to(number, timeout_s, what)
            except DeadlinePassed as error:
                raise ServiceFailed(str(error)) from error
        if not answer.get("ok"):
            raise ServiceFailed(f"the {self.name} refused `{request.get('do')}`: {answer.get('error', answer)}")
        return answer

    def _answer_to(self, number: int, timeout_s: float, what: str) -> Json:
        while True:
            if not self._stream.wait(lambda: bool(self._parser.answers), timeout_s, what):
                last = self._parser.log.text().strip()
                raise ServiceFailed(f"the {self.name} has ended{': ' + last if last else ''}")
            answer = self._parser.answers.popleft()
            if answer.get("id") == number:  # an older one belongs to a request that was given up
                return answer


@contextmanager
def storage_agent(client: docker.DockerClient, run: str, image: str, labels: Mapping[str, str]) -> Iterator[Service]:
    """The storage agent of a run, and its pool, a Docker volume on the engine's disk.

    `labels` are those of the run's volumes. The engine makes the pool together with the agent's container: so there
    is no moment in which a living run has volumes and no agent.
    """
    pool = pool_volume(run)
    mount = docker.types.Mount(POOL, pool, type="volume", labels=dict(labels))
    spec = Spec(
        image=image,
        command=["storage-agent"],
        name=f"lab-{run}-agent",
        labels={LABEL_RUN: run, LABEL_ROLE: "agent"},
        user="0:0",
        network="none",
        extra_host_config={**AGENT_HOST_CONFIG, "mounts": [mount]},
    )
    with ExitStack() as stack:
        if LABEL_KEPT not in labels:
            stack.callback(discard_volume, client, pool)
        yield stack.enter_context(_running(client, "storage agent", spec))


def pool_volume(run: str) -> str:
    """The Docker volume that a run's storage agent has at POOL."""
    return f"lab-{run}-pool"


@dataclass(frozen=True)
class Door:
    """How the processes of one trial reach the ledger: what a subject's container needs for it."""

    mount: Mount
    environment: Mapping[str, str]


class Ledger(Service):
    """The effect ledger of a run."""

    def __init__(self, ident: str, stream: Stream, parser: LineParser, sockets: str) -> None:
        super().__init__("ledger", ident, stream, parser)
        self._sockets = sockets  # the path of its volume on the engine's machine: handed back to it, never opened here

    @contextmanager
    def trial(self, client: docker.DockerClient, name: str, rules: Json, labels: Mapping[str, str]) -> Iterator[Door]:
        """Open a trial: requests may name it until the context ends, when the ledger forgets it.

        The door is a folder with this trial's socket alone, as a Docker volume that is a bind mount of it: the ledger
        lives longer than its trials and gains no mounts, and no subject, not even root, sees another trial's socket.
        """
        path = PurePosixPath(self.request({"do": "open", "trial": name, "rules": rules})["socket"])
        volume = f"{name}-ledger"
        options = {"type": "none", "o": "bind", "device": f"{self._sockets}/{path.parent.name}"}
        with ExitStack() as stack:
            stack.callback(self.request, {"do": "close", "trial": name})
            _make_volume(stack, client, volume, labels, driver="local", driver_opts=options)
            yield Door(Mount(volume, SOCKETS, read_only=True), {"LAB_LEDGER": f"{SOCKETS}/{path.name}"})


@contextmanager
def effect_ledger(
    client: docker.DockerClient, run: str, image: str, labels: Mapping[str, str], agent: Service
) -> Iterator[Ledger]:
    """The effect ledger of a run, and its volumes, which get `labels`. It ends with the agent."""
    if not present(client, image):  # testcontainers would pull a stranger's image of that name
        raise ImageMissing(f"image {image} is not there", "`lab setup` builds the lab's own.")
    sockets, store = f"lab-{run}-sockets", f"lab-{run}-store"
    ledger = DockerContainer(image, command="ledger", name=f"lab-{run}-ledger").with_kwargs(
        labels={LABEL_RUN: run, LABEL_ROLE: "ledger"},
        user="1000:1000",
        network_mode="none",
        pid_mode=f"container:{agent.ident}",  # the kernel ends it with the agent, which ends with the lab
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        mem_limit="512m",
        stdin_open=True,
        log_config=LogConfig(type="none"),
        auto_remove=True,
    )
    ledger.with_volume_mapping(sockets, SOCKETS, "rw").with_volume_mapping(store, STORE, "rw")
    with ExitStack() as stack:
        _make_volume(stack, client, sockets, labels)
        _make_volume(stack, client, store, labels)
        ledger.start()
        ident = str(ledger.get_wrapped_container().id)
        parser = LineParser()
        stream = Stream(client.api.attach_socket(ident, params=ATTACHED), parser)
        stack.callback(_let_go, client, ident, stream)
        yield Ledger(ident, stream, parser, client.volumes.get(sockets).attrs["Mountpoint"])


@contextmanager
def namespace_holder(client: docker.DockerClient, run: str, image: str, worker: int) -> Iterator[str]:
    """A container that owns an empty network namespace, for the containers of one worker's trials: its id.

    Making a namespace costs 80–100 ms a start; sharing one that is there costs nothing.
    """
    spec = Spec(
        image=image,
        command=["cat"],  # ends when its standard input closes
        name=f"lab-{run}-holder-{worker}",
        labels={LABEL_RUN: run, LABEL_ROLE: "holder"},
        user="1000:1000",
        network="none",
        extra_host_config={"auto_remove": True, **SERVICE_CPU},
    )
    with _running(client, "namespace holder", spec) as holder:
        yield holder.ident


@contextmanager
def _running(client: docker.DockerClient, name: str, spec: Spec) -> Iterator[Service]:
    """A service in a container of its own, which is gone on the way out."""
    parser = LineParser()
    container = Container(client, spec, parser)
    try:
        container.start()
        yield Service(name, container.ident, container.stream, parser)
    finally:
        _let_go(client, container.ident, container.stream)


def _let_go(client: docker.DockerClient, ident: str, stream: Stream) -> None:
    """Close a service's input, give it a moment to end by itself, and make sure that it is gone."""
    stream.close_input()
    with contextlib.suppress(LabError):
        stream.wait_ended(5, "a service to end")
    stream.close()
    with contextlib.suppress(docker.errors.APIError):  # the engine removes it by itself: 404 and 409 are as good
        client.api.remove_container(ident, force=True, v=True)


def _make_volume(
    stack: ExitStack, client: docker.DockerClient, name: str, labels: Mapping[str, str], **how: Any
) -> None:
    """Make a volume that goes when the stack is left, unless a person asked to keep it."""
    client.volumes.create(name, labels=dict(labels), **how)
    if LABEL_KEPT not in labels:
        stack.callback(discard_volume, client, name)
