"""One trial's life, phase by phase, each with a deadline and a place in the evidence.

A fresh volume and the ledger's socket; the checker first, which also keeps a tmpfs alive; then life after life of the
subject: start, drive to its place, fault, inspect; and a last inspection with the ledger drained. How a life gets to
its place is the driver's: a subject drives itself through a workload, or clients drive it. Whatever happens, everything
that was made is released.
"""

from __future__ import annotations

import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import faults
from lab.codec import to_json
from lab.engine.container import Container, Mount, Spec
from lab.engine.errors import DeadlinePassed, Interrupted, LabError
from lab.engine.stream import PROTOCOL, LineParser
from lab.model import CrashPoint, Evidence, Failure, Hit, Json, Look, Phase, Trial, Verdict, Word
from lab.storage import Volume
from lab.trial.checker import Checker, CheckerRaised
from lab.trial.judge import judge
from lab.trial.process import SubjectProcess, TrialEnded
from lab.trial.setting import Setting
from lab.trial.worker import Worker

CHECKER_MB = 256  # it keeps what its looks saw; a subject's volume is 64 MB at most, and usually some 100 kB


@dataclass(frozen=True)
class Outcome:
    """A finished trial: its evidence, its verdict, and what each look saw, if that was to be kept."""

    evidence: Evidence
    verdict: Verdict
    volumes: tuple[bytes | None, ...]  # gzipped tars, one a look; None of one that the checker did not keep


