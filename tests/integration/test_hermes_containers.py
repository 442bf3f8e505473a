"""Two gateways of hermes-agent 0.19.0 in two containers on one volume, where each of them is process 1.

Controls: by the package's own calls, in our image but without our driver. Its guards tell processes apart by number and
start time, and neither means anything in another container.
"""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import docker
import docker.errors
import pytest
from docker.models.containers import Container

from lab.engine import images
from lab.engine.client import connect
from lab.subject.load import SUBJECTS

pytestmark = pytest.mark.docker

DEADLINE_S = 60.0
PREAMBLE = """
import sys, types
sys.path.insert(0, "/opt/hermes/site")
sys.modules["gateway"] = types.ModuleType("gateway")
sys.modules["gateway"].__path__ = ["/opt/hermes/site/gateway"]
from gateway import delivery_ledger as ledger, status
def boot(): return status.get_running_pid() is None and status.acquire_gateway_runtime_lock()
def owe(): ledger.record_obligation(obligation_id="d", session_key="s", platform="telegram", chat_id="1",
                                    thread_id=None, content="hello")
def sweep(): return [row["obligation_id"] for row in ledger.sweep_recoverable()]
def say(what): print(what, flush=True)
"""

Start = Callable[[str], Container]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a container of these calls as its process 1, on the one volume of the test."""
    client = connect()
    image = images.ensure_folders(client, {"hermes": SUBJECTS / "hermes"}, print)["hermes"]
    volume = client.volumes.create(
        f"test-hermes-{uuid.uuid4().hex[:8]}",
        driver_opts={"type": "tmpfs", "device": "tmpfs", "o": "uid=1000,size=32m"},
    )
    containers: list[Container] = []

    def start(code: str) -> Container:
        containers.append(
            client.containers.run(
                image, ["python3", "-IS", "-c", PREAMBLE + code], detach=True, stdin_open=True, network_mode="none",
                environment={"HERMES_HOME": "/data"}, volumes={volume.name: {"bind": "/data"}},
            )
        )  # fmt: skip
        return containers[-1]

    # A tmpfs is gone with its last container: this one holds it.
    keeper = start("sys.stdin.read()")
    assert keeper
    yield start
    for container in containers:
        with suppress(docker.errors.NotFound):
            container.remove(force=True)
    volume.remove()
    client.close()


def says(container: Container) -> str:
    """The first line that a container prints; it may live on."""
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(_first_line(container)), daemon=True)
    reader.start()
    reader.join(DEADLINE_S)
    assert found, "it said nothing in time"
    return found[0]


def _first_line(container: Container) -> str:
    text = b""
    with suppress(socket.error):
        for chunk in container.logs(stream=True, follow=True):
            text += chunk
            if b"\n" in text:
                break
    return text.decode().strip()


def test_a_new_process_1_takes_the_dead_one_for_dead(start: Start) -> None:
    """Planted: an image without PyYAML; rows carry no start time, and a restarted container redelivers nothing."""
    first = start("owe(); say('owed'); sys.stdin.read()")
    assert says(first) == "owed"
    first.kill()
    assert says(start("say(sweep())")) == "['d']"


def test_a_gateway_in_another_container_starts_while_the_first_one_runs(start: Start) -> None:
    """Its look at a held lock, whose owner it cannot see, removes the lock's file: the next lock is another one."""
    assert says(start("say(boot()); sys.stdin.read()")) == "True"
    assert says(start("say(boot()); sys.stdin.read()")) == "True"


def test_a_sweep_in_another_container_takes_what_a_living_gateway_has_claimed(start: Start) -> None:
    """Both would send it, unmarked: to each of them the other's process 1 is its own number with a wrong start time."""
    assert says(start("owe(); say('owed')")) == "owed"
    assert says(start("say(sweep()); sys.stdin.read()")) == "['d']"
    assert says(start("say(sweep()); sys.stdin.read()")) == "['d']"


def test_the_image_keeps_the_licence_of_what_it_holds(start: Start) -> None:
    """Planted: a package copied module by module, without the text that allows it."""
    read = "next(Path('/opt/hermes/site').glob('hermes_agent-*.dist-info/licenses/LICENSE')).read_text().split()[:2]"
    assert says(start(f"from pathlib import Path; say({read})")) == "['MIT', 'License']"
