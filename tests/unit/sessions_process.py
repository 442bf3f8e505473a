"""The reference session store as real processes in a temporary folder, with the real ledger and the real verifier.

What the lab does with containers and volumes is done here with processes and folders: the same contracts, much faster.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checkers  # noqa: F401 - makes the next line work
from kernel_process import IMAGES, NONCE, PYTHON, LedgerService, Process, Record
from verifier.cells import judge

SESSIONS = IMAGES / "subjects" / "sessions"
VIEWS_FILE = IMAGES / "subjects" / "sessions-verifier" / "views.toml"
VIEWS: dict[str, str] = tomllib.loads(VIEWS_FILE.read_text())["views"]
MODES = ("delete", "wal", "truncate", "persist", "memory", "off")
os.environ["VERIFIER_VIEWS"] = str(VIEWS_FILE)  # where the store's verifier image has them


def op(name: str, **fields: Any) -> Record:
    return {"op": name, **fields}


def append(session: str, content: str, role: str = "user", **more: Any) -> Record:
    return op("append", session=session, role=role, content=content, **more)


def claim(item: str, by: str) -> Record:
    return op("claim", item=item, by=by)


def record(delivery: str, session: str = "s1") -> Record:
    return op("record", delivery=delivery, session=session, content=f"notice {delivery}")


def send(delivery: str) -> Record:
    return op("send", delivery=delivery)


def race_processes(do: Record, racers: int = 8) -> Record:
    return op("race_processes", racers=racers, do=do)


def workload(*work: Record, resume: tuple[Record, ...] = (), race: Record | None = None, cell: str = "any",
             journal_mode: str = "default") -> Record:  # fmt: skip
    return {"kind": "session-cells", "version": 1, "seed": 1, "cell": cell, "journal_mode": journal_mode,
            "work": list(work), "race": race, "resume": list(resume)}  # fmt: skip


@dataclass
class Outcome:
    """What one trial showed. `differs` holds (look, property, first difference)."""

    differs: list[tuple[str, str, Record]] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)
    words: str = ""  # the last words of a recovery that did not get to its barrier or to its end

    @property
    def broken(self) -> set[str]:
        return {name for _, name, _ in self.differs}


class Folder:
    """One data folder, in memory, with its own part of the ledger."""

    def __init__(self, service: LedgerService, name: str, copy_of: Path | None = None, **rules: list[str]) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sessions-", dir="/dev/shm"))
        if copy_of is not None:
            shutil.copytree(copy_of, self.path, dirs_exist_ok=True)
        self._service = service
        self._name = name
        rules = {"decline": [], "lose_reply": [], "hold": []} | rules
        self.socket = service.ask("open", name, rules=rules)["socket"]

    def start(self, command: str, script: Record, bug: str | None = None, **lab: str) -> Process:
        """Start a process of the driver. `lab` are LAB_ variables in lower case without their prefix."""
        environment = {
            "SESSIONS_DATA": str(self.path), "LAB_NONCE": NONCE, "LAB_WORKLOAD": json.dumps(script),
            "LAB_LEDGER": self.socket, **{f"LAB_{name.upper()}": value for name, value in lab.items()},
        }  # fmt: skip
        program = [str(SESSIONS / "bin" / "sessions")]
        if bug:
            program = [str(SESSIONS / "bin" / "with-bug"), bug, "sessions"]
        return Process([*PYTHON, *program, command], environment)

    def finish(self, command: str, script: Record, bug: str | None = None, **lab: str) -> list[Record]:
        """Run a process to its end, which must be good. Returns its records."""
        process = self.start(command, script, bug, **lab)
        assert process.wait() == 0, process.log
        return process.records

    def kill_at(self, command: str, script: Record, hook: str, bug: str | None = None) -> Process:
        """Run a process to the armed hook and kill it there."""
        process = self.start(command, script, bug, hook=hook)
        process.await_hit()
        process.kill()
        return process

    def view(self, name: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path / "sessions.db")) as database:
            return database.execute(VIEWS[name]).fetchall()

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.path.iterdir()}

    def ledger(self) -> Record:
        snapshot: Record = self._service.ask("snapshot", self._name)["ledger"]
        return snapshot

    def copies(self) -> list[tuple[str, bool]]:
        """What has landed: (delivery, marked as a possible duplicate), in order."""
        return [(effect["effect"], effect["args"]["marked"]) for effect in self.ledger()["effects"]]

    def close(self) -> None:
        self._service.ask("close", self._name)
        shutil.rmtree(self.path)


class Trial:
    """A whole trial as the lab runs it: killed at its points, recovered, resumed, judged at each stop.

    `between` is done to the folder of a dead process before the next one starts.
    """

    def __init__(
        self, folder: Folder, script: Record, bug: str | None, between: Callable[[Folder], None] | None = None
    ) -> None:
        self._folder = folder
        self._script = script
        self._bug = bug
        self._between = between
        self._history: list[Record] = []
        self._earlier: list[Record] = []
        self.outcome = Outcome()

    def crash(self, *points: str) -> Outcome:
        """A point is "hook#n". Ends early, with its last words, where a recovery does not come to its end."""
        for number, point in enumerate(points, 1):
            process = self._folder.kill_at("recover" if number > 1 else "run", self._script, point, self._bug)
            self._history += [*_told(process, number), {"process": number, "died": True}]
            self._look("killed", self._history)
            if self._between:
                self._between(self._folder)
        process = self._folder.start("recover", self._script, self._bug, barrier="recovery.done")
        try:
            process.await_hit()
            self._look("recovered", [*self._history, *_told(process, len(points) + 1)])
            process.release()
        except AssertionError as died:
            self.outcome.words = str(died)
        if process.wait() != 0 or self.outcome.words:
            self.outcome.words = self.outcome.words or process.log
            return self.outcome
        self._history += _told(process, len(points) + 1)
        self._look("end", self._history)
        return self.outcome

    def _look(self, look: str, history: list[Record]) -> None:
        files = self._folder.files()
        answer = judge(files, {
            "look": look, "workload": self._script, "prepared": None, "history": history,
            "ledger": self._folder.ledger(), "earlier": list(self._earlier),
        })  # fmt: skip
        self._earlier.append({"look": look, "files": files, "history": len(history)})
        for name, finding in answer.items():
            self.outcome.facts[name] = self.outcome.facts.get(name, 0) + finding["facts"]
            if finding["differs"]:
                self.outcome.differs.append((look, name, finding["differs"]))


def _told(process: Process, number: int) -> list[Record]:
    records = [record for record in process.records if "op" in record]
    return [{"process": number} | {name: r[name] for name in r if name != "lab"} for r in records]
