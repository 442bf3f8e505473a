"""What the lab hears of the driver and where it can stop it: hooks, the barrier, history (docs/protocol.md)."""

import json
import os
import signal
import sys

RECORD_BYTES = 4096  # a pipe takes this much in one piece


class Records:
    """One process's records. Without LAB_NONCE nobody listens, and nothing is written."""

    def __init__(self, environ):
        self._nonce = environ.get("LAB_NONCE")
        self._armed = environ.get("LAB_HOOK")
        self._barrier = environ.get("LAB_BARRIER")
        self._census = environ.get("LAB_CENSUS") == "1"
        self._hits = {}
        self._operations = 0

    def reach(self, name: str) -> None:
        """The process stands at hook `name`: count it, and stop here if that is what the lab asked for."""
        n = self._hits[name] = self._hits.get(name, 0) + 1
        if self._armed == f"{name}#{n}":
            self._write(hit=name, n=n)
            while True:  # the lab will kill us
                signal.pause()
        if name == self._barrier and n == 1:
            self._write(hit=name, n=n, barrier=True)
            if not sys.stdin.readline():
                raise SystemExit(f"hermes: barrier {name} was never released: standard input has ended")
        elif self._census:
            self._write(hit=name, n=n)

    def opened(self, **what: object) -> None:
        """What the store really is. Number 0, for it is asked by nobody."""
        self._write(op="open", type="ok", id=0, **what)

    def invoke(self, op: dict) -> int:
        """`op` is about to be done. Returns its number."""
        self._operations += 1
        self._write(op=op["op"], type="invoke", id=self._operations, do=op)
        return self._operations

    def answer(self, op: dict, type_: str, number: int, **result: object) -> None:
        """`ok` is the acknowledgement: done, and said by the store. `fail`: surely not. `info`: nobody knows."""
        self._write(op=op["op"], type=type_, id=number, **result)

    def _write(self, **fields: object) -> None:
        if self._nonce is None:
            return
        record = b"\x1e" + json.dumps({"lab": self._nonce, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(record) > RECORD_BYTES:
            raise SystemExit(f"hermes: a record of {len(record)} bytes does not fit one write: {record[:80]!r}")
        os.write(1, record)
