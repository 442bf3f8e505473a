"""One trial's life, phase by phase, each with a deadline and a place in the evidence.

A fresh volume; the verifier first, which also keeps a tmpfs alive; process 1 to its crash point; the fault; a look; a
new container that recovers (and may be struck there, too); a look while it stands at its barrier; the resumed work to
its end; a last look with the ledger drained. Whatever happens, everything that was made is released.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace

import faults
from lab.engine.container import Container, Mount, Spec
from lab.engine.errors import DeadlinePassed, Interrupted, LabError
from lab.engine.services import LABEL_ROLE, Door
from lab.engine.stream import LineParser
from lab.model import ANSWER, CrashPoint, Evidence, Failure, Hit, Json, Kind, Look, Trial, Verdict, Word, to_json
from lab.storage import Volume
from lab.trial.checker import Verifier
from lab.trial.judge import judge
from lab.trial.process import SubjectProcess, TrialEnded
from lab.trial.timing import Phases
from lab.trial.worker import Setting, Worker

RACE_READY = "race.ready"  # the barrier of a subject's `race` command
VERIFIER_MB = 256  # it keeps what its looks saw; a subject's volume is 64 MB at most, and usually some 100 kB


@dataclass(frozen=True)
class Outcome:
    """A finished trial: its evidence, its verdict, and what each look saw, if that was to be kept."""

    evidence: Evidence
    verdict: Verdict
    volumes: tuple[bytes, ...]  # gzipped tars, one a look


def run_trial(
    trial: Trial, setting: Setting, worker: Worker, *, keep_evidence: bool, keep_containers: bool = False
) -> Outcome:
    """Run one trial to its verdict. Raises Interrupted; every other failure is part of the evidence."""
    return _Life(trial, setting, worker, keep=keep_containers).run(keep_evidence=keep_evidence)


def take_census(
    setting: Setting, worker: Worker, workload: int, storage: str, first: CrashPoint | None, *, moments: bool = False
) -> list[Hit]:
    """Every hit, in order, of a run without a fault; or of the recovery after a first crash point, up to the barrier.

    With `moments` its answers follow, each a moment to kill at. Raises LabError if the run does not come to its end.
    """
    points = (first,) if first else ()
    life = _Life(Trial(0, Kind.POINT, storage, workload, points), setting, worker, census=True)
    evidence = life.run(keep_evidence=False).evidence
    if evidence.failure is not None:
        where = f" after {first}" if first else ""
        raise LabError(f"the census of workload {workload} on {storage}{where} failed: {evidence.failure.what}")
    return [hit for hit in life.census_hits if moments or hit.hook != ANSWER]


class _Life:
    """A trial while it lives. `run` is the story; the rest are its phases."""

    def __init__(
        self, trial: Trial, setting: Setting, worker: Worker, *, census: bool = False, keep: bool = False
    ) -> None:
        self._trial = trial
        self._setting = setting
        self._worker = worker
        self._census = census
        self._keep = keep  # leave containers and volume for a person to look into
        self._subject = setting.subject
        self._deadlines = setting.subject.deadlines
        self._layer = worker.layers[trial.storage]
        self._nonce = uuid.uuid4().hex[:16]
        self._name = f"lab-{setting.run}-{trial.ident}-{self._nonce[:6]}"
        self._phases = Phases()
        self._phase = self._phases.phase
        self._processes: list[SubjectProcess] = []
        self._looks: list[Look] = []
        self._recovery_ms: list[float] = []
        self._ledger: Json = {"requests": [], "effects": []}
        self._failure: Failure | None = None
        self._starts = 0
        self._verifier: Verifier | None = None
        self._volume: Volume | None = None
        self._mount: Json = {"filesystem": self._layer.filesystem}
        self.census_hits: list[Hit] = []

    def run(self, *, keep_evidence: bool) -> Outcome:
        volumes: tuple[bytes, ...] = ()
        with ExitStack() as stack:
            try:
                self._work(stack)
            except TrialEnded as end:
                self._fail(end.word, end.what)
            except DeadlinePassed as error:
                self._fail(Word.HANG, str(error))
            except Interrupted:
                raise
            except Exception as error:  # noqa: BLE001 - whatever fails here is the lab's fault, and must be said
                self._fail(Word.ERROR, f"{type(error).__name__}: {error}")
            evidence = self._evidence()
            promises = self._setting.promises[self._trial.workload]
            verdict = judge(evidence, promises, self._subject.verifier.audits)
            if self._verifier is not None and (keep_evidence or verdict.word is not Word.PASS):
                volumes = self._copies()
            if self._keep and self._volume is not None:
                self._start_keeper(self._volume)  # before the verifier, the last to hold it, ends
            if self._verifier is not None:
                self._verifier.finish()  # it ends by itself while the others are removed: cheaper than a kill
        return Outcome(evidence, verdict, volumes)

    def _work(self, stack: ExitStack) -> None:
        with self._phase("volume"):
            volume = stack.enter_context(self._fresh_volume())
            door = stack.enter_context(self._ledger_door())
        with self._phase("verifier"):
            # A census asks it nothing, but something must hold a tmpfs from the moment that it is filled.
            needed = not self._census or self._layer.fill == "archive"
            verifier = stack.enter_context(self._started_verifier(volume)) if needed else None
        pending = list(self._trial.points)
        while True:
            point = pending.pop(0) if pending else None
            process = self._start(stack, volume, door, point)
            if process.seen.number == 1 and verifier is not None and not self._census:
                with self._phase("hello"):
                    verifier.hello(self._deadlines.ready)
            struck = self._reaches(process, point)
            if struck:
                self._strike(process, volume)
                self._look("killed", process)
            if process.seen.number == 1 and self._trial.racers and not self._census:
                self._race(stack, volume, door)
            elif not struck:
                break
        self._finish(process)

    # The phases, in the order of a trial.

    @contextmanager
    def _fresh_volume(self) -> Iterator[Volume]:
        self._volume = volume = self._layer.fresh(self._name)
        self._mount = to_json(volume.expected)
        try:
            yield volume
        finally:
            if not self._keep:
                self._layer.destroy(volume)

    def _ledger_door(self) -> AbstractContextManager[Door]:
        """The trial's own. A first crash while a request is on its way makes the ledger hold that request."""
        held = [p.occurrence for p in self._trial.points if p.process == 1 and p.hook == self._subject.ledger.hold_at]
        rules = {**self._setting.rules[self._trial.workload], "hold": held}
        return self._worker.ledger.trial(self._worker.client, self._name, rules, self._worker.labels)

    @contextmanager
    def _started_verifier(self, volume: Volume) -> Iterator[Verifier]:
        spec = self._spec(
            "verifier", self._setting.verifier_image, self._subject.verifier.command, VERIFIER_MB, tmp_mb=64
        )
        data = self._subject.subject.data
        spec = replace(spec, environment={"LAB_DATA": data}, mounts=[Mount(volume.name, data, read_only=True)])
        verifier = Verifier(self._worker.client, spec, self._worker.stop)
        self._verifier = verifier
        try:
            verifier.start()
            self._starts += 1
            yield verifier
        finally:
            if not self._keep:
                verifier.remove()

    def _start(
        self, stack: ExitStack, volume: Volume, door: Door, point: CrashPoint | None, racer: int | None = None
    ) -> SubjectProcess:
        number = len(self._processes) + 1
        table = self._subject.subject
        base = (table.race or ()) if racer is not None else table.run if number == 1 else table.recover
        command = self._subject.command(base, self._trial.bug)
        spec = self._spec(f"process-{number}", self._setting.subject_image, command, table.memory_mb)
        mounts = [Mount(volume.name, table.data), door.mount]
        spec = replace(spec, environment=self._environment(number, door, point, racer), mounts=mounts)
        with self._phase("start" if number == 1 else "restart"):
            process = SubjectProcess(
                self._worker.client,
                spec,
                number=number,
                armed=str(point) if point else None,
                racer=racer,
                nonce=self._nonce,
                data=table.data,
                deadlines=self._deadlines,
                stop=self._worker.stop,
            )
            self._processes.append(process)
            if not self._keep:
                stack.callback(process.remove)
            if number == 1 and self._layer.fill == "archive":
                self._worker.client.api.put_archive(process.ident, table.data, self._setting.prepared.archive)
            process.start()
            self._starts += 1
        return process

    def _environment(self, number: int, door: Door, point: CrashPoint | None, racer: int | None) -> dict[str, str]:
        environment = {
            "LAB_NONCE": self._nonce,
            "LAB_WORKLOAD": self._setting.workload_texts[self._trial.workload],
            **door.environment,
        }
        if racer is not None:
            return {**environment, "LAB_BARRIER": RACE_READY, "LAB_RACER": str(racer)}
        if point is not None and not point.is_moment:
            environment["LAB_HOOK"] = str(point)
        elif self._census and point is None:
            environment["LAB_CENSUS"] = "1"
        if number > 1 and not self._census:
            environment["LAB_BARRIER"] = self._subject.barrier
        return environment

    def _reaches(self, process: SubjectProcess, point: CrashPoint | None) -> bool:
        """True if it now stands at its armed hook; False at the barrier, or at its end if it was to get there."""
        recovering = process.seen.number > 1
        if self._census and point is None:
            self._end_census(process)
            return False
        with self._phase("recovery" if recovering else "hook"):
            limit_s = self._deadlines.recovery if recovering else self._deadlines.hook
            if point is None and not recovering:  # nothing is to stop it: what comes is a race, on what it leaves
                return self._ended_by_itself(process, limit_s)
            if point is not None and point.is_moment:
                hit = process.wait_answer(point.occurrence, limit_s)
            else:
                hit = process.wait_hit(limit_s, f"`{self._subject.barrier}`" if recovering else f"hook {point}")
            if hit is None:
                return self._ended_early(process, point)
            if recovering and hit.barrier and hit.hook == self._subject.barrier:
                self._recovery_ms.append(1000 * (time.monotonic() - process.started_s))
                return False
            if str(hit) != str(point):
                raise TrialEnded(Word.INVALID, f"it stands at {hit}, but {point} was armed")
            process.confirm_alive(hit)
            return True

    def _ended_by_itself(self, process: SubjectProcess, limit_s: float) -> bool:
        code = process.wait_exit(limit_s)
        if code != 0:
            raise TrialEnded(Word.INVALID, f"it ended with exit code {code}{process.last_words()}")
        return False

    def _race(self, stack: ExitStack, volume: Volume, door: Door) -> None:
        """Start every racer, release them at once when all stand at their barrier, and wait for each to end."""
        numbers = range(1, self._trial.racers + 1)
        racers = [self._start(stack, volume, door, None, racer=number) for number in numbers]
        with self._phase("race"):
            for racer in racers:
                hit = racer.wait_hit(self._deadlines.hook, f"racer {racer.seen.racer} to be ready")
                if hit is None or not hit.barrier or hit.hook != RACE_READY:
                    raise TrialEnded(Word.INVALID, f"racer {racer.seen.racer} never got ready{racer.last_words()}")
            for racer in racers:
                racer.release()
            for racer in racers:
                racer.wait_exit(self._deadlines.resume)

    def _ended_early(self, process: SubjectProcess, point: CrashPoint | None) -> bool:
        code = process.seen.exit_code
        if process.seen.number > 1:
            word = Word.VIOLATION if code != 0 else Word.INVALID
            raise TrialEnded(word, f"recovery ended with exit code {code} before its barrier{process.last_words()}")
        if self._trial.kind is Kind.PROBE and code == 0:
            return False
        raise TrialEnded(Word.INVALID, f"it ended with exit code {code} before {point}{process.last_words()}")

    def _strike(self, process: SubjectProcess, volume: Volume) -> None:
        with self._phase("kill"):
            faults.find(self._trial.fault).strike(faults.Site(process, volume))

    def _look(self, name: str, process: SubjectProcess) -> None:
        if self._verifier is None or self._census:
            return
        with self._phase(f"look:{name}"):
            answer = self._worker.ledger.request({"do": "drain" if name == "end" else "snapshot", "trial": self._name})
            self._ledger = answer["ledger"]
            history = self._history()
            request = {
                "workload": self._setting.workloads[self._trial.workload],
                "prepared": self._setting.prepared.told,
                "history": history,
                "ledger": self._ledger,
            }
            look = self._verifier.look(name, process.seen.number, request, self._deadlines.look)
            look = replace(look, history=len(history), ledger=self._ledger)
            self._looks.append(look)

    def _finish(self, process: SubjectProcess) -> None:
        """From the barrier to the end. A probe, which was never stopped, is at its end already."""
        if self._census:
            return
        if process.seen.number > 1:
            self._look("recovered", process)
            with self._phase("resume"):
                process.release()
                code = process.wait_exit(self._deadlines.resume)
            if code != 0:
                raise TrialEnded(Word.VIOLATION, f"the resumed work ended with exit code {code}{process.last_words()}")
        self._look("end", process)

    def _end_census(self, process: SubjectProcess) -> None:
        with self._phase("census"):
            code = process.wait_exit(self._deadlines.resume)
        if code != 0:
            raise TrialEnded(Word.INVALID, f"it ended with exit code {code}{process.last_words()}")
        answered = [str(record["op"]) for record in process.history if record["type"] == "ok"]
        self.census_hits = process.hits + [Hit(ANSWER, n, {"op": op}) for n, op in enumerate(answered, 1)]
        if process.seen.number > 1:
            names = [hit.hook for hit in self.census_hits]
            if self._subject.barrier not in names:
                raise TrialEnded(Word.INVALID, f"its recovery never hit {self._subject.barrier}")
            self.census_hits = self.census_hits[: names.index(self._subject.barrier) + 1]

    def _start_keeper(self, volume: Volume) -> None:
        """A container that holds the volume and waits for a person; without one, a tmpfs and a loop device would go."""
        data = self._subject.subject.data
        spec = self._spec("keeper", self._worker.keeper_image, ("sleep", "infinity"), memory_mb=64)
        Container(self._worker.client, replace(spec, mounts=[Mount(volume.name, data)]), LineParser()).start()

    # What it leaves.

    def _copies(self) -> tuple[bytes, ...]:
        """What each look saw, for `lab verify`; none if the verifier cannot say."""
        assert self._verifier is not None
        try:
            found = [self._verifier.copy(n, self._deadlines.look) for n in range(1, len(self._looks) + 1)]
        except LabError:
            return ()
        return tuple(copy for copy in found if copy is not None)

    def _history(self) -> list[Json]:
        """What every process has said so far, one after the other, and where it was killed."""
        lines: list[Json] = []
        for process in self._processes:
            lines += process.history
            seen = process.seen
            if seen.killed:
                lines.append({"process": seen.number, "died": True})
            elif seen.racer is not None and seen.exit_code is not None:
                lines.append({"process": seen.number, "racer": seen.racer, "exited": seen.exit_code})
        return lines

    def _evidence(self) -> Evidence:
        for process in self._processes:
            process.note_log()
        return Evidence(
            trial=self._trial,
            nonce=self._nonce,
            mount=self._mount,
            phases=tuple(self._phases.seen),
            processes=tuple(p.seen for p in self._processes),
            looks=tuple(self._looks),
            history=tuple(self._history()),
            ledger=self._ledger,
            verifier=self._verifier.version if self._verifier else "",
            starts=self._starts,
            recovery_ms=tuple(self._recovery_ms),
            failure=self._failure,
        )

    def _fail(self, word: Word, what: str) -> None:
        self._failure = Failure(word, self._phases.last, what)

    def _spec(self, role: str, image: str, command: tuple[str, ...], memory_mb: int, tmp_mb: int = 16) -> Spec:
        uid = self._subject.subject.uid
        return Spec(
            image=image,
            command=command,
            name=f"{self._name}-{role}",
            labels={**self._worker.labels, LABEL_ROLE: role},
            user=f"{uid}:{uid}",
            network=f"container:{self._worker.holder}",
            memory_mb=memory_mb,
            tmp_mb=tmp_mb,
        )
