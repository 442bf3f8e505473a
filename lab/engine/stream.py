"""What a container says and is told, over one attached connection that is always drained.

A reader thread per connection takes the engine's frames apart and hands standard output to a parser; so a subject can
never block on a full pipe because the controller was busy. What is kept is bounded: records by number, the log by its
head and tail.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from lab.codec import SAID_DEPTH, OutOfBounds, parse, size
from lab.engine.errors import DeadlinePassed, Interrupted, ServiceFailed
from lab.model import Hit, Json

PROTOCOL = 2  # what a subject is told as LAB_PROTOCOL; docs/upgrade.md says what has changed
RECORD_BYTES = 4096  # the protocol's bound on one record
LOG_HEAD_BYTES = 8 * 1024
LOG_TAIL_BYTES = 24 * 1024
RECORD_END = re.compile(rb"[\x1e\n]")
MAX_RECORDS = 200_000  # of one process: a census of an exhaustive workload has some thousands
MAX_RECORDS_BYTES = 64 * 1024 * 1024  # of one process, all together: as much as its volume holds
MAX_OCCURRENCE = 2**31
MAX_LINE_BYTES = 128 * 1024 * 1024  # one answer of a service: a verifier's copy of a volume is the largest
MAX_UNREAD_BYTES = 256 * 1024 * 1024  # answers of a service that nobody has taken yet
TICK_S = 0.25  # how often a wait looks whether the user wants to stop


class Parser(Protocol):
    """Takes standard output and error apart. Called from the reader thread, under the stream's lock; `ended` once."""

    def stdout(self, data: bytes) -> None: ...
    def stderr(self, data: bytes) -> None: ...
    def ended(self) -> None: ...


