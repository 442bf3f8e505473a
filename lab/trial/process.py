"""One process of a subject: a container that is started, watched to its hook, struck, and seen gone.

Keeps what was seen of it as a `Process` of the evidence; anything not seen stays `None` there, and makes the trial
invalid.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

import docker

from lab.engine.container import Container, HostProcess, Spec
from lab.engine.errors import DeadlinePassed
from lab.engine.stream import RecordParser
from lab.model import ANSWER, Hit, Json, Process, Word
from lab.subject.spec import Deadlines
from lab.text import last_words
from lab.trial.links import SIGKILLED

LAST_LINES = 6  # of a log, in a failure's one line


class TrialEnded(Exception):
    """The trial cannot go on; `word` and `what` become its failure."""

    def __init__(self, word: Word, what: str) -> None:
        super().__init__(what)
        self.word = word
        self.what = what


class SubjectProcess:
    """A subject's process in its container. Its container is removed by `remove`, whatever has happened."""

    def __init__(
        self,
        client: docker.DockerClient,
        spec: Spec,
        *,
        number: int,
        armed: str | None,
        racer: int | None = None,
        nonce: str,
        data: str,
        deadlines: Deadlines,
        stop: threading.Event,
        changed: threading.Condition | None = None,
    ) -> None:
        self._records = RecordParser(nonce)
        self._container = Container(client, spec, self._records, stop, changed)
        self._deadlines = deadlines
        self._data = data
        self._host: HostProcess | None = None
        self._hits_taken = 0
        self.seen = Process(number=number, command=tuple(spec.command), armed=armed, racer=racer)
        self.started_s = 0.0

    @property
    def ident(self) -> str:
        return self._container.ident

    @property
    def history(self) -> list[Json]:
        who = {"process": self.seen.number, **({"racer": self.seen.racer} if self.seen.racer is not None else {})}
        return [{**record, **who} for record in self._records.history]

    @property
    def hits(self) -> list[Hit]:
        return list(self._records.hits)

    @property
    def ended(self) -> bool:
        """All that it ever wrote has been read."""
        return self._container.stream.ended

    def start(self) -> None:
        self.started_s = time.monotonic()  # before the engine's part: it says that it has started when the process runs
        self._container.start()

    def wait_hit(self, timeout_s: float, what: str) -> Hit | None:
        """The next record at which it stands, or None if it has ended; one that outlives its deadline is a hang."""
        records = self._records
        there = self._waited(lambda: len(records.hits) > self._hits_taken or records.flooded, timeout_s, what)
        if there and not records.flooded:
            self._hits_taken = len(records.hits)
            return records.hits[-1]
        self.wait_exit(timeout_s)
        return None

    def wait_answer(self, n: int, timeout_s: float) -> Hit | None:
        """Its n-th acknowledgement, as the moment that it is, or None if it has ended before."""
        records = self._records
        done = self._waited(lambda: records.answers >= n or records.flooded, timeout_s, f"its answer {n}")
        if done and not records.flooded:
            return Hit(ANSWER, n)
        self.wait_exit(timeout_s)
        return None

    def confirm_alive(self, hit: Hit) -> None:
        """See that it runs, now: by the host's own process table where its pid is proven, else by the engine."""
        self._note(hit=hit)
        state = self._container.state()
        if not state.running:
            return
        self._host = HostProcess.of(self._container, state.pid)
        if self._host is None:
            self._note(alive="engine")
        elif self._host.alive():
            self._note(alive="psutil", mount=self._host.mount_line(self._data))

    def struck_by(self, fault: str) -> None:
        self._note(fault=fault)

    def kill(self) -> None:
        """Send SIGKILL. If it had ended by itself, nothing is noted: then it was not killed."""
        self._note(killed=self._container.kill())

    def wait_until_gone(self) -> None:
        """Wait until it is dead, gone from the process table, and everything it ever wrote has been read."""
        try:
            self._container.stream.wait_ended(self._deadlines.kill, "the killed process's output to end")
        except DeadlinePassed as error:
            raise TrialEnded(Word.HANG, str(error)) from error
        self._note_end()
        if self.seen.exit_code not in (None, SIGKILLED):
            self._note(killed=False, fault=None)  # the engine takes a kill of one that has just ended by itself
        if self._host is None:
            self._note(gone="engine")
        elif not self._host.alive():
            self._note(gone="psutil")

    def release(self) -> None:
        self._container.stream.send_line(b"go")

    def wait_exit(self, timeout_s: float) -> int:
        """Wait until it ends by itself; its exit code. A process that outlives its deadline is a hang."""
        self._waited(lambda: self._records.flooded, timeout_s, "it to end")
        if self._records.flooded:
            raise TrialEnded(Word.INVALID, "it wrote more records than the lab keeps: one for each step is enough")
        self._note_end()
        return -1 if self.seen.exit_code is None else self.seen.exit_code

    def last_words(self) -> str:
        """The end of its log and the message there, for a person."""
        lines = last_words(self._records.log.text(), LAST_LINES)
        return "; last words: " + " | ".join(lines) if lines else "; it printed nothing"

    def note_log(self) -> None:
        self._note(log=self._records.log.text())

    def remove(self) -> None:
        self._container.remove()

    def _waited(self, done: Callable[[], bool], timeout_s: float, what: str) -> bool:
        try:
            return self._container.stream.wait(done, timeout_s, what)
        except DeadlinePassed as error:
            rows = self._container.processes().replace("\n", " | ")
            raise TrialEnded(Word.HANG, f"{error}; its processes: {rows or 'none'}{self.last_words()}") from error

    def _note_end(self) -> None:
        """Its exit state, once the engine has it: its output may end a moment earlier."""
        state = self._container.state()
        if state.running:
            try:
                self._container.wait(self._deadlines.kill)
            except DeadlinePassed as error:
                raise TrialEnded(Word.HANG, str(error)) from error
            state = self._container.state()
        if not state.running:
            self._note(exit_code=state.exit_code, oom_killed=state.oom_killed)

    def _note(self, **seen: object) -> None:
        self.seen = dataclasses.replace(self.seen, **seen)  # type: ignore[arg-type]
