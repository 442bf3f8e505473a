"""The driver of hermes-agent as real processes on the real wheels, with the real effect ledger, for its tests.

The wheels come as those of the image come: by `images/subjects/hermes/wheels.txt`. Where they cannot be fetched the
tests fail.
"""

from __future__ import annotations

import functools
import json
import sqlite3
import tempfile
import time
import tomllib
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

from kernel_process import DEADLINE_S, IMAGES, NONCE, PYTHON, LedgerService, Process, Record

from lab.engine import wheels

HERMES = IMAGES / "subjects" / "hermes"
VIEWS_FILE = IMAGES / "subjects" / "hermes-verifier" / "views.toml"
VIEWS: dict[str, str] = tomllib.loads(VIEWS_FILE.read_text())["views"]


_UNPACKED = tempfile.TemporaryDirectory(prefix="hermes-site-")


@functools.cache
def site() -> Path:
    """The site of the image, its wheels unpacked: once for all tests of a session."""
    for wheel in wheels.fetch(HERMES / wheels.PINS):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(_UNPACKED.name)
    return Path(_UNPACKED.name)


def workload(work: list[Record], resume: list[Record] | None = None, **more: Any) -> Record:
    return {"kind": "session-cells", "version": 1, "seed": 1, "cell": "any", "journal_mode": "default",
            "work": work, "race": None, "resume": resume or [], **more}  # fmt: skip


def op(name: str, **fields: Any) -> Record:
    return {"op": name, **fields}


class Driver(Process):
    """A process of the driver."""

    def await_answers(self, n: int) -> None:
        """Until the n-th acknowledgement after that of the opening has been heard: the moment of a kill."""
        until = time.monotonic() + DEADLINE_S
        while sum(record.get("type") == "ok" for record in self._parsed()) <= n:
            assert self._read(until), f"ended before its {n}th answer: {self._output.decode()}"


class Home:
    """One HERMES_HOME with its own part of the ledger."""

    def __init__(self, service: LedgerService, name: str, folder: Path) -> None:
        self.folder = folder
        self._service = service
        self._name = name
        self._socket = service.ask("open", name, rules={"decline": [], "lose_reply": [], "hold": []})["socket"]

    def start(self, command: str, script: Record, **lab: str) -> Driver:
        """Start a process of the driver. `lab` are LAB_ variables in lower case without their prefix."""
        environment = {
            "HERMES_DATA": str(self.folder), "HERMES_SITE": str(site()), "LAB_NONCE": NONCE,
            "LAB_WORKLOAD": json.dumps(script), "LAB_LEDGER": self._socket,
            **{f"LAB_{name.upper()}": value for name, value in lab.items()},
        }  # fmt: skip
        return Driver([*PYTHON, str(HERMES / "bin" / "hermes-gateway"), command], environment)

    def finish(self, command: str, script: Record, **lab: str) -> list[Record]:
        """Run a process to its end, which must be good. Returns its records."""
        process = self.start(command, script, **lab)
        assert process.wait() == 0, process.log
        return process.records

    def kill_at(self, command: str, script: Record, hook: str) -> list[Record]:
        """Run a process to the hook and kill it there."""
        process = self.start(command, script, hook=hook)
        process.await_hit()
        assert process.kill() == -9
        return process.records

    def view(self, name: str) -> list[tuple[Any, ...]]:
        """A view of the store, by the SQL that its verifier is given."""
        with closing(sqlite3.connect(self.folder / "state.db")) as connection:
            return connection.execute(VIEWS[name]).fetchall()

    def copies(self) -> list[bool]:
        """Whether each message that reached the provider was marked as a possible duplicate."""
        return [effect["args"]["marked"] for effect in self.ledger()["effects"]]

    def ledger(self) -> Record:
        snapshot: Record = self._service.ask("snapshot", self._name)["ledger"]
        return snapshot

    def close(self) -> None:
        self._service.ask("close", self._name)
