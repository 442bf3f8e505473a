"""A whole trial of the kernel without a container: killed, recovered, resumed, and judged by the real verifier.

What the lab does with containers and volumes is done here with processes and folders: the same contracts, much faster.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import select
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from checkers import PACKAGES, launch
from kernel_process import DEADLINE_S, FULL, PREPARED, PYTHON, LedgerService, Process, Record, Trial


class Verifier:
    """The real verifier as a process; it is given each volume to look at."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*PYTHON, "-c", launch(PACKAGES["kernel"]), "kernel"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"LAB_DATA": "/"},
        )  # fmt: skip
        self._read()

    def ask(self, request: Record) -> Record:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._read()

    def end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()

    def _read(self) -> Record:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], DEADLINE_S)
        assert ready, "the verifier says nothing"
        answer: Record = json.loads(self._process.stdout.readline())
        return answer


@dataclass
class Outcome:
    """What one trial showed. `differs` holds (look, property, first difference)."""

    differs: list[tuple[str, str, Record]] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)
    ended: str = ""  # the last words of a process that did not get to where it was to be stopped
    ledger: Record = field(default_factory=dict)
    hits: list[Record] = field(default_factory=list)  # where it was killed
    tables: Record = field(default_factory=dict)


class Lab:
    """The long-lived services and the prepared state that trials start from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._open: list[Trial] = []
        self.service = LedgerService(folder)
        self.verifier = Verifier()
        (folder / "prepared").mkdir()
        prepared = Trial(self.service, "prepared", folder / "prepared", PREPARED)
        prepared.finish("run")
        self._prepared = {"workload": PREPARED, "ledger": prepared.ledger()}

    def trial(self, workload: Record = FULL, hold: list[int] | None = None) -> Trial:
        """A fresh trial on a copy of the prepared state."""
        name = f"t{next(self._numbers)}"
        return self._opened(name, shutil.copytree(self._folder / "prepared", self._folder / name), workload, hold)

    def young(self, workload: Record) -> Trial:
        """A fresh trial on an empty folder."""
        name = f"t{next(self._numbers)}"
        (self._folder / name).mkdir()
        return self._opened(name, self._folder / name, workload, None)

    def close_trials(self) -> None:
        """Forget every trial, their folders too."""
        while self._open:
            trial = self._open.pop()
            trial.close()
            shutil.rmtree(trial.folder)

    def _opened(self, name: str, folder: Path, workload: Record, hold: list[int] | None) -> Trial:
        trial = Trial(self.service, name, folder, workload, hold)
        self._open.append(trial)
        return trial

    def crash(self, *points: str, workload: Record = FULL, bug: str | None = None) -> Outcome:
        """Kill at the points, process by process, then recover and resume; a look at each stop. Closes every trial."""
        first = points[0]
        trial = self.trial(workload, [int(first.partition("#")[2])] if first.startswith("intent.sent#") else None)
        outcome, history = Outcome(), []
        try:
            self._crash(trial, points, bug, outcome, history)
        except AssertionError as died:
            outcome.ended = str(died)
        finally:
            self.close_trials()
        return outcome

    def end(self) -> None:
        self.verifier.end()
        self.service.end()

    def _crash(self, trial: Trial, points: tuple[str, ...], bug: str | None, outcome: Outcome, history: list[Record]):
        for number, point in enumerate(points, 1):
            if number == 1:
                process = trial.start("run", bug, hook=point)
            else:
                process = trial.start("recover", bug, hook=point, barrier="recovery.done")
            if process.await_hit().get("barrier"):  # the point lies behind it
                standing = [*history]
                _remember(standing, process, number)
                self._look("recovered", trial, standing, outcome)
                process.release()
                process.await_another_hit()
            outcome.hits.append([record for record in process.records if "hit" in record][-1])
            process.kill()
            _remember(history, process, number)
            history.append({"process": number, "died": True})
            self._look("killed", trial, history, outcome)
        process = trial.start("recover", bug, barrier="recovery.done")
        process.await_hit()
        number = len(points) + 1
        standing = [*history]
        _remember(standing, process, number)
        self._look("recovered", trial, standing, outcome)
        process.release()
        assert process.wait() == 0, process.log
        _remember(history, process, number)
        self._look("end", trial, history, outcome)
        outcome.ledger = trial.ledger()
        outcome.tables = trial.tables()

    def _look(self, look: str, trial: Trial, history: list[Record], outcome: Outcome) -> None:
        ledger = trial.ledger("drain" if look == "end" else "snapshot")
        answer = self.verifier.ask({
            "ask": "look", "look": look, "workload": trial.workload, "prepared": self._prepared,
            "history": history, "ledger": ledger, "volume": _packed(trial.folder),
        })  # fmt: skip
        if "properties" not in answer:
            raise RuntimeError(f"the verifier: {answer}")
        for name, finding in answer["properties"].items():
            outcome.facts[name] = outcome.facts.get(name, 0) + finding["facts"]
            if finding["differs"]:
                outcome.differs.append((look, name, finding["differs"]))


def _remember(history: list[Record], process: Process, number: int) -> None:
    operations = [record for record in process.records if "op" in record]
    history += [{"process": number} | {name: r[name] for name in r if name != "lab"} for r in operations]


def _packed(folder: Path) -> str:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.add(path, str(path.relative_to(folder)))
    return base64.b64encode(packed.getvalue()).decode()
