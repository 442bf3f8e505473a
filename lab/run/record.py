"""A run on disk: crash-safe and append-only, so that a killed lab can be resumed and old evidence judged again.

run.json        what was asked for and on what, written once
inputs.json     workloads and prepared state (prepared.tar beside it)
census.json     plan.json, and legs.json of the cells
journal.jsonl   one line per finished trial, synced; a torn last line is a trial that did not finish
evidence/NNNN/  a failed trial whole: evidence.json, verdict.json, history.jsonl, ledger.json, look-*.tgz
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from lab.engine.errors import LabError, UsageError
from lab.fuzz.model import FuzzResult
from lab.model import Evidence, Json, Result, Trial, Verdict, from_json, to_json
from lab.plan.points import Plan
from lab.trial.worker import Prepared

RUNS = Path(".lab/runs")
FORMAT = 1


@dataclass(frozen=True)
class Header:
    """What `run.json` says: enough to run every trial of the plan again."""

    run: str
    campaign: str
    subject: str  # as given: a name, or the path of a subject.toml
    seed: int
    storages: tuple[str, ...]
    workers: int
    keep_all_evidence: bool
    bug: str | None
    subject_image: str
    verifier_image: str
    environment: Json
    format: int = FORMAT


def new_run_id(suffix: str) -> str:
    """A run's name: when it began, and four letters so that two labs never share one."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{suffix[:4]}"


