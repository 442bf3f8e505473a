"""The clients and Redis in containers of their own, hardened as in a trial: the adapter against the real daemon.

The lab's own trial has its tests elsewhere; here the test is the controller.
"""

from __future__ import annotations

import itertools
import json
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import docker
import pytest

from lab.engine import images
from lab.engine.container import Container, Mount, Spec
from lab.engine.stream import LineParser
from lab.subject.load import SUBJECTS

pytestmark = pytest.mark.docker

DEADLINE_S = 60.0
SUBJECT = tomllib.loads((SUBJECTS / "redis" / "subject.toml").read_text())["subject"]
LIMITS = {"answer_ms": 2000, "timeout_ms": 3000, "up_s": 15, "settle_s": 5}
Line = dict[str, Any]


class Stage:
    """One home, one front, one container of clients; `daemon` begins a life of Redis, `kill` ends it."""

    def __init__(self, engine: docker.DockerClient, stack: ExitStack) -> None:
        self._engine = engine
        self._stack = stack
        self._tags = images.ensure_folders(
            engine, {name: SUBJECTS / name for name in ("redis-clients", "redis")}, print
        )
        self._name = f"test-fuzz-clients-{uuid.uuid4().hex[:8]}"
        self._volumes = [self._volume(what) for what in ("data", "front")]
        self._parser = LineParser()
        self._daemon: Container | None = None
        # They have the home as well: a tmpfs that no container holds is gone between two lives.
        self._clients = self._container("redis-clients", ["clients"], self._parser)
        self._clients.start()

    def script(self, *lives: list[tuple[int, str, Line]]) -> None:
        """Each life a list of (client, operation, arguments); steps count up."""
        steps = itertools.count(1)
        ops = [[{"step": next(steps), "client": c, "op": op, "args": args} for c, op, args in life] for life in lives]
        self.say(do="script", scenario={
            "format": 2, "seed": 1, "number": 1, "adapter": "redis", "clients": 3, "limits": LIMITS,
            "lives": [{"ops": life, "kill": None} for life in ops],
        })  # fmt: skip

    def say(self, **command: Any) -> None:
        self._clients.stream.send_line(json.dumps(command).encode())

    def live(self, life: int, *prefix: str) -> None:
        """Begin a life and see its operations done."""
        self.begin(life, *prefix)
        self.wait_for("done", life=life)

    def begin(self, life: int, *prefix: str) -> None:
        self._daemon = self._container("redis", [*prefix, *SUBJECT["run"]], LineParser())
        self.say(do="life", life=life)
        self._daemon.start()

    def kill(self, life: int) -> None:
        assert self._daemon is not None
        assert self._daemon.kill()
        self._daemon.wait(DEADLINE_S)
        self.say(do="killed", life=life)
        self.wait_for("gone", life=life)

    def wait_for(self, event: str, **fields: Any) -> Line:
        """The first line of the history, old or new, that says so."""

        found: list[Line] = []

        def seen() -> bool:
            told = (line for line in self._parser.answers if line["event"] == event)
            found.extend(line for line in told if all(line.get(name) == value for name, value in fields.items()))
            return bool(found)

        assert self._clients.stream.wait(seen, DEADLINE_S, f"{event} {fields}"), self._parser.log.text()
        return found[0]

    def ending(self, event: str, step: int) -> Line:
        """The line that says how an operation ended."""
        return self.wait_for(event, id=self.wait_for("invoke", step=step)["id"])

    def observed(self, life: int, *, final: bool = False) -> Line:
        read: Line = self.wait_for("check", life=life, final=final)["observed"]
        return read

    def _volume(self, what: str) -> str:
        name = f"{self._name}-{what}"
        options = {"type": "tmpfs", "device": "tmpfs", "o": "uid=1000,gid=1000,size=32m"}
        self._stack.callback(self._engine.volumes.create(name, driver_opts=options).remove)
        return name

    def _container(self, image: str, command: list[str], parser: LineParser) -> Container:
        mounts = [Mount(name, "/front" if name.endswith("front") else "/data") for name in self._volumes]
        spec = Spec(
            image=self._tags[image], command=command, name=f"{self._name}-{uuid.uuid4().hex[:4]}", labels={},
            user="1000:1000", network="none", mounts=mounts, memory_mb=SUBJECT["memory_mb"],
        )  # fmt: skip
        container = Container(self._engine, spec, parser)
        self._stack.callback(container.remove)
        return container


