"""The driver of hermes-agent as real processes on the real wheels, with the real effect ledger, for its tests.

The wheels come as those of the image come: by `images/hermes/wheels.txt`. Where they cannot be fetched the tests fail.
"""

from __future__ import annotations

import json
import sqlite3
import tomllib
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

from kernel_process import IMAGES, NONCE, PYTHON, LedgerService, Process, Record

from lab.engine import wheels

HERMES = IMAGES / "hermes"
VIEWS: dict[str, str] = tomllib.loads((IMAGES / "hermes-verifier" / "views.toml").read_text())["views"]
DRIVER = [*PYTHON, str(HERMES / "bin" / "hermes")]


def unpack(folder: Path) -> Path:
    """The site of the image: its wheels, unpacked."""
    for wheel in wheels.fetch(HERMES / wheels.PINS):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def workload(work: list[Record], resume: list[Record] | None = None, **more: Any) -> Record:
    return {"kind": "session-cells", "version": 1, "seed": 1, "cell": "any", "journal_mode": "default",
            "work": work, "race": None, "resume": resume or [], **more}  # fmt: skip


def op(name: str, **fields: Any) -> Record:
    return {"op": name, **fields}


class Home:
    """One HERMES_HOME with its own part of the ledger."""

    def __init__(self, service: LedgerService, name: str, folder: Path, site: Path) -> None:
        self.folder = folder
        self.site = site
        self._service = service
        self._name = name
        self._socket = service.ask("open", name, rules={"decline": [], "lose_reply": [], "hold": []})["socket"]

    def start(self, command: str, script: Record, driver: list[str] = DRIVER, **lab: str) -> Process:
        """Start a process of the driver. `lab` are LAB_ variables in lower case without their prefix."""
        environment = {
            "HERMES_DATA": str(self.folder), "HERMES_SITE": str(self.site), "LAB_NONCE": NONCE,
            "LAB_WORKLOAD": json.dumps(script), "LAB_LEDGER": self._socket,
            **{f"LAB_{name.upper()}": value for name, value in lab.items()},
        }  # fmt: skip
        return Process([*driver, command], environment)

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
        ledger = self._service.ask("snapshot", self._name)["ledger"]
        return [effect["args"]["marked"] for effect in ledger["effects"]]

    def close(self) -> None:
        self._service.ask("close", self._name)


def acknowledged(records: list[Record], name: str) -> list[Record]:
    """The ops of that name whose `ok` was written, as they were asked for."""
    asked = {record["id"]: record["do"] for record in records if record.get("type") == "invoke"}
    return [asked[record["id"]] for record in records if record.get("type") == "ok" and record.get("op") == name]
