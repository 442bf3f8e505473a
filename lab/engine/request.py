"""A request that the engine answers piece by piece while it works: a build, a pull. Ended at once if the user wants it.

The engine ends the work of a caller that has gone, so hanging up is all that is needed to stop it.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import docker
import requests

from lab.engine.errors import DeadlinePassed, Interrupted

TICK_S = 0.1  # how often a wait looks whether the user wants to stop
HANG_UP_S = 5.0  # until the thread that reads has seen that its connection is shut


@dataclass(frozen=True)
class Post:
    """A POST to the engine's API: `path` begins behind its version."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    what: str  # is being done, for a person
    silence_s: float  # the longest time without a piece
    timeout_s: float  # until its end


@dataclass
class _Call:
    """What the thread that reads shares with the one that waits."""

    pieces: queue.SimpleQueue[dict[str, Any] | Exception | None] = field(default_factory=queue.SimpleQueue)
    answer: requests.Response | None = None
    over: bool = False


def pieces(
    client: docker.DockerClient, post: Post, stop: threading.Event | None
) -> Generator[dict[str, Any], None, None]:
    """Each JSON object of the answer. An error is one of them, with the key `error`, or `message` if it is refused.

    Raises Interrupted once `stop` is set, DeadlinePassed after `timeout_s`, RequestException if the engine is gone or
    silent. Close it if it is left before its end.
    """
    if stop is not None and stop.is_set():
        raise Interrupted(f"before {post.what}")
    call, until = _Call(), time.monotonic() + post.timeout_s
    # Reading in the waiting thread would not do: a socket that has timed out once cannot be read from again.
    reader = threading.Thread(target=_read, args=(client, post, call), name="request", daemon=True)
    reader.start()
    try:
        while True:
            piece: dict[str, Any] | Exception | None = None
            with contextlib.suppress(queue.Empty):
                piece = call.pieces.get(timeout=TICK_S)
                if piece is None:
                    return
            if stop is not None and stop.is_set():
                raise Interrupted(f"while {post.what}")
            if time.monotonic() > until:
                raise DeadlinePassed(f"not done after {post.timeout_s:.0f} s")
            if isinstance(piece, Exception):
                raise piece
            if piece is not None:
                yield piece
    finally:
        _hang_up(call, reader)


def _read(client: docker.DockerClient, post: Post, call: _Call) -> None:
    url = f"{client.api.base_url}/v{client.api.api_version}{post.path}"
    try:
        with client.api.post(
            url, params=post.query, data=post.body, headers=post.headers, stream=True, timeout=post.silence_s
        ) as call.answer:
            for line in call.answer.iter_lines():
                if call.over:
                    return
                if line:
                    call.pieces.put(json.loads(line))
        call.pieces.put(None)
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        call.pieces.put(error)


def _hang_up(call: _Call, reader: threading.Thread) -> None:
    """Shut the connection under the reader, who then closes it. One that has no answer yet does so when it has."""
    call.over = True
    if call.answer is not None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it is at its end, or cannot be shut from here
            call.answer.raw.shutdown()
        reader.join(HANG_UP_S)
