"""A run on disk: crash-safe and append-only, so that a killed lab can be resumed and old evidence judged again.

run.json        what was asked for and on what, written once
inputs.json     workloads and prepared state (prepared.tar beside it)
census.json     plan.json, and legs.json of the cells
journal.jsonl   one line per finished trial, synced; a torn last line is a trial that did not finish
scenarios.json  of a daemon: the plan file that scenarios are drawn from, and the seeds that once failed
evidence/NNNN/  a failed trial whole: evidence.json, scenario.json, verdict.json, history.jsonl, ledger.json,
                process-N.log, look-*.tgz
shrunk/         reproducers: the short scripts that still fail
"""

from __future__ import annotations

import contextlib
import glob
import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import psutil

from lab.codec import dump, from_json, parse
from lab.engine.errors import LabError, UsageError
from lab.files import JSON_BYTES, Folder
from lab.model import Evidence, Json, Reproduced, Result, Scenario, Trial, Verdict
from lab.plan.points import Plan
from lab.subject.spec import Subject
from lab.text import one_line
from lab.trial.clients import LineCheck
from lab.trial.run import Outcome
from lab.trial.setting import Prepared, Setting

T = TypeVar("T")

RUNS = Path(".lab/runs")
FORMAT = 2
ARCHIVE_BYTES = 256 << 20  # of one volume that is read into memory
EVIDENCE_BYTES = 4 << 30  # of one run, on disk: what is over it is kept without the volumes that its looks saw


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
    faults: tuple[str, ...]
    options: Json  # the campaign's own
    subject_image: str
    verifier_image: str
    clients_image: str | None
    environment: Json
    format: int = FORMAT


@dataclass(frozen=True)
class PreparedInput:
    """How the prepared state was made: the workload that made it and the ledger that it left."""

    workload: Json
    ledger: Json


@dataclass(frozen=True)
class Inputs:
    workloads: tuple[Json, ...]
    prepared: PreparedInput


@dataclass(frozen=True)
class _Entry:
    """What the reports rely on, of a request or an effect in a snapshot of the ledger."""

    seq: int = 0
    request: int = 0