class TrialRun(ABC):
    """A trial while it lives; `run` is the story. A driver is one that knows how a life gets to its place."""

    asks_checker: ClassVar[bool] = True  # a census does not

    def __init__(self, trial: Trial, setting: Setting, worker: Worker, *, keep: bool = False) -> None:
        self.trial = trial
        self.setting = setting
        self.worker = worker
        self.subject = setting.subject
        self.deadlines = setting.subject.deadlines
        self.layer = worker.layers[trial.storage]
        self.name = f"lab-{setting.run}-{trial.ident}-{uuid.uuid4().hex[:6]}"
        self.processes: list[SubjectProcess] = []
        self.looks: list[Look] = []
        self.up_ms: list[float] = []
        self.changed = threading.Condition()  # of all streams of the subject: one wait may be for several of them
        self.diagnosis = ""
        self.starts = 0
        self._keep = keep  # leave containers and volume for a person to look into
        self._nonce = uuid.uuid4().hex[:16]
        self._began_s = time.monotonic()
        self._phases: list[Phase] = []
        self._ledger: Json = {"requests": [], "effects": []}
        self._failure: Failure | None = None
        self._checker: Checker | None = None
        self._volume: Volume | None = None
        self._mount: Json = {"filesystem": self.layer.filesystem}
        self._stack = ExitStack()

    def run(self, *, keep_evidence: bool) -> Outcome:
        """The whole trial. Raises Interrupted; every other failure is part of the evidence."""
        volumes: tuple[bytes | None, ...] = ()
        with self._stack:
            try:
                self._prepare()
                try:
                    self._live()
                except TrialEnded as end:
                    self._fail(end.word, end.what)
                except DeadlinePassed as error:
                    self._fail(Word.HANG, str(error))
                self.ended()
            except Interrupted:
                raise
            except Exception as error:  # noqa: BLE001 - whatever fails here is the lab's fault, and must be said
                self._fail(Word.ERROR, f"{type(error).__name__}: {error}")
            evidence = self._evidence()
            verdict = judge(evidence, self.setting.promised(self.trial.script), self.subject.verifier.audits)
            if self._checker is not None and (keep_evidence or verdict.word is not Word.PASS):
                volumes = self._copies(self._checker)
            if self._keep and self._volume is not None:
                self._start_keeper(self._volume)  # before the checker, the last to hold it, ends
            if self._checker is not None:
                self._checker.finish()  # it ends by itself while the others are removed: cheaper than a kill
        return Outcome(evidence, verdict, volumes)

    def _prepare(self) -> None:
        """Everything that outlives the subject's lives."""
        with self.phase("volume"):
            self._volume = self._stack.enter_context(self._fresh_volume())
            rules = self.setting.ledger_rules(self.trial.script)
            ledger = self.worker.ledger.trial(self.worker.client, self.name, rules, self.worker.labels)
            self._door = self._stack.enter_context(ledger)
        with self.phase("verifier"):
            # A census asks it nothing, but something must hold a tmpfs from the moment that it is filled.
            if self.asks_checker or self.layer.fill == "archive":
                self._checker = self._started_checker(self._volume)

    def _live(self) -> None:
        for point in self.points():
            process = self.start(point)
            if len(self.processes) == 1 and self._checker is not None and self.asks_checker:
                with self.phase("hello"):
                    self._checker.hello(self.deadlines.ready)
            hit = self.drive(process, point)
            if point is not None and hit is not None:
                with self.phase("kill"):
                    process.confirm_alive(hit)
                    process.struck_by(point.fault)
                    faults.find(point.fault).strike(faults.Site(process, self.held()))
                self.struck(process, hit)

    # What a driver knows.

    @abstractmethod
    def points(self) -> Iterator[CrashPoint | None]:
        """Where each life is to be struck; None lets it live. Asked for the next when a life has come to its end."""

    @abstractmethod
    def environment(self, life: int, point: CrashPoint | None, racer: int | None) -> Mapping[str, str]:
        """What the subject is told, beside the nonce, the ledger and the armed hook."""

    def mounts(self) -> Sequence[Mount]:
        """What the subject sees, beside its data and the ledger."""
        return ()

    @abstractmethod
    def drive(self, process: SubjectProcess, point: CrashPoint | None) -> Hit | None:
        """The place where it now is, to be struck; None if it lives to its end."""

    @abstractmethod
    def struck(self, process: SubjectProcess, hit: Hit) -> None:
        """It was killed there, and is gone."""

    @abstractmethod
    def ended(self) -> None:
        """The trial is over, well or not: what there is to inspect is inspected."""

    @abstractmethod
    def history(self) -> list[Json]:
        """What was said and seen so far."""

    # What it does with them.

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase of the evidence; one that fails has its time as well."""
        began_s, at = time.monotonic(), len(self._phases)
        self._phases.append(Phase(name, 1000 * (began_s - self._began_s), 0.0))
        try:
            yield
        finally:
            self._phases[at] = replace(self._phases[at], took_ms=1000 * (time.monotonic() - began_s))

    def start(self, point: CrashPoint | None, racer: int | None = None) -> SubjectProcess:
        """Start the next process of the subject: a life, or one of its racers."""
        assert self._volume is not None
        number = len(self.processes) + 1
        life = sum(process.seen.racer is None for process in self.processes) + 1
        table = self.subject.subject
        base = (table.race or ()) if racer is not None else table.run if life == 1 else table.recover
        armed = point.place if point is not None and not point.is_moment else None
        told = {"LAB_NONCE": self._nonce, "LAB_PROTOCOL": str(PROTOCOL), **self._door.environment}
        if armed:
            told["LAB_HOOK"] = armed
        told |= self.environment(life, point, racer)
        mounts = [Mount(self._volume.name, table.data), self._door.mount, *self.mounts()]
        command = self.subject.command(base, self.trial.bug)
        spec = self.spec(f"process-{number}", self.setting.subject_image, command, table.memory_mb)
        with self.phase("start" if number == 1 else "restart"):
            process = SubjectProcess(
                self.worker.client,
                replace(spec, environment=told, mounts=mounts),
                number=number,
                armed=armed,
                racer=racer,
                nonce=self._nonce,
                data=table.data,
                deadlines=self.deadlines,
                stop=self.worker.stop,
                changed=self.changed,
            )
            self.processes.append(process)
            if not self._keep:
                self._stack.callback(process.remove)
            if number == 1 and self.layer.fill == "archive":
                self.worker.client.api.put_archive(process.ident, table.data, self.setting.prepared.archive)
            process.start()
            self.starts += 1
        return process

    def look(self, name: str) -> None:
        """Ask the checker about the volume as it is now. `end` drains the ledger first."""
        if self._checker is None:
            return
        with self.phase(f"look:{name}"):
            history = self.history()
            ledger = self.snapshot("drain" if name == "end" else "snapshot")
            request = {
                "workload": self.setting.told(self.trial.script),
                "prepared": self.setting.prepared.told,
                "history": history,
                "ledger": ledger,
            }
            try:
                look = self._checker.look(name, len(self.processes), request, self.deadlines.look)
            except CheckerRaised as error:  # the trial goes on: what each look sees is kept for a mended verifier
                self._fail(Word.ERROR, str(error))
                look = Look(name, len(self.processes), {})
            self.looks.append(replace(look, history=len(history), ledger=ledger))

    def snapshot(self, do: str = "snapshot") -> Json:
        """The trial's effects and requests so far, as the ledger has them."""
        self._ledger = dict(self.worker.ledger.request({"do": do, "trial": self.name})["ledger"])
        return self._ledger

    def got_up(self, at_s: float, process: SubjectProcess) -> None:
        """A process stood at its barrier, or gave its first answer, at that monotonic time."""
        self.up_ms.append(1000 * (at_s - process.started_s))

    def held(self) -> Volume:
        """The volume that the subject's data lies on."""
        assert self._volume is not None
        return self._volume

    def spec(self, role: str, image: str, command: tuple[str, ...], memory_mb: int, tmp_mb: int = 16) -> Spec:
        """A container of this trial, as the subject's user."""
        spec = self.worker.spec(self.name, role, self.subject.subject.uid, image, command)
        return replace(spec, memory_mb=memory_mb, tmp_mb=tmp_mb)

    # What it stands on.

    @contextmanager
    def _fresh_volume(self) -> Iterator[Volume]:
        volume = self.layer.fresh(self.name)
        self._mount = to_json(volume.expected)
        try:
            yield volume
        finally:
            if not self._keep:
                self.layer.destroy(volume)

    def _started_checker(self, volume: Volume) -> Checker:
        data = self.subject.subject.data
        spec = self.spec("verifier", self.setting.verifier_image, self.subject.verifier.command, CHECKER_MB, tmp_mb=64)
        spec = replace(spec, environment={"LAB_DATA": data}, mounts=[Mount(volume.name, data, read_only=True)])
        checker = Checker(self.worker.client, spec, self.worker.stop)
        if not self._keep:
            self._stack.callback(checker.remove)
        checker.start()
        self.starts += 1
        return checker

    def _start_keeper(self, volume: Volume) -> None:
        """A container that holds the volume and waits for a person; without one, a tmpfs and a loop device would go."""
        spec = self.spec("keeper", self.worker.keeper_image, ("sleep", "infinity"), memory_mb=64)
        mounts = [Mount(volume.name, self.subject.subject.data)]
        Container(self.worker.client, replace(spec, mounts=mounts), LineParser()).start()

    # What it leaves.

    def _copies(self, checker: Checker) -> tuple[bytes | None, ...]:
        """What each look saw, for `lab verify`; none if the checker cannot say."""
        try:
            return tuple(checker.copy(n, self.deadlines.look) for n in range(1, len(self.looks) + 1))
        except LabError:
            return ()

    def _evidence(self) -> Evidence:
        for process in self.processes:
            process.note_log()
        return Evidence(
            trial=self.trial,
            nonce=self._nonce,
            mount=self._mount,
            phases=tuple(self._phases),
            processes=tuple(p.seen for p in self.processes),
            looks=tuple(self.looks),
            history=tuple(self.history()),
            ledger=self._ledger,
            verifier=self._checker.version if self._checker else "",
            starts=self.starts,
            up_ms=tuple(self.up_ms),
            failure=self._failure,
            diagnosis=self.diagnosis,
        )

    def _fail(self, word: Word, what: str) -> None:
        if self._failure is None:  # what comes after the first is its consequence
            # Of no phase yet, the first that any trial has.
            self._failure = Failure(word, self._phases[-1].name if self._phases else "volume", what)
