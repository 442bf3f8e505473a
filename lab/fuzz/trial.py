"""One fuzz trial: a daemon on a fresh volume, driven by the clients' container, killed at the end of each of its lives.

Volumes; the verifier first, which also keeps a tmpfs alive; the clients; then life after life of the daemon, each in a
container of its own; the oracle's look at the end. Every wait has a deadline, and whatever was made is released.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import faults
from lab.engine.container import Mount, Spec
from lab.engine.errors import DeadlinePassed, Interrupted, LabError
from lab.engine.removal import discard_volume
from lab.engine.services import LABEL_ROLE
from lab.fuzz.clients import Clients
from lab.fuzz.diagnosis import diagnose
from lab.fuzz.model import FAULT, FuzzEvidence, FuzzTrial, Kill, Life
from lab.fuzz.verdict import judge
from lab.model import Failure, Hit, Json, Look, Verdict, Word, to_json
from lab.storage import Volume
from lab.subject.load import Subject
from lab.trial.checker import Verifier
from lab.trial.process import SubjectProcess, TrialEnded
from lab.trial.timing import Phases
from lab.trial.worker import Worker

FRONT = "/front"  # where the daemon's socket lies, in its own container and in the clients'
SOCKET = f"{FRONT}/daemon.sock"
FIRST_ANSWER = f"its first answer on {SOCKET} (LAB_SOCKET)"
FRONT_OPTIONS = "size=1m,uid={uid},gid={uid},mode=0700"
REFUSED = 75  # EX_TEMPFAIL: the home is in use
VERIFIER_MB = 256
CLIENTS_MB = 96
GONE_S = 10.0  # for the clients to say that they wait for nothing more
CHECK_S = 10.0  # beyond the daemon's own limits, to read everything back


@dataclass(frozen=True)
class FuzzSetting:
    """What all trials of a fuzz run share. Plain data."""

    run: str
    subject: Subject
    subject_image: str
    verifier_image: str
    clients_image: str


@dataclass(frozen=True)
class FuzzOutcome:
    """A finished trial: its evidence, its verdict, and the daemon's home as the oracle's look found it."""

    evidence: FuzzEvidence
    verdict: Verdict
    home: bytes | None  # a gzipped tar, if it was to be kept


def run_trial(trial: FuzzTrial, setting: FuzzSetting, worker: Worker, *, keep_evidence: bool) -> FuzzOutcome:
    """Run one trial to its verdict. Raises Interrupted; every other failure is part of the evidence."""
    return _Trial(trial, setting, worker).run(keep_evidence=keep_evidence)


class _Trial:
    """A trial while it lives. `run` and `_work` are the story; the rest are its phases."""

    def __init__(self, trial: FuzzTrial, setting: FuzzSetting, worker: Worker) -> None:
        self._trial = trial
        self._scenario = trial.scenario
        self._setting = setting
        self._worker = worker
        self._subject = setting.subject
        self._deadlines = setting.subject.deadlines
        self._layer = worker.layers[trial.storage]
        self._nonce = uuid.uuid4().hex[:16]
        self._name = f"lab-{setting.run}-{trial.ident}-{self._nonce[:6]}"
        self._changed = threading.Condition()
        self._phases = Phases()
        self._phase = self._phases.phase
        self._processes: list[SubjectProcess] = []
        self._kills: list[str] = []
        self._up_ms: list[float] = []
        self._look: Look | None = None
        self._failure: Failure | None = None
        self._diagnosis = ""
        self._starts = 0
        self._mount: Json = {"filesystem": self._layer.filesystem}
        self._volume: Volume | None = None
        self._clients: Clients | None = None
        self._verifier: Verifier | None = None

    def run(self, *, keep_evidence: bool) -> FuzzOutcome:
        home = None
        with ExitStack() as stack:
            try:
                self._prepare(stack)
                try:
                    self._work(stack)
                except TrialEnded as end:
                    self._fail(end.word, end.what)
                except DeadlinePassed as error:
                    self._fail(Word.HANG, str(error))
                self._judged()  # what was answered before a failure is evidence all the same
            except Interrupted:
                raise
            except Exception as error:  # noqa: BLE001 - whatever fails here is the lab's fault, and must be said
                self._fail(Word.ERROR, f"{type(error).__name__}: {error}")
            evidence = self._evidence()
            verdict = judge(evidence, self._subject.promises, self._subject.verifier.audits)
            if self._verifier is not None:
                if self._look is not None and (keep_evidence or verdict.word is not Word.PASS):
                    with contextlib.suppress(LabError):
                        home = self._verifier.copy(1, self._deadlines.look)
                self._verifier.finish()
        return FuzzOutcome(evidence, verdict, home)

    def _prepare(self, stack: ExitStack) -> None:
        """Everything that outlives the daemon's lives."""
        with self._phase("volume"):
            self._volume = self._layer.fresh(self._name)
            stack.callback(self._layer.destroy, self._volume)
            self._mount = to_json(self._volume.expected)
            self._front = self._front_volume()
            stack.callback(discard_volume, self._worker.client, self._front)
            rules = {"decline": [], "lose_reply": list(self._scenario.lost_replies)}
            self._door = stack.enter_context(
                self._worker.ledger.trial(self._worker.client, self._name, rules, self._worker.labels)
            )
        with self._phase("verifier"):
            data = self._subject.subject.data
            spec = self._spec("verifier", self._setting.verifier_image, self._subject.verifier.command, VERIFIER_MB)
            mounts = [Mount(self._volume.name, data, read_only=True)]
            spec = replace(spec, environment={"LAB_DATA": data}, mounts=mounts, tmp_mb=64)
            self._verifier = Verifier(self._worker.client, spec, self._worker.stop)
            stack.callback(self._verifier.remove)
            self._verifier.start()
        with self._phase("clients"):
            spec = self._spec("clients", self._setting.clients_image, ("clients",), CLIENTS_MB)
            spec = replace(spec, mounts=[Mount(self._front, FRONT, read_only=True)])
            self._clients = Clients(self._worker.client, spec, self._worker.stop, self._changed)
            stack.callback(self._clients.remove)
            self._clients.start(self._scenario)
            self._verifier.hello(self._deadlines.ready)
        self._starts += 2

    def _work(self, stack: ExitStack) -> None:
        assert self._clients is not None
        for number, life in enumerate(self._scenario.lives, 1):
            process = self._start(stack, number, life.kill)
            self._clients.begin(number)
            at = self._reached(process, life)
            if life.kill is None:
                self._settle(process)
                return
            with self._phase("kill"):
                self._strike(process, number, at)
        raise TrialEnded(Word.ERROR, "the scenario has no last life")

    # The phases, in the order of a life.

    def _start(self, stack: ExitStack, number: int, kill: Kill | None) -> SubjectProcess:
        assert self._volume is not None
        table = self._subject.subject
        command = self._subject.command(table.run if number == 1 else table.recover, self._trial.bug)
        armed = f"{kill.hook}#{kill.n}" if kill is not None and kill.at == "hook" else None
        environment = {"LAB_NONCE": self._nonce, **self._door.environment, "LAB_SOCKET": SOCKET}
        if armed:
            environment["LAB_HOOK"] = armed
        mounts = [
            Mount(self._volume.name, table.data),
            Mount(self._front, FRONT),
            self._door.mount,
        ]
        spec = self._spec(f"life-{number}", self._setting.subject_image, command, table.memory_mb)
        with self._phase("start" if number == 1 else "restart"):
            process = SubjectProcess(
                self._worker.client,
                replace(spec, environment=environment, mounts=mounts),
                number=number,
                armed=armed,
                nonce=self._nonce,
                data=table.data,
                deadlines=self._deadlines,
                stop=self._worker.stop,
                changed=self._changed,
            )
            self._processes.append(process)
            stack.callback(process.remove)
            process.start()
            self._starts += 1
        return process

    def _reached(self, process: SubjectProcess, life: Life) -> Hit | None:
        """Wait for the place of this life's kill, or for the end of its operations; None in the last life."""
        assert self._clients is not None
        history, kill, limits = self._clients.history, life.kill, self._scenario.limits
        if kill is not None and kill.at == "start":
            with self._phase("moment"):
                self._worker.stop.wait(max(0.0, process.started_s + kill.after_ms / 1000 - time.monotonic()))
            return Hit("start", kill.after_ms)

        def place() -> Hit | None:
            if process.hits:
                return process.hits[-1]
            for name, count in (("answer", history.answered), ("invoke", history.invoked)):
                if kill is not None and kill.at == name and count >= kill.n:
                    return Hit(name, kill.n)
            return Hit("end", 1) if "done" in history.seen else None

        with self._phase("up"):
            self._await(process, lambda: "up" in history.seen or place() is not None, limits.up_s, FIRST_ANSWER)
            if history.up_s is not None:
                self._up_ms.append(1000 * (history.up_s - process.started_s))
        with self._phase("operations"):
            longest_s = CHECK_S + (len(life.ops) + 1) * limits.timeout_ms / 1000
            self._await(process, lambda: place() is not None, longest_s, "its operations to end")
            if kill is not None and kill.after_ms:
                self._worker.stop.wait(kill.after_ms / 1000)
        return None if kill is None else place()

    def _await(self, process: SubjectProcess, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Until `done()`. A daemon that ends by itself, or that never gets up, has broken `recovers`."""
        assert self._clients is not None
        try:
            self._clients.wait(lambda: done() or process.ended, timeout_s, what)
        except DeadlinePassed as error:
            word = Word.HANG if "up" in self._clients.history.seen else self._word(process)
            raise TrialEnded(word, f"{error}{process.last_words()}") from error
        if trouble := self._clients.trouble():
            raise TrialEnded(Word.ERROR, trouble)
        if process.ended:
            self._ended_by_itself(process)

    def _ended_by_itself(self, process: SubjectProcess) -> None:
        code = process.wait_exit(self._deadlines.kill)
        if process.seen.oom_killed:
            raise TrialEnded(Word.INVALID, "its memory limit killed it")
        what = f"it ended by itself with exit code {code}{process.last_words()}"
        if code == REFUSED:
            self._diagnosis = self._diagnosed(process)
            what = f"it refused to start (exit code {REFUSED}): {self._diagnosis}"
        raise TrialEnded(self._word(process), f"life {process.seen.number}: {what}")

    def _word(self, process: SubjectProcess) -> Word:
        """What it means that a life failed: one that never got up on an empty volume has broken no promise yet."""
        assert self._clients is not None
        started = process.seen.number > 1 or "up" in self._clients.history.seen
        return Word.VIOLATION if started else Word.INVALID

    def _strike(self, process: SubjectProcess, number: int, at: Hit | None) -> None:
        assert self._clients is not None and self._volume is not None and at is not None
        process.confirm_alive(at)
        faults.find(FAULT).strike(faults.Site(process, self._volume))
        if not process.seen.killed:
            self._ended_by_itself(process)
        # Not by its hits: one that came between the end of the operations and the kill is not where it was struck.
        where = (
            f"hook {at}" if str(at) == process.seen.armed else f"start + {at.n} ms" if at.hook == "start" else str(at)
        )
        self._kills.append(where)
        if not self._clients.killed(number, where, GONE_S):
            raise TrialEnded(Word.ERROR, self._clients.trouble() or "the clients did not notice the kill")
        self._clients.note({"event": "ledger", "ledger": self._snapshot("snapshot")})

    def _settle(self, process: SubjectProcess) -> None:
        """The last life: until it is idle, and a check of all that is left."""
        assert self._clients is not None
        history = self._clients.history
        with self._phase("settle"):
            checked = {"check", "check-failed"}
            with self._changed:
                history.seen -= checked  # those of this life's beginning
            self._clients.settle()
            limit_s = self._scenario.limits.settle_s + CHECK_S
            self._await(process, lambda: bool(checked & history.seen), limit_s, "it to settle")
        process.confirm_alive(Hit("end", 1))

    def _judged(self) -> None:
        """The oracle's look at all that was said and seen."""
        assert self._clients is not None and self._verifier is not None
        with self._phase("look:end"):
            ledger = self._snapshot("drain")
            self._clients.note({"event": "ledger", "ledger": ledger})
            history = self._clients.lines()
            request = {
                "workload": to_json(self._scenario),
                "prepared": {},
                "history": history,
                "ledger": ledger,
            }
            look = self._verifier.look("end", len(self._processes), request, self._deadlines.look)
            self._look = replace(look, history=len(history), ledger=ledger)

    # What it stands on, and what it leaves.

    def _snapshot(self, do: str) -> Json:
        return dict(self._worker.ledger.request({"do": do, "trial": self._name})["ledger"])

    def _diagnosed(self, process: SubjectProcess) -> str:
        assert self._volume is not None
        return diagnose(
            self._worker.client,
            self._worker.keeper_image,
            self._volume.name,
            self._subject.subject.data,
            {**self._worker.labels, LABEL_ROLE: "diagnosis"},
            f"{self._name}-diagnosis",
            [dead.ident for dead in self._processes[:-1]],
            process.last_words().removeprefix("; last words: "),
            uid=self._subject.subject.uid,
        )

    def _front_volume(self) -> str:
        name = f"{self._name}-front"
        options = {
            "type": "tmpfs",
            "device": "tmpfs",
            "o": FRONT_OPTIONS.format(uid=self._subject.subject.uid),
        }
        self._worker.client.volumes.create(name, driver="local", driver_opts=options, labels=dict(self._worker.labels))
        return name

    def _spec(self, role: str, image: str, command: tuple[str, ...], memory_mb: int) -> Spec:
        uid = self._subject.subject.uid
        return Spec(
            image=image,
            command=command,
            name=f"{self._name}-{role}",
            labels={**self._worker.labels, LABEL_ROLE: role},
            user=f"{uid}:{uid}",
            network=f"container:{self._worker.holder}",
            memory_mb=memory_mb,
        )

    def _evidence(self) -> FuzzEvidence:
        for process in self._processes:
            process.note_log()
        return FuzzEvidence(
            trial=self._trial,
            nonce=self._nonce,
            mount=self._mount,
            phases=tuple(self._phases.seen),
            processes=tuple(p.seen for p in self._processes),
            kills=tuple(self._kills),
            look=self._look,
            history=self._clients.lines() if self._clients else (),
            verifier=self._verifier.version if self._verifier else "",
            up_ms=tuple(self._up_ms),
            starts=self._starts,
            failure=self._failure,
            diagnosis=self._diagnosis,
        )

    def _fail(self, word: Word, what: str) -> None:
        if self._failure is None:  # what comes after the first is its consequence
            self._failure = Failure(word, self._phases.last, what)
