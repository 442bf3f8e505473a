"""What the lab sees and where it can stop us: hooks, barrier and history, as records on standard output.

Records are JSON text sequences (RFC 7464). An acknowledgement shares the write of the record behind it, for each write
costs the engine that carries it about as much as all of ours; it may come late, never early. Without LAB_NONCE nobody
listens and nothing is written. Nothing in here may change what the kernel does, apart from standing still.
"""

import os
import time

from kernel.codec import canonical, encode_basestring_ascii
from kernel.errors import UsageError

RECORD_BYTES = 4096  # a pipe takes this much in one piece


class Hooks:
    """One process's hooks. `environ` is the environment as a mapping."""

    def __init__(self, environ):
        nonce = environ.get("LAB_NONCE")
        self._silent = nonce is None
        self._head = '\x1e{"lab":' + encode_basestring_ascii(nonce or "")
        self._census = environ.get("LAB_CENSUS") == "1"
        self._armed, self._armed_n = _armed(environ.get("LAB_HOOK"))
        self._barrier = environ.get("LAB_BARRIER")
        self._hits = {}
        self._operations = 0
        self._held = b""  # an acknowledgement that waits for the next record

    def reach(self, name: str, tags=None) -> None:
        """The process stands at hook `name`: count it, and stop here if that is what the lab asked for."""
        n = self._hits[name] = self._hits.get(name, 0) + 1
        if name == self._armed and n == self._armed_n:
            self._announce(name, n, tags)
            stand_still()
        if name == self._barrier and n == 1:
            self._announce(name, n, tags, ',"barrier":true')
            _wait_for_a_line(name)
        elif self._census:
            self._announce(name, n, tags)

    def invoke(self, op: str, body: str) -> int:
        """History: `op` is about to be done. `body` is JSON text of further members. Returns the operation's number."""
        self._operations += 1
        self._write(f',"op":"{op}","type":"invoke","id":{self._operations},{body}}}\n')
        return self._operations

    def ok(self, op: str, operation: int, body: str) -> None:
        """History: it is done and survives a crash. This is the acknowledgement."""
        self.flush()
        self._held = self._record(f',"op":"{op}","type":"ok","id":{operation},{body}}}\n')

    def flush(self) -> None:
        """Write the acknowledgement that waits, if there is one: nothing will follow it."""
        if self._held:
            held, self._held = self._held, b""
            os.write(1, held)

    def _announce(self, name, n, tags, more=""):
        tail = f',"tags":{canonical(tags)}' if tags else ""
        self._write(f',"hit":"{name}","n":{n}{more}{tail}}}\n')

    def _write(self, rest):
        record = self._record(rest)
        if len(self._held) + len(record) > RECORD_BYTES:
            self.flush()
        data, self._held = self._held + record, b""
        if data:
            os.write(1, data)

    def _record(self, rest):
        if self._silent:
            return b""
        record = (self._head + rest).encode()
        if len(record) > RECORD_BYTES:
            raise ValueError(f"a record of {len(record)} bytes does not fit one write: {rest[:80]}")
        return record


def _armed(text):
    if not text:
        return None, 0
    name, _, n = text.rpartition("#")
    if not name or not n.isdigit():
        raise UsageError(f"LAB_HOOK={text}: a hook is armed as NAME#N")
    return name, int(n)


def stand_still() -> None:
    """Never returns: the lab will kill this process."""
    while True:
        time.sleep(3600)


def _wait_for_a_line(name):
    while True:
        data = os.read(0, 4096)
        if b"\n" in data:
            return
        if not data:
            raise SystemExit(f"kernel: barrier {name} was never released: standard input has ended")
