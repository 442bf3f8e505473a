"""A subject that drives itself: its hooks and answers say where it is, a barrier says that it has recovered.

Life 1 runs the workload to its crash point; each further one recovers up to its barrier, is looked at, is released, and
works on; a crash point may lie in its recovery or in the work behind it. The first life that is not struck comes to its
end. A census is the same without looks: its last life lists every hit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from lab.model import ANSWER, CrashPoint, CrashScript, Hit, Json, Kind, Trial, Word
from lab.trial.process import SubjectProcess, TrialEnded
from lab.trial.run import TrialRun
from lab.trial.setting import Setting
from lab.trial.worker import Worker

RACE_READY = "race.ready"  # the barrier of a subject's `race` command


class SelfDriven(TrialRun):
    """Drives the lives of a crash script."""

    def __init__(self, trial: Trial, setting: Setting, worker: Worker, *, keep: bool = False) -> None:
        super().__init__(trial, setting, worker, keep=keep)
        assert isinstance(trial.script, CrashScript)
        self._script = trial.script
        self._barrier = self.subject.barrier
        self._over = False  # a life came to its end, and no other follows

    def points(self) -> Iterator[CrashPoint | None]:
        if self._script.racers and not self._script.points:
            yield None  # life 1 works to its end, and the race is on what it leaves
        for point in self._script.points:
            if self._over:
                return
            yield point
        if not self._over:
            yield None

    def environment(self, life: int, point: CrashPoint | None, racer: int | None) -> Mapping[str, str]:
        told = {"LAB_WORKLOAD": self.setting.workload_texts[self._script.workload]}
        if racer is not None:
            return {**told, "LAB_BARRIER": RACE_READY, "LAB_RACER": str(racer)}
        return {**told, **({"LAB_BARRIER": self._barrier} if life > 1 else {})}

    def drive(self, process: SubjectProcess, point: CrashPoint | None) -> Hit | None:
        if process.seen.number == 1:
            hit = self._runs(process, point)
        else:
            hit = self._recovers(process, point) or self._works_on(process, point)
        self._over = hit is None and not (process.seen.number == 1 and self._script.racers)
        return hit

    def struck(self, process: SubjectProcess, hit: Hit) -> None:
        self.look("killed")
        if process.seen.number == 1 and self._script.racers:
            self._race()

    def ended(self) -> None:
        if self._over:
            self.look("end")

    def history(self) -> list[Json]:
        """What every process has said so far, one after the other, and where it was killed."""
        lines: list[Json] = []
        for process in self.processes:
            lines += process.history
            seen = process.seen
            if seen.killed:
                lines.append({"process": seen.number, "died": True})
            elif seen.racer is not None and seen.exit_code is not None:
                lines.append({"process": seen.number, "racer": seen.racer, "exited": seen.exit_code})
        return lines

    # The phases, in the order of a trial.

    def _runs(self, process: SubjectProcess, point: CrashPoint | None) -> Hit | None:
        """Life 1. Without a point nothing is to stop it: what comes is a race, on what it leaves."""
        with self.phase("hook"):
            hit = None
            if point is not None:
                hit = self._stood(process, point, self.deadlines.hook, f"hook {point}")
            if hit is not None:
                return hit
            code = process.wait_exit(self.deadlines.hook)
            if point is not None and not (self.trial.kind is Kind.PROBE and code == 0):
                raise TrialEnded(Word.INVALID, f"it ended with exit code {code} before {point}{process.last_words()}")
            if code != 0:
                raise TrialEnded(Word.INVALID, f"it ended with exit code {code}{process.last_words()}")
        if self._script.racers:
            self._race()
        return None

    def _recovers(self, process: SubjectProcess, point: CrashPoint | None) -> Hit | None:
        """A later life, up to its barrier, where it is looked at; or to its point, if that lies in the recovery."""
        with self.phase("recovery"):
            hit = process.wait_hit(self.deadlines.recovery, f"`{self._barrier}`")
            if hit is None:
                code = process.seen.exit_code
                word = Word.VIOLATION if code != 0 else Word.INVALID
                what = f"recovery ended with exit code {code} before its barrier{process.last_words()}"
                raise TrialEnded(word, what)
            if not (hit.barrier and hit.hook == self._barrier):
                return self._expected(hit, point)
            self.got_up(time.monotonic(), process)
        self.look("recovered")
        return None

    def _works_on(self, process: SubjectProcess, point: CrashPoint | None) -> Hit | None:
        """From the barrier to its end; or to its point, if that lies in the resumed work."""
        with self.phase("resume"):
            process.release()
            hit = None
            if point is not None:
                hit = self._stood(process, point, self.deadlines.resume, "the resumed work to end")
            if hit is not None:
                return hit
            code = process.wait_exit(self.deadlines.resume)
            if code != 0:
                what = f"the resumed work ended with exit code {code}{process.last_words()}"
                raise TrialEnded(Word.VIOLATION, what)
        return None

    def _stood(self, process: SubjectProcess, point: CrashPoint, limit_s: float, what: str) -> Hit | None:
        """The place of its point, once it is there; None if it has ended before."""
        if point.is_moment:
            return process.wait_answer(point.occurrence, limit_s)
        hit = process.wait_hit(limit_s, what)
        return None if hit is None else self._expected(hit, point)

    def _expected(self, hit: Hit, point: CrashPoint | None) -> Hit:
        if point is None or str(hit) != point.place:
            raise TrialEnded(Word.INVALID, f"it stands at {hit}, but {point or 'no hook'} was armed")
        return hit

    def _race(self) -> None:
        """Start every racer, release them at once when all stand at their barrier, and wait for each to end."""
        racers = [self.start(None, racer) for racer in range(1, self._script.racers + 1)]
        with self.phase("race"):
            for process in racers:
                hit = process.wait_hit(self.deadlines.hook, f"racer {process.seen.racer} to be ready")
                if hit is None or not hit.barrier or hit.hook != RACE_READY:
                    raise TrialEnded(Word.INVALID, f"racer {process.seen.racer} never got ready{process.last_words()}")
            for process in racers:
                process.release()
            for process in racers:
                process.wait_exit(self.deadlines.resume)


class CensusTaker(SelfDriven):
    """Lists every hit, in order, of a run without a fault; or of the life that follows a first crash point."""

    asks_checker = False

    def __init__(self, trial: Trial, setting: Setting, worker: Worker) -> None:
        super().__init__(trial, setting, worker)
        self.hits: list[Hit] = []

    def environment(self, life: int, point: CrashPoint | None, racer: int | None) -> Mapping[str, str]:
        told = {"LAB_WORKLOAD": self.setting.workload_texts[self._script.workload]}
        return {**told, **({"LAB_CENSUS": "1"} if point is None else {})}

    def drive(self, process: SubjectProcess, point: CrashPoint | None) -> Hit | None:
        if point is not None:
            return super().drive(process, point)
        with self.phase("census"):
            code = process.wait_exit(self.deadlines.resume)
        recovers = process.seen.number > 1
        if code != 0:
            word = Word.VIOLATION if recovers else Word.INVALID
            raise TrialEnded(word, f"it ended with exit code {code}{process.last_words()}")
        answered = [str(record["op"]) for record in process.history if record["type"] == "ok"]
        self.hits = process.hits + [Hit(ANSWER, n, {"op": op}) for n, op in enumerate(answered, 1)]
        if recovers and self._barrier not in {hit.hook for hit in self.hits}:
            raise TrialEnded(Word.INVALID, f"its recovery never hit {self._barrier}")
        self._over = True
        return None

    def struck(self, process: SubjectProcess, hit: Hit) -> None:
        """Nothing is looked at in a census."""

    def ended(self) -> None:
        """Nothing is looked at in a census."""