def new_run_id(suffix: str) -> str:
    """A run's name: when it began, and four letters so that two labs never share one."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{suffix[:4]}"


class Record:
    """A run's folder. `create` makes a new one, `find` opens one that is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = Folder(path)
        self._began_s = time.monotonic()
        self._process = psutil.Process()
        self._writing = threading.RLock()
        self._evidence_bytes = 0

    @classmethod
    def create(cls, header: Header) -> Record:
        path = RUNS / header.run
        path.mkdir(parents=True)
        record = cls(path)
        record.write("run.json", header)
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
        self.write_bytes(name, dump(data, pretty=True))

    def write_bytes(self, name: str, data: bytes) -> None:
        with self._writes(name):
            self._files.write(name, data)

    def read(self, name: str, kind: type[T] | None = None) -> Any:
        """A JSON file, as data or as a `kind`."""
        return self._parsed(self.read_bytes(name), kind, name)

    def read_bytes(self, name: str, limit_bytes: int = JSON_BYTES) -> bytes:
        try:
            return self._files.read(name, limit_bytes)
        except FileNotFoundError as error:
            raise LabError(f"run {self.path.name} has no {name}: it was stopped before it got there") from error
        except OSError as error:
            raise LabError(f"cannot read {self.path / name}: {error.strerror}") from error

    def _lines(self, name: str, kind: type[T] | None = None) -> Iterator[Any]:
        """The whole lines of a file of JSON lines; none of one that is not there."""
        try:
            for number, line in enumerate(self._files.lines(name), 1):
                yield self._parsed(line, kind, f"{name} line {number}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise LabError(f"cannot read {self.path / name}: {error.strerror}") from error

    def _parsed(self, text: bytes, kind: type[T] | None, name: str) -> Any:
        try:
            return parse(text) if kind is None else parse(text, kind)
        except ValueError as error:
            raise LabError(f"{self.path / name} is damaged: {error}") from error

    @contextlib.contextmanager
    def _writes(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LabError(f"cannot write {self.path / name}: {error.strerror}", "Is the disk full?") from error

    def has(self, name: str) -> bool:
        return self._files.has(name)

    def header(self) -> Header:
        header = self.read("run.json")
        if isinstance(header, dict) and header.get("format") != FORMAT:
            version = one_line(repr(header.get("format")), 20)
            raise LabError(
                f"run {self.path.name} has format {version}; this lab reads {FORMAT}",
                "Read it with the lab that wrote it; docs/upgrade.md says what has changed.",
            )
        return self._decoded(Header, header, "run.json")

    def subject(self) -> Subject:
        """The subject as it was when the run began, whatever has become of its files since."""
        found: Subject = self.read("subject.json", Subject)
        return found

    def _decoded(self, kind: type[T], data: Any, name: str) -> T:
        try:
            return from_json(kind, data)
        except ValueError as error:
            raise LabError(f"{self.path / name} is damaged: {error}") from error

    def write_inputs(self, workloads: tuple[Json, ...], prepared: Prepared) -> None:
        self.write_bytes("prepared.tar", prepared.archive)
        self.write("inputs.json", {"workloads": workloads, "prepared": prepared.told})

    def inputs(self) -> tuple[tuple[Json, ...], Prepared]:
        data: Inputs = self.read("inputs.json", Inputs)
        archive = self.read_bytes("prepared.tar", ARCHIVE_BYTES)
        return data.workloads, Prepared(data.prepared.workload, data.prepared.ledger, archive)

    def setting(self) -> Setting:
        """What every trial of the run shares, as it was."""
        header = self.header()
        workloads, prepared = self.inputs()
        images = (header.subject_image, header.verifier_image, header.clients_image)
        return Setting(header.run, header.seed, self.subject(), *images, workloads, prepared)

    def write_plan(self, plan: Plan) -> None:
        self.write("plan.json", plan)

    def plan(self) -> Plan:
        found: Plan = self.read("plan.json", Plan)
        return found

    # The journal.

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run: two labs must not work on one. Raises UsageError."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._files.locked("lock"))
            except BlockingIOError as error:
                raise UsageError(f"another lab works on run {self.path.name} right now") from error
            except OSError as error:
                raise LabError(f"cannot lock {self.path / 'lock'}: {error.strerror}") from error
            yield

    def begin_session(self) -> None:
        """Start counting time; cut a torn last line, which a killed lab may have left."""
        self._began_s = time.monotonic()
        with self._writes("journal.jsonl"), contextlib.suppress(FileNotFoundError):
            self._files.cut_torn_line("journal.jsonl")
        self._append({"session": "began"})

    def end_session(self, *, interrupted: bool) -> None:
        self._append({"session": "ended", "interrupted": interrupted})

    def finished(self, result: Result) -> None:
        """A trial is finished, for good; a scenario is kept without its lives, for seed and number draw them again."""
        if isinstance(result.trial.script, Scenario):
            result = replace(result, trial=replace(result.trial, script=replace(result.trial.script, lives=())))
        self._append({"result": result})

    def reproduced(self, ident: int, found: Reproduced) -> None:
        """A violation that was run again: a remark beside its result."""
        self._append({"reproduced": found, "trial": ident})

    def _append(self, line: Json) -> None:
        with self._writing:
            at = {"at_s": round(time.monotonic() - self._began_s, 3), "rss_kb": self._process.memory_info().rss // 1024}
            try:
                self._files.append("journal.jsonl", dump({**at, **line}))
            except OSError as error:
                raise LabError(
                    f"cannot write the journal of run {self.path.name}: {error.strerror}", "Is the disk full?"
                ) from error

    def journal(self) -> list[Json]:
        """Its lines; a torn last one is left out, a torn other one is damage."""
        return list(self._lines("journal.jsonl", Json))

    def results(self) -> tuple[Result, ...]:
        """The last result of each trial, with how often its violation came again."""
        found: dict[int, Result] = {}
        for number, line in enumerate(self.journal(), 1):
            where = f"journal.jsonl line {number}"
            if "result" in line:
                result = self._decoded(Result, line["result"], where)
                found[result.trial.ident] = result
            elif "reproduced" in line and isinstance(line.get("trial"), int) and line["trial"] in found:
                again = self._decoded(Reproduced, line["reproduced"], where)
                found[line["trial"]] = replace(found[line["trial"]], reproduced=again)
        return tuple(found.values())

    # Evidence.

    def write_evidence(self, folder: str, outcome: Outcome, verdict: Verdict) -> None:
        """A trial whole. Scenario, history, ledger and logs lie in files of their own, for people."""
        evidence = outcome.evidence
        trial = evidence.trial
        if isinstance(trial.script, Scenario):
            self.write(f"{folder}/scenario.json", trial.script)
            trial = replace(trial, script=replace(trial.script, lives=()))
        self.write(f"{folder}/evidence.json", replace(evidence, trial=trial, history=(), ledger={}))
        self.write(f"{folder}/verdict.json", verdict)
        history = "".join(json.dumps(line) + "\n" for line in evidence.history)
        self.write_bytes(f"{folder}/history.jsonl", history.encode())
        self.write(f"{folder}/ledger.json", evidence.ledger)
        for process in evidence.processes:
            self.write_bytes(f"{folder}/process-{process.number}.log", process.log.encode())
        if self._within_budget(sum(len(volume or b"") for volume in outcome.volumes)):
            for number, (look, volume) in enumerate(zip(evidence.looks, outcome.volumes, strict=False), 1):
                if volume is not None:
                    self.write_bytes(f"{folder}/look-{number}-{look.name}.tgz", volume)

    def _within_budget(self, size_bytes: int) -> bool:
        """Whether so much more evidence may be kept. That it may not is said in the journal, once a session."""
        with self._writing:
            fits = self._evidence_bytes + size_bytes <= EVIDENCE_BYTES
            if fits:
                self._evidence_bytes += size_bytes
            elif self._evidence_bytes <= EVIDENCE_BYTES:
                self._evidence_bytes = EVIDENCE_BYTES + 1
                self._append({"evidence_budget_bytes": EVIDENCE_BYTES})
            return fits

    def evidence(self, folder: str) -> tuple[Evidence, tuple[bytes, ...]]:
        """A trial's evidence and what its looks saw (fewer volumes than looks: it was not kept whole)."""
        evidence: Evidence = replace(
            self.read(f"{folder}/evidence.json", Evidence),
            history=tuple(self._lines(f"{folder}/history.jsonl", Json)),
            ledger=self.read(f"{folder}/ledger.json", Json),
        )
        if isinstance(evidence.trial.script, Scenario):
            script = self.read(f"{folder}/scenario.json", Scenario)
            evidence = replace(evidence, trial=replace(evidence.trial, script=script))
            self._check_history(f"{folder}/history.jsonl", evidence.history)
        shown, there = max((look.history for look in evidence.looks), default=0), len(evidence.history)
        if shown > there:
            where = self.path / folder / "history.jsonl"
            raise LabError(f"{where} is damaged: {there:,} lines, of {shown:,} that a look was shown")
        for ledger, name in (
            *((look.ledger, "evidence.json") for look in evidence.looks),
            (evidence.ledger, "ledger.json"),
        ):
            self._decoded(dict[str, tuple[_Entry, ...]], ledger, f"{folder}/{name}")
        names = [f"{folder}/look-{n}-{look.name}.tgz" for n, look in enumerate(evidence.looks, 1)]
        return evidence, tuple(self.read_bytes(name, ARCHIVE_BYTES) for name in names if self.has(name))

    def _check_history(self, name: str, lines: Iterable[Json]) -> None:
        checked = LineCheck()
        for number, line in enumerate(lines, 1):
            try:
                checked.check(line)
            except ValueError as error:
                raise LabError(f"{self.path / name} is damaged: line {number}: {error}") from error


def evidence_folder(trial: Trial) -> str:
    return f"evidence/{trial.ident:04d}"


def took_s(lines: Sequence[Json], last_of: str = "at_s") -> float:
    """Seconds of work over all sessions: each counts from its beginning to its last line that has such a key."""
    total = last = 0.0
    for line in lines:
        if line.get("session") == "began":
            total, last = total + last, 0.0
        if last_of in line:
            last = float(line["at_s"])
    return total + last