@pytest.fixture
def stage(engine: docker.DockerClient) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(engine, stack)


EMPTY = {"draft": None, "queue": [], "running": None, "log": [], "watches": [], "title": None, "mode": None,
         "unread": False, "decisions": {}}  # fmt: skip
WORK: list[tuple[int, str, Line]] = [
    (1, "chat/new", {"chat": "c1"}),
    (1, "chat/new", {"chat": "c2"}),
    (1, "chat/new", {"chat": "c1"}),  # again: once in the list all the same
    (1, "draft/set", {"chat": "c1", "text": "d4"}),
    (1, "watch/add", {"chat": "c1", "path": "/w/5"}),
    (1, "watch/add", {"chat": "c1", "path": "/w/6"}),
    (1, "watch/rm", {"chat": "c1", "path": "/w/5"}),
    (1, "prompt/send", {"chat": "c1", "prompt": "p8", "text": ""}),
    (1, "prompt/send", {"chat": "c1", "prompt": "p9", "text": ""}),
    (1, "queue/remove", {"chat": "c1", "prompt": "p8"}),
    (1, "queue/remove", {"chat": "c1", "prompt": "p8"}),
    (1, "queue/list", {"chat": "c1"}),
    (1, "draft/set", {"chat": "c9", "text": "d13"}),
    (1, "draft/set", {"chat": "c1", "text": 'd14 \u00e9\r\n"{}'}),
    (1, "status", {}),
]
LEFT = {**EMPTY, "draft": 'd14 \u00e9\r\n"{}', "queue": ["p9"], "watches": ["/w/6"]}


def test_redis_keeps_what_it_answered_through_a_kill(stage: Stage) -> None:
    """Each operation that the adapter maps, answered as the contract says, and read back from the next life's files."""
    stage.script(WORK, [(2, "queue/remove", {"chat": "c1", "prompt": "p9"})])
    stage.live(1)
    stage.kill(1)
    stage.live(2)
    stage.say(do="settle")

    assert [stage.ending("ok", step)["result"] for step in (10, 11)] == [{"removed": True}, {"removed": False}]
    assert stage.ending("ok", 12)["result"] == {"queue": ["p9"]}
    assert stage.ending("fail", 13)["error"] == {"code": -32001, "message": "NOCHAT c9"}
    assert stage.ending("ok", 15)["result"]["idle"] is True
    assert sorted(stage.observed(2)["chats"]) == ["c1", "c2"]
    assert stage.observed(2)["read"] == {"c1": LEFT, "c2": EMPTY}
    assert stage.observed(2, final=True)["read"]["c1"] == {**LEFT, "queue": []}
    assert stage.wait_for("settled")["idle"] is True


@pytest.mark.parametrize(
    ("bug", "left"),
    [
        ("appendonly-off", {"c1": None, "c2": None}),
        ("lost-tail", {"c1": {**LEFT, "draft": "d4"}, "c2": EMPTY}),
        ("removals-forgotten", {"c1": {**LEFT, "queue": ["p8", "p9"]}, "c2": EMPTY}),
    ],
)
def test_each_planted_bug_of_redis_leaves_what_it_says(stage: Stage, bug: str, left: Line) -> None:
    """A planted bug that changed nothing would never be caught, and one that changed more would prove less."""
    stage.script(WORK, [])
    stage.live(1, "with-bug", bug)
    stage.kill(1)
    stage.live(2, "with-bug", bug)

    assert stage.observed(2)["read"] == left


def test_a_kill_inside_a_request_is_cut_and_the_next_life_goes_on(stage: Stage) -> None:
    """The clients' whole course with a daemon that is not ours: what was sent when it died may be there, or not."""
    writes = [(client, "draft/set", {"chat": "c1", "text": f"d{n}"}) for n in range(2000) for client in (1, 2, 3)]
    stage.script([WORK[0], *((client, "pause", {"ms": 100}) for client in (2, 3)), *writes], [])
    stage.begin(1)
    stage.ending("ok", 30)
    stage.kill(1)
    stage.live(2)

    assert stage.wait_for("info")["why"] == "cut"
    assert stage.observed(2)["read"]["c1"]["draft"].startswith("d")