class Record:
    """A run's folder. `create` makes a new one, `find` opens one that is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began_s = time.monotonic()
        self._process = psutil.Process()

    @classmethod
    def create(cls, header: Header) -> Record:
        path = RUNS / header.run
        path.mkdir(parents=True)
        record = cls(path)
        record.write("run.json", to_json(header))
        latest = RUNS / "latest"
        staged = RUNS / f".latest-{header.run}"
        staged.symlink_to(header.run)
        staged.replace(latest)
        return record

    @classmethod
    def find(cls, name: str) -> Record:
        """The run of that id, a unique beginning of one, `latest`, or a folder's path. Raises UsageError."""
        whole = [Path(name), RUNS / name] if name else []
        begun = RUNS.glob(f"{glob.escape(name)}*") if name[:1].isdigit() and "/" not in name else ()
        for candidates in (whole, begun):
            found = {path.resolve() for path in candidates if (path / "run.json").is_file()}
            if len(found) == 1:
                return cls(found.pop())
            if found:
                names = ", ".join(sorted(path.name for path in found))
                raise UsageError(f"{name!r} may be any of {len(found)} runs: {names}", "Give more of its id.")
        raise UsageError(f"no run {name!r} in {RUNS}", "`lab show` lists the runs that are there.")

    # What is written once.

    def write(self, name: str, data: Any) -> None:
        """A JSON file, whole or not at all."""
        self.write_bytes(name, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        path = self.path / name
        staged = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with staged.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(path)
        except OSError as error:
            raise LabError(f"cannot write {path}: {error.strerror}", "Is the disk full?") from error

    def read(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text("utf-8"))
        except FileNotFoundError as error:
            raise LabError(f"run {self.path.name} has no {name}: it was stopped before it got there") from error
        except ValueError as error:
            raise LabError(f"{self.path / name} is damaged: {error}") from error

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def header(self) -> Header:
        header = self.read("run.json")
        if header.get("format") != FORMAT:
            raise LabError(f"run {self.path.name} has format {header.get('format')}; this lab reads {FORMAT}")
        return from_json(Header, header)

    def write_inputs(self, workloads: tuple[Json, ...], prepared: Prepared) -> None:
        self.write_bytes("prepared.tar", prepared.archive)
        self.write("inputs.json", {"workloads": workloads, "prepared": prepared.told})

    def inputs(self) -> tuple[tuple[Json, ...], Prepared]:
        data = self.read("inputs.json")
        told = data["prepared"]
        archive = (self.path / "prepared.tar").read_bytes()
        return tuple(data["workloads"]), Prepared(told["workload"], told["ledger"], archive)

    def write_plan(self, plan: Plan) -> None:
        self.write("plan.json", to_json(plan))

    def plan(self) -> Plan:
        return from_json(Plan, self.read("plan.json"))

    # The journal.

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run: two labs must not work on one. Raises UsageError."""
        with (self.path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(f"another lab works on run {self.path.name} right now") from error
            yield

    def begin_session(self) -> None:
        """Start counting time; cut a torn last line, which a killed lab may have left."""
        self._began_s = time.monotonic()
        journal = self.path / "journal.jsonl"
        data = journal.read_bytes() if journal.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            with journal.open("r+b") as file:
                file.truncate(len(whole))
        self._append({"session": "began"})

    def end_session(self, *, interrupted: bool) -> None:
        self._append({"session": "ended", "interrupted": interrupted})

    def finished(self, result: Result | FuzzResult) -> None:
        """A trial is finished, for good. Called from one thread."""
        self._append({"result": to_json(result)})

    def _append(self, line: Json) -> None:
        at = {"at_s": round(time.monotonic() - self._began_s, 3), "rss_kb": self._process.memory_info().rss // 1024}
        data = (json.dumps({**at, **line}, separators=(",", ":")) + "\n").encode()
        try:
            with (self.path / "journal.jsonl").open("ab", buffering=0) as file:
                whole = file.tell()
                try:
                    while data:
                        data = data[file.write(data) :]
                    os.fsync(file.fileno())
                except OSError:
                    with contextlib.suppress(OSError):
                        file.truncate(whole)  # else the next line would go on where this one broke off
                    raise
        except OSError as error:
            raise LabError(
                f"cannot write the journal of run {self.path.name}: {error.strerror}", "Is the disk full?"
            ) from error

    def journal(self) -> list[Json]:
        """Its lines; a torn last one is left out, a torn other one is damage."""
        path = self.path / "journal.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
        found = []
        for number, line in enumerate(lines[:-1], 1):
            try:
                found.append(json.loads(line))
            except ValueError as error:
                raise LabError(f"{path} line {number} is damaged: {error}") from error
        return found

    def results(self) -> tuple[Result, ...]:
        """The last result of each trial."""
        by_trial = {r.trial.ident: r for r in (from_json(Result, j["result"]) for j in self.journal() if "result" in j)}
        return tuple(by_trial.values())

    # Evidence.

    def write_evidence(self, folder: str, evidence: Evidence, verdict: Verdict, volumes: tuple[bytes, ...]) -> None:
        """A trial whole. History and ledger lie in files of their own, for people."""
        self.write(f"{folder}/evidence.json", to_json(replace(evidence, history=(), ledger={})))
        self.write(f"{folder}/verdict.json", to_json(verdict))
        history = "".join(json.dumps(line) + "\n" for line in evidence.history)
        self.write_bytes(f"{folder}/history.jsonl", history.encode())
        self.write(f"{folder}/ledger.json", evidence.ledger)
        for process in evidence.processes:
            self.write_bytes(f"{folder}/process-{process.number}.log", process.log.encode())
        for number, (look, volume) in enumerate(zip(evidence.looks, volumes, strict=False), 1):
            self.write_bytes(f"{folder}/look-{number}-{look.name}.tgz", volume)

    def evidence(self, folder: str) -> tuple[Evidence, tuple[bytes, ...]]:
        """A trial's evidence and what its looks saw (fewer volumes than looks: it was not kept whole)."""
        where = self.path / folder
        lines = (where / "history.jsonl").read_text("utf-8").splitlines()
        evidence = replace(
            from_json(Evidence, self.read(f"{folder}/evidence.json")),
            history=tuple(json.loads(line) for line in lines),
            ledger=self.read(f"{folder}/ledger.json"),
        )
        files = [where / f"look-{n}-{look.name}.tgz" for n, look in enumerate(evidence.looks, 1)]
        return evidence, tuple(f.read_bytes() for f in files if f.is_file())


def evidence_folder(trial: Trial) -> str:
    return f"evidence/{trial.ident:04d}"
