"""The session store in containers of its own on one volume: there, every process is number 1.

What a lock must do that a process id cannot: tell a dead owner from a living one across containers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import docker
import pytest

from lab.engine import images
from lab.engine.container import Container, Mount, Spec
from lab.engine.stream import RecordParser
from lab.subject.load import SUBJECTS

pytestmark = pytest.mark.docker

DEADLINE_S = 60.0
NONCE = "n0nce"
CREATE = {"op": "create", "session": "s1"}
PARK = {"op": "park", "session": "s1", "item": "i1"}


def claim(by: str) -> dict[str, Any]:
    return {"op": "claim", "item": "i1", "by": by}


class Process:
    """A container of the store."""

    def __init__(self, container: Container, records: RecordParser) -> None:
        self._container = container
        self._records = records

    def await_hit(self) -> None:
        assert self._container.stream.wait(lambda: bool(self._records.hits), DEADLINE_S, "its hook"), self.log

    def release(self) -> None:
        self._container.stream.send_line(b"go")

    def kill(self) -> None:
        assert self._container.kill()
        assert self.wait() == 137

    def wait(self) -> int:
        self._container.stream.wait_ended(DEADLINE_S, "its end")
        self._container.wait(DEADLINE_S)
        return self._container.state().exit_code

    @property
    def log(self) -> str:
        return self._records.log.text()

    @property
    def won(self) -> list[bool]:
        """What its claims were answered."""
        return [event["won"] for event in self._records.history if "won" in event]


Start = Callable[..., Process]


@pytest.fixture
def start(engine: docker.DockerClient) -> Iterator[Start]:
    """Starts a container of the store on the one volume of the test."""
    image = images.ensure_folders(engine, {"sessions": SUBJECTS / "sessions"}, print)["sessions"]
    name = f"test-sessions-{uuid.uuid4().hex[:8]}"
    volume = engine.volumes.create(
        name, driver_opts={"type": "tmpfs", "device": "tmpfs", "o": "uid=1000,gid=1000,size=32m"}
    )
    with ExitStack() as stack:
        stack.callback(volume.remove)

        def start(*command: str, work: Any = (), resume: Any = (), race: Any = None, **lab: str) -> Process:
            script = {"kind": "session-cells", "version": 1, "seed": 1, "cell": "consume-once",
                      "journal_mode": "default", "work": work, "race": race, "racers": 0, "resume": resume}  # fmt: skip
            environment = {"LAB_NONCE": NONCE, "LAB_WORKLOAD": json.dumps(script), "LAB_LEDGER": "/none"}
            environment |= {f"LAB_{key.upper()}": value for key, value in lab.items()}
            spec = Spec(
                image=image, command=command, name=f"{name}-{uuid.uuid4().hex[:8]}", labels={}, user="1000:1000",
                network="none", environment=environment, mounts=[Mount(name, "/data")], memory_mb=64,
            )  # fmt: skip
            records = RecordParser(NONCE)
            container = Container(engine, spec, records)
            stack.callback(container.remove)
            container.start()
            return Process(container, records)

        # A tmpfs is gone with its last container: this one holds it.
        start("sh", "-c", "read line")
        yield start


def test_one_of_eight_containers_at_the_barrier_wins(start: Start) -> None:
    """Cell consume-once, as the campaign runs it: exit codes are disjoint, and seven crashes are not seven losers."""
    assert start("sessions", "run", work=[CREATE, PARK]).wait() == 0
    racers = [
        start("sessions", "race", race=claim("racer"), barrier="race.ready", racer=str(n)) for n in range(1, 9)
    ]  # fmt: skip
    for racer in racers:
        racer.await_hit()
    for racer in racers:
        racer.release()
    assert sorted(racer.wait() for racer in racers) == [0, *[10] * 7], [racer.log for racer in racers]
    assert sorted(won for racer in racers for won in racer.won) == [*[False] * 7, True]


@pytest.mark.parametrize(("prefix", "free_again"), [((), True), (("with-bug", "claim-owner-is-pid"), False)])
def test_a_claim_dies_with_its_container_and_not_before(
    start: Start, prefix: tuple[str, ...], free_again: bool
) -> None:
    """Planted: an owner that is a process id. The next container has the same, and takes the dead owner for alive."""
    work = [CREATE, PARK, claim("ann"), {"op": "append", "session": "s1", "role": "user", "content": "x"}]
    owner = start(*prefix, "sessions", "run", work=work, hook="append.before#1")
    owner.await_hit()
    meanwhile = start(*prefix, "sessions", "recover", resume=[claim("bob")])
    assert (meanwhile.wait(), meanwhile.won) == (0, [False]), meanwhile.log
    owner.kill()
    afterwards = start(*prefix, "sessions", "recover", resume=[claim("bob")])
    assert (afterwards.wait(), afterwards.won) == (0, [free_again]), afterwards.log
