"""Runs the trials of a plan on a crew: journal, evidence, the replay of a violation, canaries until they are caught.

Knows nothing of how a plan came about, nor of how a result is shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from lab.engine.errors import LabError
from lab.model import Hit, Kind, Result, Trial, Verdict, Word
from lab.run.pool import Crew
from lab.run.record import Record, evidence_folder
from lab.trial.judge import count_ledger
from lab.trial.life import Outcome, run_trial
from lab.trial.worker import Setting, Worker

MAX_ERRORS_IN_A_ROW = 12  # three for each of four workers: the engine is gone, and going on would only say so again
Catches = Callable[[Trial, Verdict], bool]


def run_plan(
    trials: Sequence[Trial],
    setting: Setting,
    crew: Crew,
    record: Record,
    *,
    keep_evidence: bool,
    catches: Catches,
) -> Generator[Result, None, None]:
    """Run every trial that the journal does not have yet; each result is on disk before it is yielded.

    `catches` says whether a canary's verdict is the one that its planted bug must get. Raises LabError if one trial
    after the other ends in an error: then it is not the trials.
    """
    done = {r.trial.ident: r for r in record.results()}
    writing = threading.Lock()

    def work(worker: Worker, group: tuple[Trial, ...]) -> list[Result]:
        return list(_run_group(group, setting, worker, record, writing, keep_evidence, catches))

    errors = 0
    with closing(crew.each(_groups(trials, done, catches), work)) as finished:
        for results in finished:
            for result in results:
                record.finished(result)
                errors = errors + 1 if result.verdict.word is Word.ERROR else 0
                yield result
            if errors >= MAX_ERRORS_IN_A_ROW:
                raise LabError(
                    f"{errors} trials in a row ended in an error; the last: {results[-1].verdict.why}",
                    f"`lab doctor` looks at the engine. `lab resume {record.path.name}` goes on.",
                )


def _groups(trials: Iterable[Trial], done: dict[int, Result], catches: Catches) -> Iterator[tuple[Trial, ...]]:
    """One trial, or all tries of one canary on one layer, which are run one after the other until one is caught."""
    canaries: dict[tuple[str | None, str], list[Trial]] = {}
    for trial in trials:
        if trial.kind is Kind.CANARY:
            canaries.setdefault((trial.bug, trial.storage), []).append(trial)
    for tries in canaries.values():
        if not any(t.ident in done and catches(t, done[t.ident].verdict) for t in tries):
            yield tuple(t for t in tries if t.ident not in done)
    for trial in trials:
        if trial.kind is not Kind.CANARY and trial.ident not in done:
            yield (trial,)


def _run_group(
    group: tuple[Trial, ...],
    setting: Setting,
    worker: Worker,
    record: Record,
    writing: threading.Lock,
    keep_evidence: bool,
    catches: Catches,
) -> Iterator[Result]:
    for trial in group:
        outcome = run_trial(trial, setting, worker, keep_evidence=keep_evidence)
        verdict = outcome.verdict
        if verdict.word is Word.VIOLATION and trial.kind is not Kind.CANARY:
            verdict = _replayed(outcome, setting, worker, record, writing)
        kept = None
        if keep_evidence or (verdict.word is not Word.PASS and trial.kind is not Kind.CANARY):
            kept = evidence_folder(trial)
            with writing:
                record.write_evidence(kept, outcome.evidence, verdict, outcome.volumes)
        yield in_brief(replace(outcome, verdict=verdict), kept)
        if trial.kind is Kind.CANARY and catches(trial, verdict):
            return


def _replayed(outcome: Outcome, setting: Setting, worker: Worker, record: Record, writing: threading.Lock) -> Verdict:
    """A violation is run once more by itself. The same property must break again, else it is `unreproduced`."""
    first = outcome.verdict
    again = run_trial(outcome.evidence.trial, setting, worker, keep_evidence=True)
    with writing:
        folder = f"{evidence_folder(outcome.evidence.trial)}/replay"
        record.write_evidence(folder, again.evidence, again.verdict, again.volumes)
    if again.verdict.word is Word.VIOLATION and again.verdict.property == first.property:
        return first
    return replace(first, word=Word.UNREPRODUCED, why=f"{first.why} (run again, it ended in: {again.verdict.word})")


def in_brief(outcome: Outcome, kept: str | None) -> Result:
    """A trial as one line of the journal."""
    evidence = outcome.evidence
    hits: tuple[Hit, ...] = tuple(p.hit for p in evidence.processes if p.killed and p.hit is not None)
    last = evidence.phases[-1] if evidence.phases else None
    return Result(
        trial=evidence.trial,
        verdict=outcome.verdict,
        hits=hits,
        recovery_ms=evidence.recovery_ms,
        starts=evidence.starts,
        took_s=(last.began_ms + last.took_ms) / 1000 if last else 0.0,
        counts=count_ledger(evidence.ledger),
        mount=evidence.looks[-1].mount if evidence.looks else "",
        verifier=evidence.verifier,
        evidence=kept,
    )
