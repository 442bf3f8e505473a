"""A refused start diagnosed on a real engine: real locks of real containers on real volumes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import docker
import docker.errors
import pytest
from docker.models.containers import Container
from docker.models.volumes import Volume

from lab.engine import images
from lab.trial import diagnosis
from lab.trial.diagnosis import diagnose

pytestmark = pytest.mark.docker

DEADLINE_S = 20.0
KEEPER = "import sys; sys.stdin.read()"
HOLDER = """
import fcntl, os, sys
file = open("/data/lock", "w"); os.chmod("/data/lock", 0o600)
fcntl.flock(file, fcntl.LOCK_EX); print("held", flush=True)
sys.stdin.read()
"""
HEIR = """
import fcntl, os, sys, time
file = open("/data/lock", "w"); r, w = os.pipe()
if os.fork() == 0:
    fcntl.flock(file, fcntl.LOCK_EX); os.set_inheritable(file.fileno(), True)
    if os.fork() == 0:
        os.read(r, 1); print("held", flush=True); time.sleep(60)
    os._exit(0)
os.wait(); file.close(); os.write(w, b"x"); time.sleep(60)
"""
LABELS = {"crashlab.test": "diagnosis"}

Start = Callable[[str], Container]


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient) -> str:
    return images.ensure_folders(engine, {"base": images.BASE}, print)["base"]


@pytest.fixture(params=["tmpfs", "disk"])
def volume(engine: docker.DockerClient, request: pytest.FixtureRequest) -> Iterator[Volume]:
    options = {"type": "tmpfs", "device": "tmpfs", "o": "uid=1000,size=8m"} if request.param == "tmpfs" else {}
    made = engine.volumes.create(f"test-diagnosis-{uuid.uuid4().hex[:8]}", driver_opts=options, labels=LABELS)
    yield made
    made.remove()


@pytest.fixture
def start(engine: docker.DockerClient, image: str, volume: Volume) -> Iterator[Start]:
    """Starts a container of this program on the volume; the first one keeps a tmpfs alive and opens a disk to all."""
    containers: list[Container] = []

    def start(program: str, user: str = "1000:1000") -> Container:
        containers.append(
            engine.containers.run(
                image, ["python3", "-ISc", program], detach=True, stdin_open=True, network_mode="none", user=user,
                labels=LABELS, volumes={volume.name: {"bind": "/data"}},
            )
        )  # fmt: skip
        return containers[-1]

    start("import os; os.chmod('/data', 0o777)\n" + KEEPER, user="0:0")
    yield start
    for container in containers:
        with suppress(docker.errors.NotFound):
            container.remove(force=True)


def said_by(container: Container, word: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while word not in container.logs().decode():
        assert time.monotonic() < until, container.logs().decode()
        time.sleep(0.05)


def look(engine: docker.DockerClient, image: str, volume: Volume, killed: list[str]) -> str:
    name = f"test-diagnosis-{uuid.uuid4().hex[:8]}"
    said = diagnose(engine, image, volume.name, "/data", LABELS, name, killed, "home is\nin use")
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(name)
    assert said.endswith("Its last words: home is in use")
    assert len(said) < 2_000
    return said


def test_a_real_lock_is_told_with_its_holder_and_whose_it_is(
    engine: docker.DockerClient, image: str, volume: Volume, start: Start
) -> None:
    """Planted: a table read in a process namespace of its own, which shows nobody's lock."""
    holder = start(HOLDER)
    assert holder.id
    said_by(holder, "held")
    mine, others = look(engine, image, volume, [holder.id]), look(engine, image, volume, ["0" * 64])
    pid = engine.api.inspect_container(holder.id)["State"]["Pid"]
    assert mine.startswith(f"Process {pid} `python3 -ISc")
    assert "holds a lock (flock, write) on /data/lock" in mine
    assert f"killed daemon's container (life 1, {holder.id[:12]})" in mine
    assert "another container or to the machine" in others and holder.id in others


def test_a_lock_whose_taker_has_ended_is_told_with_who_has_inherited_it(
    engine: docker.DockerClient, image: str, volume: Volume, start: Start
) -> None:
    """A daemon's children that outlive it keep its flock: by the table the holder is a process that is not there."""
    holder = start(HEIR)
    assert holder.id
    said_by(holder, "held")
    said = look(engine, image, volume, [holder.id])
    assert "has ended. Process" in said
    assert "has the file open; it belongs to the killed daemon's container (life 1," in said


def test_a_file_with_a_number_in_it_is_no_lock(
    engine: docker.DockerClient, image: str, volume: Volume, start: Start
) -> None:
    """Planted: a process id in a file taken for a lock: in a new container it is the reader's own number."""
    writer = start("open('/data/lock', 'w').write('1\\n'); print('written', flush=True)")
    said_by(writer, "written")
    said = look(engine, image, volume, [])
    assert said.startswith("Nobody holds a lock on a file of the home, by the kernel's table.")
    assert "The home has a file `lock`, 2 bytes: `1`." in said


def test_an_engine_that_refuses_its_processes_is_said_and_fails_nothing(
    engine: docker.DockerClient, image: str, volume: Volume, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With user namespaces an engine gives nobody the host's: the trial's own verdict must not become an error."""
    assert start
    monkeypatch.setattr(diagnosis, "HOST", "container:nobody-of-this-name")
    assert look(engine, image, volume, []).startswith("The engine gives no look at its processes")