class BoundedLog:
    """The head and the tail of a text, with a remark where the middle was dropped."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = LOG_HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = max(0, len(self._tail) - LOG_TAIL_BYTES)
        del self._tail[:excess]
        self._dropped += excess

    def text(self) -> str:
        middle = f"\n… {self._dropped} bytes not kept …\n".encode() if self._dropped else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")


class RecordParser:
    """A subject's output: JSON text sequences (RFC 7464) with the trial's nonce; all else is its log."""

    def __init__(self, nonce: str) -> None:
        self.log = BoundedLog()
        self.hits: list[Hit] = []
        self.history: list[Json] = []
        self.answers = 0  # acknowledgements so far
        self.flooded = False
        self._nonce = nonce
        self._kept_bytes = 0
        self._open: bytearray | None = None  # a record that has begun

    def stderr(self, data: bytes) -> None:
        self.log.add(data)

    def stdout(self, data: bytes) -> None:
        while data:
            if self._open is None:
                plain, mark, data = data.partition(b"\x1e")
                self.log.add(plain)
                if mark:
                    self._open = bytearray()
                continue
            end = RECORD_END.search(data)
            stop = end.start() if end else len(data)
            self._open += data[:stop]
            if len(self._open) > RECORD_BYTES - 2:  # its mark and its LF count as well
                self._to_log(b"")
            elif end and end[0] == b"\n":
                self._close()
                stop += 1
            elif end:  # another begins: this one was cut off
                self._to_log(b"\n")
            data = data[stop:]

    def ended(self) -> None:
        self._to_log(b"")

    def _to_log(self, tail: bytes) -> None:
        """What has begun is no record after all."""
        self.log.add(bytes(self._open or b"") + tail)
        self._open = None

    def _close(self) -> None:
        text = bytes(self._open or b"")
        record = self._parse(text)
        if record is None:
            self._to_log(b"\n")
            return
        self._open = None
        self._kept_bytes += len(text)
        if len(self.hits) + len(self.history) >= MAX_RECORDS or self._kept_bytes > MAX_RECORDS_BYTES:
            self.flooded = True
        elif isinstance(record, Hit):
            self.hits.append(record)
        else:
            self.history.append(record)
            self.answers += record["type"] == "ok"

    def _parse(self, text: bytes) -> Hit | Json | None:
        """A record of this trial, or None. Lenient about nothing: an occurrence of 3.7 is not the third."""
        try:
            record = parse(text, depth=SAID_DEPTH)
        except ValueError:
            return None
        if not isinstance(record, dict) or record.pop("lab", None) != self._nonce:
            return None
        if "hit" not in record:
            return record if "op" in record and "type" in record else None
        hook, n, tags = record["hit"], record.get("n"), record.get("tags", {})
        if not isinstance(hook, str) or type(n) is not int or not isinstance(tags, dict):
            return None
        if not 0 < n <= MAX_OCCURRENCE:
            return None
        return Hit(hook, n, {key: str(value) for key, value in tags.items()}, record.get("barrier") is True)


class LineParser:
    """A service's output: one JSON object a line on standard output; standard error and all else is its log.

    An object that is larger or deeper than the lab reads is answered for it: `{"error": why}`.
    """

    def __init__(self) -> None:
        self.log = BoundedLog()
        self.answers: deque[Json] = deque()
        self._unread_bytes = 0
        self._rest = bytearray()

    def stderr(self, data: bytes) -> None:
        self.log.add(data)

    def stdout(self, data: bytes) -> None:
        self._rest += data
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest.clear()
            self.answers.append({"error": f"a line larger than {size(MAX_LINE_BYTES)}"})
        if b"\n" not in data:
            return
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            answer = self._parse(line)
            if answer is None or not self._has_room(line):
                self.log.add(line + b"\n")
            else:
                self.answers.append(answer)

    def ended(self) -> None:
        self.log.add(bytes(self._rest))
        self._rest.clear()

    def _parse(self, line: bytes) -> Json | None:
        if not line.lstrip().startswith(b"{"):
            return None
        try:
            answer: Json = parse(line)
        except OutOfBounds as error:
            return {"error": f"an answer that is none: {error}"}
        except ValueError:
            return None
        return answer

    def _has_room(self, line: bytes) -> bool:
        """Whether it may wait to be read. One that answers more than it is asked must not take the memory."""
        self._unread_bytes = len(line) + (self._unread_bytes if self.answers else 0)
        return self._unread_bytes <= MAX_UNREAD_BYTES


class Stream:
    """An attached container: its parser is fed by a thread until the container ends or the stream is closed."""

    def __init__(
        self,
        attached: Any,
        parser: Parser,
        stop: threading.Event | None = None,
        changed: threading.Condition | None = None,
    ) -> None:
        """Streams that are given one condition share it: a wait on one sees what the others' parsers have."""
        self._attached = attached
        # A unix socket comes wrapped in an io object; TLS and ssh give the socket itself.
        self._socket = getattr(attached, "_sock", attached)
        self._parser = parser
        self._changed = changed or threading.Condition()
        self.ended = False
        self._stop = stop
        self._thread = threading.Thread(target=self._pump, name="stream", daemon=True)
        self._thread.start()

    def send_line(self, data: bytes) -> None:
        """Write one line to the container's standard input. Raises ServiceFailed if it no longer listens."""
        try:
            self._socket.sendall(data + b"\n")
        except OSError as error:
            raise ServiceFailed(f"its standard input is closed ({error.strerror or error})") from error

    def close_input(self) -> None:
        """Close the container's standard input; a service ends by that."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def wait(self, done: Callable[[], bool], timeout_s: float, what: str) -> bool:
        """Wait until `done()` (called under the lock) or the container has ended: True if done.

        Raises DeadlinePassed with `what` was waited for, and Interrupted if the user wants to stop now.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not done():
                if self.ended:
                    return done()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise DeadlinePassed(f"waited {timeout_s:g} s for {what}")
                if self._stop is not None and self._stop.is_set():
                    raise Interrupted(f"while waiting for {what}")
                self._changed.wait(min(left, TICK_S))
        return True

    def wait_ended(self, timeout_s: float, what: str) -> None:
        """Wait until the container's output has ended: all that it ever wrote has then been parsed."""
        self.wait(lambda: self.ended, timeout_s, what)

    def close(self) -> None:
        """Let go of the connection; the thread ends. Never raises."""
        for step in (lambda: self._socket.shutdown(socket.SHUT_RDWR), self._attached.close):
            with contextlib.suppress(OSError, ValueError):
                step()
        self._thread.join(timeout=5)

    def _pump(self) -> None:
        buffer = bytearray()
        try:
            while data := self._socket.recv(65536):
                buffer += data
                with self._changed:
                    self._take_frames(buffer)
                    self._changed.notify_all()
        except (OSError, ValueError):
            pass  # closed under us: the same as an end
        finally:
            with self._changed:
                self._parser.ended()
                self.ended = True
                self._changed.notify_all()

    def _take_frames(self, buffer: bytearray) -> None:
        """The engine's multiplexed frames: stream number, three zero bytes, length, payload."""
        while len(buffer) >= 8:
            kind, length = buffer[0], struct.unpack_from(">I", buffer, 4)[0]
            if len(buffer) < 8 + length:
                return
            payload = bytes(buffer[8 : 8 + length])
            del buffer[: 8 + length]
            if kind == 2:
                self._parser.stderr(payload)
            else:
                self._parser.stdout(payload)
