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
from contextlib import contextmanager

import docker
import docker.errors
from docker.types import LogConfig
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from lab.engine.container import Container, Mount, Spec
from lab.engine.errors import DeadlinePassed, ImageMissing, LabError, ServiceFailed
from lab.engine.stream import LineParser, Stream
from lab.model import Json

# Testcontainers' reaper would take the ledger away after a `kill -9` of the lab, before `lab resume` could say what
# was there, and its image cannot be had everywhere. Our own labels and `lab gc` do that work.
testcontainers_config.ryuk_disabled = True

LABEL_RUN = "crashlab.run"
LABEL_ROLE = "crashlab.role"
LABEL_KEPT = "crashlab.kept"  # on what a person asked to keep: only `lab gc` takes it
SOCKETS = "/ledger"  # where the ledger's sockets lie, in its own container and in every subject's

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
def storage_agent(client: docker.DockerClient, run: str, image: str, pool: str) -> Iterator[Service]:
    """The storage agent of a run. `pool` is a Docker volume on the engine's disk, for overlay's directories."""
    spec = Spec(
        image=image,
        command=["storage-agent"],
        name=f"lab-{run}-agent",
        labels={LABEL_RUN: run, LABEL_ROLE: "agent"},
        user="0:0",
        network="none",
        mounts=[Mount(pool, "/pool")],
        extra_host_config=AGENT_HOST_CONFIG,
    )
    parser = LineParser()
    container = Container(client, spec, parser)
    try:
        container.start()
        yield Service("storage agent", container.ident, container.stream, parser)
    finally:
        _let_go(client, container.ident, container.stream)


@contextmanager
def effect_ledger(
    client: docker.DockerClient, run: str, image: str, volumes: Mapping[str, str], agent: Service
) -> Iterator[Service]:
    """The effect ledger of a run. `volumes` maps Docker volumes to paths: its sockets and its store."""
    try:
        client.images.get(image)  # testcontainers would pull a stranger's image of that name
    except docker.errors.ImageNotFound as error:
        raise ImageMissing(f"image {image} is not there", "`lab setup` builds the lab's own.") from error
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
    for volume, path in volumes.items():
        ledger.with_volume_mapping(volume, path, "rw")
    ledger.start()
    ident = str(ledger.get_wrapped_container().id)
    parser = LineParser()
    attached = client.api.attach_socket(ident, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    stream = Stream(attached, parser)
    try:
        yield Service("ledger", ident, stream, parser)
    finally:
        _let_go(client, ident, stream)


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
        extra_host_config={"auto_remove": True},
    )
    container = Container(client, spec, LineParser())
    try:
        container.start()
        yield container.ident
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
