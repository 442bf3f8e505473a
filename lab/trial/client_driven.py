"""A daemon that clients drive: life after life until the last one settles; every answer is kept, and judged at the end.

A life is struck at a hook, at a moment, or where its operations end, if that comes first. A daemon that ends by itself,
or never answers, has broken `recovers`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lab.engine.container import Mount
from lab.engine.errors import DeadlinePassed
from lab.engine.removal import discard_volume
from lab.engine.services import LABEL_ROLE
from lab.model import ANSWER, END, INVOKE, START, CrashPoint, Hit, Json, Life, Scenario, Trial, Word
from lab.trial.clients import Clients, History
from lab.trial.diagnosis import diagnose
from lab.trial.process import SubjectProcess, TrialEnded
from lab.trial.run import TrialRun
from lab.trial.setting import Setting
from lab.trial.worker import Worker

FRONT = "/front"  # where the daemon's socket lies, in its own container and in the clients'
SOCKET = f"{FRONT}/daemon.sock"
FIRST_ANSWER = f"its first answer on {SOCKET} (LAB_SOCKET)"
FRONT_OPTIONS = "size=1m,uid={uid},gid={uid},mode=0700"
REFUSED = 75  # EX_TEMPFAIL: the home is in use
CLIENTS_MB = 96
GONE_S = 10.0  # for the clients to say that they wait for nothing more
CHECK_S = 10.0  # beyond the daemon's own limits, to read everything back


class ClientDriven(TrialRun):
    """Drives the lives of a scenario."""

    _clients: Clients
    _life: Life

    def __init__(self, trial: Trial, setting: Setting, worker: Worker, *, keep: bool = False) -> None:
        super().__init__(trial, setting, worker, keep=keep)
        assert isinstance(trial.script, Scenario) and setting.clients_image is not None
        self._scenario = trial.script
        self._image = setting.clients_image
        self._front = f"{self.name}-front"
        self._history = History()

    def _prepare(self) -> None:
        super()._prepare()
        worker = self.worker
        options = {"type": "tmpfs", "device": "tmpfs", "o": FRONT_OPTIONS.format(uid=self.subject.subject.uid)}
        with self.phase("clients"):
            worker.client.volumes.create(self._front, driver="local", driver_opts=options, labels=dict(worker.labels))
            self._stack.callback(discard_volume, worker.client, self._front)
            spec = self.spec("clients", self._image, ("clients",), CLIENTS_MB)
            spec = replace(spec, mounts=[Mount(self._front, FRONT, read_only=True)])
            self._clients = Clients(worker.client, spec, worker.stop, self.changed, self._history)
            self._stack.callback(self._clients.remove)
            self._clients.start(self._scenario)
        self.starts += 1

    def points(self) -> Iterator[CrashPoint | None]:
        for life in self._scenario.lives:
            self._life = life
            yield life.kill

    def environment(self, life: int, point: CrashPoint | None, racer: int | None) -> Mapping[str, str]:
        return {"LAB_SOCKET": SOCKET}

    def mounts(self) -> Sequence[Mount]:
        return [Mount(self._front, FRONT)]

    def drive(self, process: SubjectProcess, point: CrashPoint | None) -> Hit | None:
        self._clients.begin(process.seen.number)
        hit = self._reached(process, self._life)
        if point is None:
            self._settle(process)
        return hit

    def struck(self, process: SubjectProcess, hit: Hit) -> None:
        if not process.seen.killed:
            self._ended_by_itself(process)
        if not self._clients.killed(process.seen.number, str(hit), GONE_S):
            raise TrialEnded(Word.ERROR, self._clients.trouble() or "the clients did not notice the kill")
        self._clients.note({"event": "ledger", "ledger": self.snapshot()})

    def ended(self) -> None:
        """What was answered before a failure is evidence all the same."""
        self._clients.note({"event": "ledger", "ledger": self.snapshot("drain")})
        self.look("end")

    def history(self) -> list[Json]:
        with self.changed:
            return list(self._history.lines)

    # The phases, in the order of a life.

    def _reached(self, process: SubjectProcess, life: Life) -> Hit | None:
        """Wait for the place of this life's kill, or for the end of its operations; None in the last life."""
        kill, limits = life.kill, self._scenario.limits
        if kill is not None and kill.hook == START:
            with self.phase("moment"):
                self.worker.stop.wait(max(0.0, process.started_s + kill.after_ms / 1000 - time.monotonic()))
            return Hit(START, kill.after_ms)

        def there() -> bool:
            return self._place(process, kill) is not None

        with self.phase("up"):
            self._await(process, lambda: "up" in self._history.seen or there(), limits.up_s, FIRST_ANSWER)
            if self._history.up_s is not None:
                self.got_up(self._history.up_s, process)
        with self.phase("operations"):
            longest_s = CHECK_S + (len(life.ops) + 1) * limits.timeout_ms / 1000
            self._await(process, there, longest_s, "its operations to end")
            if kill is not None and kill.after_ms:
                self.worker.stop.wait(kill.after_ms / 1000)
        return None if kill is None else self._place(process, kill)

    def _place(self, process: SubjectProcess, kill: CrashPoint | None) -> Hit | None:
        """Where this life is to be struck, once it has got there."""
        if process.hits:
            return process.hits[-1]
        for moment, count in ((ANSWER, self._history.answered), (INVOKE, self._history.invoked)):
            if kill is not None and kill.hook == moment and count >= kill.occurrence:
                return Hit(moment, kill.occurrence)
        return Hit(END, 1) if "done" in self._history.seen else None

    def _await(self, process: SubjectProcess, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Until `done()`. A daemon that ends by itself, or that never gets up, has broken `recovers`."""
        try:
            self._clients.wait(lambda: done() or process.ended, timeout_s, what)
        except DeadlinePassed as error:
            word = Word.HANG if "up" in self._history.seen else self._word(process)
            raise TrialEnded(word, f"{error}{process.last_words()}") from error
        if trouble := self._clients.trouble():
            raise TrialEnded(Word.ERROR, trouble)
        if process.ended:
            self._ended_by_itself(process)

    def _ended_by_itself(self, process: SubjectProcess) -> None:
        code = process.wait_exit(self.deadlines.kill)
        if process.seen.oom_killed:
            raise TrialEnded(Word.INVALID, "its memory limit killed it")
        what = f"it ended by itself with exit code {code}{process.last_words()}"
        if code == REFUSED:
            self.diagnosis = self._diagnosed(process)
            what = f"it refused to start (exit code {REFUSED}): {self.diagnosis}"
        raise TrialEnded(self._word(process), f"life {process.seen.number}: {what}")

    def _word(self, process: SubjectProcess) -> Word:
        """What it means that a life failed: one that never got up on an empty volume has broken no promise yet."""
        started = process.seen.number > 1 or "up" in self._history.seen
        return Word.VIOLATION if started else Word.INVALID

    def _settle(self, process: SubjectProcess) -> None:
        """The last life: until it is idle, and a check of all that is left."""
        with self.phase("settle"):
            checked = {"check", "check-failed"}
            with self.changed:
                self._history.seen -= checked  # those of this life's beginning
            self._clients.settle()
            limit_s = self._scenario.limits.settle_s + CHECK_S
            self._await(process, lambda: bool(checked & self._history.seen), limit_s, "it to settle")
        process.confirm_alive(Hit(END, 1))

    def _diagnosed(self, process: SubjectProcess) -> str:
        worker = self.worker
        return diagnose(
            worker.client,
            worker.keeper_image,
            self.held().name,
            self.subject.subject.data,
            {**worker.labels, LABEL_ROLE: "diagnosis"},
            f"{self.name}-diagnosis",
            [dead.ident for dead in self.processes[:-1]],
            process.last_words().removeprefix("; last words: "),
            uid=self.subject.subject.uid,
        )
