"""Runs the trials of a fuzz run on a crew: journal, evidence, replays of a violation, canaries until caught; shrinks.

Knows nothing of how a trial came about, nor of how a result is shown.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from lab.engine.errors import LabError
from lab.fuzz.model import FuzzEvidence, FuzzResult, FuzzTrial, Scenario
from lab.fuzz.store import folder_of, results, write_evidence
from lab.fuzz.trial import FuzzOutcome, FuzzSetting, run_trial
from lab.fuzz.verdict import in_brief, unnoted
from lab.model import Kind, Verdict, Word, catches
from lab.plan.shrink import Shrunk, shrink
from lab.run.pool import Crew
from lab.run.record import Record
from lab.trial.worker import Worker

REPLAYS = 3  # of a violation, until it comes again: three clients side by side need not meet the same way twice
MAX_ERRORS_IN_A_ROW = 12  # three for each of four workers: the engine is gone, and going on would only say so again
MAX_CANDIDATES = 400  # of one shrinking; its time is bounded as well


def run_groups(
    groups: Iterable[tuple[FuzzTrial, ...]], setting: FuzzSetting, crew: Crew, record: Record, *, keep_evidence: bool
) -> Generator[FuzzResult, None, None]:
    """Run every trial that the journal does not have yet; each result is on disk before it is yielded.

    Raises LabError if one trial after the other ends in an error: then it is not the trials.
    """
    done = {r.trial.ident: r for r in results(record)}
    writing = threading.Lock()
    runner = _Runner(setting, record, writing, keep_evidence)

    def left() -> Iterator[tuple[FuzzTrial, ...]]:
        for group in groups:
            if not any(t.ident in done and runner.caught(t, done[t.ident].verdict) for t in group):
                rest = tuple(t for t in group if t.ident not in done)
                if rest:
                    yield rest

    errors = 0
    with closing(crew.each(left(), lambda worker, group: list(runner.run(worker, group)))) as finished:
        for found in finished:
            for result in found:
                record.finished(result)
                errors = errors + 1 if result.verdict.word is Word.ERROR else 0
                yield result
            if errors >= MAX_ERRORS_IN_A_ROW:
                raise LabError(
                    f"{errors} trials in a row ended in an error; the last: {found[-1].verdict.why}",
                    f"`lab doctor` looks at the engine. `lab resume {record.path.name}` goes on.",
                )


class _Runner:
    """One group of trials after the other, on whatever worker asks."""

    def __init__(self, setting: FuzzSetting, record: Record, writing: threading.Lock, keep_evidence: bool) -> None:
        self._setting = setting
        self._record = record
        self._writing = writing
        self._keep = keep_evidence
        self._unnoted = unnoted(setting.subject.promises, setting.subject.verifier.audits)
        self._properties = {bug.name: bug.property for bug in setting.subject.bugs}

    def caught(self, trial: FuzzTrial, verdict: Verdict) -> bool:
        """Whether a canary's verdict is the one that its planted bug must get."""
        return trial.kind is Kind.CANARY and catches(verdict, self._properties.get(trial.bug or "", ""))

    def run(self, worker: Worker, group: tuple[FuzzTrial, ...]) -> Iterator[FuzzResult]:
        for trial in group:
            outcome = run_trial(trial, self._setting, worker, keep_evidence=self._keep)
            verdict = outcome.verdict
            if verdict.word is Word.VIOLATION and trial.kind is not Kind.CANARY:
                verdict = self._replayed(outcome, worker)
            kept = None
            if self._keep or (verdict.word is not Word.PASS and trial.kind is not Kind.CANARY):
                kept = folder_of(trial)
                self._write(kept, outcome, verdict)
            yield in_brief(outcome.evidence, verdict, self._unnoted, kept)
            if self.caught(trial, verdict):
                return

    def _replayed(self, outcome: FuzzOutcome, worker: Worker) -> Verdict:
        """A violation is run again. The same property must break again, else it is `unreproduced`."""
        first, trial = outcome.verdict, outcome.evidence.trial
        for number in range(1, REPLAYS + 1):
            again = run_trial(trial, self._setting, worker, keep_evidence=True)
            self._write(f"{folder_of(trial)}/replay-{number}", again, again.verdict)
            if breaks(again.verdict, first.property):
                return first
        why = f"{first.why} (run again {REPLAYS} times, it did not come again)"
        return replace(first, word=Word.UNREPRODUCED, why=why)

    def _write(self, folder: str, outcome: FuzzOutcome, verdict: Verdict) -> None:
        with self._writing:
            write_evidence(self._record, folder, outcome.evidence, verdict, outcome.home)


def breaks(verdict: Verdict, prop: str) -> bool:
    """Whether a trial broke this promise, perhaps among others."""
    return verdict.word is Word.VIOLATION and prop in verdict.broken


def shrunk(evidence: FuzzEvidence, prop: str, setting: FuzzSetting, crew: Crew, seconds: float) -> Shrunk:
    """The shortest scenario found within so many seconds that breaks the promise `prop` on the same layer."""
    trial = evidence.trial
    until_s = time.monotonic() + seconds

    def fails(candidates: Sequence[Scenario]) -> int | None:
        tasks = [(at, replace(trial, scenario=s)) for at, s in enumerate(candidates)]

        def attempt(worker: Worker, task: tuple[int, FuzzTrial]) -> tuple[int, Verdict]:
            return task[0], run_trial(task[1], setting, worker, keep_evidence=False).verdict

        broke = [at for at, found in crew.all(tasks, attempt) if breaks(found, prop)]
        return min(broke, default=None)

    return shrink(
        trial.scenario,
        fails,
        MAX_CANDIDATES,
        about=_step_of(evidence, prop),
        showed=_life_of(evidence, prop),
        order=[line["step"] for line in evidence.history if line["event"] == "invoke" and line["step"]],
        expired=lambda: time.monotonic() > until_s,
        at_once=crew.size,
    )


def _step_of(evidence: FuzzEvidence, prop: str) -> int | None:
    """The operation that the property's first difference names."""
    finding = evidence.look.properties.get(prop) if evidence.look else None
    found = re.match(r"step=(\d+) ", finding.differs.fact) if finding and finding.differs else None
    return int(found[1]) if found else None


def _life_of(evidence: FuzzEvidence, prop: str) -> int | None:
    """The life that most likely showed the break: the one a trial came to, or else the one after its operation's."""
    lives, step = evidence.trial.scenario.lives, _step_of(evidence, prop)
    if evidence.failure is not None:
        return len(evidence.processes)
    return next((n for n, life in enumerate(lives[:-1], 2) if any(op.step == step for op in life.ops)), None)
