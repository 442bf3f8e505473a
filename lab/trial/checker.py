"""The checker: a subject's verifier in its container, asked by JSON lines. Started first, it keeps a tmpfs alive.

If it dies, says nothing in time or answers nonsense, that is the lab's error, never a pass.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping

import docker

from lab.codec import from_json
from lab.engine.container import Container, Spec
from lab.engine.errors import DeadlinePassed, ServiceFailed
from lab.engine.stream import LineParser
from lab.model import Finding, Json, Look

LAST_WORDS = 600  # characters: the end of a traceback


class CheckerRaised(ServiceFailed):
    """The checker lives and answered with an error of its own: what it saw is kept, and can be judged again."""


class Checker:
    """A verifier container. `hello` waits for its first line; then `look` as often as there is something to look at."""

    def __init__(self, client: docker.DockerClient, spec: Spec, stop: threading.Event) -> None:
        self._parser = LineParser()
        self._container = Container(client, spec, self._parser, stop)
        self.version = ""

    def start(self) -> None:
        self._container.start()

    def hello(self, timeout_s: float) -> None:
        """Wait for its hello, which sets `version` to its name and version."""
        answer = self._answer(timeout_s, "the verifier's hello")
        try:
            self.version = f"{answer['verifier']} {answer['version']}"
        except KeyError as error:
            raise ServiceFailed(f"the verifier's hello lacks {error}") from error

    def look(self, name: str, process: int, request: Mapping[str, object], timeout_s: float) -> Look:
        """One look at the volume as it is now (or at `request["volume"]`, a stored one)."""
        answer = self._ask({"ask": "look", "look": name, **request}, timeout_s, f"the verifier's look at `{name}`")
        if answer.get("look") != name:  # one answer out of step, and each look is judged by another's
            raise ServiceFailed(f"the verifier was asked about `{name}`, and answered {str(answer)[:300]}")
        try:
            found = {str(k): from_json(Finding, v) for k, v in answer["properties"].items()}
            return Look(name, process, found, str(answer.get("mount", "")))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ServiceFailed(f"the verifier's answer to `{name}` is not one: {str(answer)[:300]}") from error

    def copy(self, number: int, timeout_s: float) -> bytes | None:
        """What its `number`-th look (from 1) saw, as a gzipped tar; None if it cannot say."""
        volume = self._ask({"ask": "copy", "n": number}, timeout_s, "the verifier's copy").get("volume")
        return base64.b64decode(volume) if volume else None

    def finish(self) -> None:
        """Let it end by itself; a kill would cost the engine another process."""
        self._container.stream.close_input()

    def remove(self) -> None:
        self._container.remove()

    def _ask(self, request: Json, timeout_s: float, what: str) -> Json:
        self._container.stream.send_line(json.dumps(request, separators=(",", ":")).encode())
        answer = self._answer(timeout_s, what)
        if "error" in answer:
            raise CheckerRaised(f"{what}: it answered {answer['error']}")
        return answer

    def _answer(self, timeout_s: float, what: str) -> Json:
        try:
            there = self._container.stream.wait(lambda: bool(self._parser.answers), timeout_s, what)
        except DeadlinePassed as error:
            raise ServiceFailed(f"{error}; {self._last_words()}") from error
        if not there:
            raise ServiceFailed(f"the verifier ended before {what}; {self._last_words()}")
        return self._parser.answers.popleft()

    def _last_words(self) -> str:
        """The end of what it printed that is no answer, for a person."""
        said = self._parser.log.text().strip()[-LAST_WORDS:]
        return f"last words: {said}" if said else "it printed nothing"
