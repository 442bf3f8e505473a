"""The clients' container, as a trial uses it: told what to do by JSON lines, and its history kept (docs/fuzz.md).

It judges nothing. What it counts is what a kill waits for: requests sent and answers come, in the life that runs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import docker
from pydantic import BaseModel, create_model

from lab.codec import from_json, parse, to_json
from lab.engine.container import Container, Spec
from lab.engine.stream import BoundedLog
from lab.model import Json, Scenario

MAX_LINES = 50_000  # of one trial: a long one has some thousands
MAX_LINE_BYTES = 1 << 20  # one check of all chats
ANSWERS = ("ok", "fail")
COMPLETIONS = (*ANSWERS, "info")
EVENT = b'"event":'  # in each line of theirs; any other is a library's own words

# What each line of a history must carry, live or stored (docs/fuzz.md says what it means). An event that has no entry
# is none that anything reads, and may carry what it likes.
_FIELDS: dict[str, dict[str, Any]] = {
    "invoke": {"id": int, "step": int, "client": int, "op": str, "args": dict[str, Any], "at_ms": float},
    "ok": {"id": int, "result": Any, "at_ms": float},
    "fail": {"id": int, "error": dict[str, Any], "at_ms": float},
    "info": {"id": int, "why": str, "at_ms": float},
    "check": {"life": int, "final": bool, "observed": Any},
    "check-failed": {"life": int, "why": str},
    "still": {"ms": float, "at_ms": float},
    "settled": {"idle": bool},
    "error": {"what": str},
    "killed": {"life": int, "at": str},
    "ledger": {"ledger": dict[str, Any]},
}
_SHAPES: dict[str, type[BaseModel]] = {
    event: create_model(event, **cast(Any, {name: (kind, ...) for name, kind in fields.items()}))
    for event, fields in _FIELDS.items()
}


class LineCheck:
    """Line after line of one history: each has its shape, and what is completed has been invoked and is not yet."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def check(self, line: Json) -> None:
        """Raises ValueError, one line that says what is wrong."""
        event = line.get("event")
        if not isinstance(event, str):
            raise ValueError("it names no event")
        if (shape := _SHAPES.get(event)) is not None:
            from_json(shape, line)
        if event == "invoke":
            self._open.add(line["id"])
        elif event in COMPLETIONS:
            if line["id"] not in self._open:
                raise ValueError(f"`{event}` of request {line['id']}, which is not open")
            self._open.remove(line["id"])


class History:
    """The clients' lines in the order in which they came, with the controller's own among them.

    Called under the lock of the streams: from the reader thread, and from the trial through `Clients`.
    """

    def __init__(self) -> None:
        self.lines: list[Json] = []
        self.log = BoundedLog()
        self.flooded = False
        self.error = ""
        self.life = 0
        self.invoked = 0  # operations of this life
        self.answered = 0
        self.seen: set[str] = set()  # events of this life: up, done, gone, settled, check
        self.up_s: float | None = None  # monotonic: when this life's first answer came
        self._ours: set[int] = set()  # ids of this life's operations; a check's own requests are not among them
        self._rest = b""
        self._line_check = LineCheck()

    def begin(self, life: int) -> None:
        self.life, self.invoked, self.answered, self.up_s = life, 0, 0, None
        self.seen, self._ours = set(), set()

    def stderr(self, data: bytes) -> None:
        self.log.add(data)

    def stdout(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES or len(self.lines) + len(lines) > MAX_LINES:
            self.flooded = True
            self._rest = b""
            return
        for line in lines:
            self._take(line)

    def ended(self) -> None:
        self.log.add(self._rest)
        self._rest = b""

    def _take(self, line: bytes) -> None:
        if EVENT not in line:
            self.log.add(line + b"\n")
            return
        try:
            event = parse(line, Json)
            self._line_check.check(event)
        except ValueError as error:
            self.error = self.error or f"their line {len(self.lines) + 1} is none of a history: {error}"
            return
        self.lines.append(event)
        kind = event["event"]
        if kind == "error":
            self.error = event["what"]
        elif kind == "invoke" and event["step"]:
            self.invoked += 1
            self._ours.add(event["id"])
        elif kind in ANSWERS:
            self.answered += event["id"] in self._ours
        elif (
            kind in ("up", "done", "gone", "settled", "check", "check-failed")
            and event.get("life", self.life) == self.life
        ):
            self.seen.add(kind)
            if kind == "up":
                self.up_s = time.monotonic()


class Clients:
    """A clients' container. `changed` is the condition that it shares with the daemon's stream."""

    def __init__(
        self,
        client: docker.DockerClient,
        spec: Spec,
        stop: threading.Event,
        changed: threading.Condition,
        history: History,
    ) -> None:
        self.history = history
        self._changed = changed
        self._container = Container(client, spec, self.history, stop, changed)

    def start(self, scenario: Scenario) -> None:
        self._container.start()
        self._say({"do": "script", "scenario": to_json(scenario)})

    def begin(self, life: int) -> None:
        """Connect, read everything back if it is not the first life, and send this life's operations."""
        with self._changed:
            self.history.begin(life)
        self._say({"do": "life", "life": life})

    def killed(self, life: int, at: str, timeout_s: float) -> bool:
        """Tell them that the daemon is gone; True when nothing waits any more."""
        self.note({"event": "killed", "life": life, "at": at})
        self._say({"do": "killed", "life": life})
        return self.wait(lambda: "gone" in self.history.seen, timeout_s, "the clients to give up what they waited for")

    def settle(self) -> None:
        self._say({"do": "settle"})

    def note(self, line: Json) -> None:
        """A line of the controller's own."""
        with self._changed:
            self.history.lines.append(line)

    def wait(self, done: Callable[[], bool], timeout_s: float, what: str) -> bool:
        """Until `done()`, under the lock of all streams: False if the clients have ended or failed before.

        Raises DeadlinePassed, and Interrupted if the user wants to stop now.
        """
        history = self.history
        self._container.stream.wait(lambda: done() or bool(history.error) or history.flooded, timeout_s, what)
        with self._changed:
            return done()

    def trouble(self) -> str:
        """Why they cannot go on, for a person; empty if they can."""
        history = self.history
        if history.error:
            return f"the clients: {history.error}"
        if history.flooded:
            return f"the clients wrote more than {MAX_LINES:,} lines, or one longer than {MAX_LINE_BYTES >> 20} MiB"
        if self._container.stream.ended:
            return f"the clients ended: {history.log.text().strip()[-600:] or 'they printed nothing'}"
        return ""

    def remove(self) -> None:
        self._container.remove()

    def _say(self, line: Json) -> None:
        self._container.stream.send_line(json.dumps(line, separators=(",", ":")).encode())
