"""What the lab sees and where it can stop us: hooks, barriers and history, as records on standard output.

Records are JSON text sequences (RFC 7464). Without LAB_NONCE nobody listens and nothing is written. Nothing in here
may change what the store does, apart from standing still.
"""

import json
import os
import time

from sessions.errors import DriverError, UsageError

RECORD_BYTES = 4096  # a pipe takes this much in one piece


class Hooks:
    """One process's hooks and history. `environ` is the environment as a mapping; of an empty one nothing is armed."""

    def __init__(self, environ):
        self._nonce = environ.get("LAB_NONCE")
        self._census = environ.get("LAB_CENSUS") == "1"
        self._armed = _armed(environ.get("LAB_HOOK"))
        self._barrier = environ.get("LAB_BARRIER")
        self._hits: dict[str, int] = {}
        self._operations = 0

    def reach(self, name: str) -> None:
        """The process stands at hook `name`: count it, and stop here if that is what the lab asked for."""
        n = self._hits[name] = self._hits.get(name, 0) + 1
        if self._armed == (name, n):
            self._write({"hit": name, "n": n})
            while True:
                time.sleep(3600)
        if name == self._barrier and n == 1:
            self._write({"hit": name, "n": n, "barrier": True})
            _wait_for_a_line(name)
        elif self._census:
            self._write({"hit": name, "n": n})

    def opened(self, **what: str) -> None:
        """History: the store is open, and this is what it really has."""
        self._write({"op": "open", "type": "ok", "id": 0, **what})

    def invoke(self, op: str, do: dict) -> int:
        """History: `op` is about to be done. Returns the operation's number."""
        self._operations += 1
        self._write({"op": op, "type": "invoke", "id": self._operations, "do": do})
        return self._operations

    def complete(self, op: str, kind: str, operation: int, result: dict) -> None:
        """History: how it ended: `ok` (the acknowledgement), `fail` (it surely did not happen) or `info` (it may)."""
        self._write({"op": op, "type": kind, "id": operation, **result})

    def _write(self, record):
        if self._nonce is None:
            return
        data = b"\x1e" + json.dumps({"lab": self._nonce, **record}, separators=(",", ":")).encode() + b"\n"
        if len(data) > RECORD_BYTES:
            raise UsageError(f"a record of {len(data)} bytes does not fit one write: {data[:80]!r}")
        os.write(1, data)


def _armed(text):
    if not text:
        return None
    name, _, n = text.rpartition("#")
    if not name or not n.isdigit():
        raise UsageError(f"LAB_HOOK={text}: a hook is armed as NAME#N")
    return name, int(n)


def _wait_for_a_line(name):
    while True:
        data = os.read(0, 4096)
        if b"\n" in data:
            return
        if not data:
            raise DriverError(f"barrier {name} was never released: standard input has ended")
