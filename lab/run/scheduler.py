"""Runs trials on a pool of workers: evidence first, then the journal, then a violation again; canaries until caught.

Knows nothing of how a trial came about, nor of how a result is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from lab.engine.errors import LabError
from lab.model import Kind, Reproduced, Result, Trial, Verdict, Word
from lab.run.pool import Pool
from lab.run.record import Record, evidence_folder
from lab.trial import run_trial
from lab.trial.judge import in_brief
from lab.trial.setting import Setting
from lab.trial.worker import Worker

MAX_ERRORS_IN_A_ROW = 12  # three for each of four workers: the engine is gone, and going on would only say so again
REPLAYS = 3  # of a violation, until it comes again: clients side by side need not meet the same way twice

Group = tuple[Trial, ...]  # run one after the other, until a canary among them is caught
Catches = Callable[[Trial, Verdict], bool]


@dataclass(frozen=True)
class Order:
    """What is run, and what becomes of it."""

    setting: Setting
    record: Record
    keep_evidence: bool  # of every trial, not only of those that failed
    catches: Catches  # whether a canary's verdict is the one that its planted bug must get


def run_groups(groups: Iterable[Group], order: Order, pool: Pool) -> Generator[Result, None, None]:
    """Run every trial that the journal does not have yet; each result is on disk before it is yielded.

    Raises LabError if one trial after the other ends in an error: then it is not the trials.
    """
    done = {r.trial.ident: r for r in order.record.results()}
    errors = 0
    with closing(pool.each(_left(groups, done, order.catches), lambda w, g: list(_run(w, g, done, order)))) as finished:
        for results in finished:
            for result in results:
                errors = errors + 1 if result.verdict.word is Word.ERROR else 0
                yield result
            if errors >= MAX_ERRORS_IN_A_ROW:
                raise _given_up(errors, results[-1].verdict.why, order.record)


def planned(trials: Sequence[Trial]) -> Iterator[Group]:
    """The groups of a plan: all tries of one canary on one layer, then every other trial by itself."""
    canaries: dict[tuple[str | None, str, str], list[Trial]] = {}
    for trial in trials:
        if trial.kind is Kind.CANARY:
            canaries.setdefault((trial.bug, trial.storage, trial.faults), []).append(trial)
    yield from (tuple(tries) for tries in canaries.values())
    yield from ((trial,) for trial in trials if trial.kind is not Kind.CANARY)


def _left(groups: Iterable[Group], done: dict[int, Result], catches: Catches) -> Iterator[Group]:
    """What has no result yet, of groups in which no canary has been caught."""
    for group in groups:
        caught = any(t.kind is Kind.CANARY and t.ident in done and catches(t, done[t.ident].verdict) for t in group)
        rest = tuple(t for t in group if t.ident not in done or _owes_replays(done[t.ident]))
        if rest and not caught:
            yield rest


def _owes_replays(result: Result) -> bool:
    """Whether it is a violation that was not run again: the lab was stopped in between."""
    violated = result.verdict.word is Word.VIOLATION and result.trial.kind is not Kind.CANARY
    return violated and result.reproduced is None


def _run(worker: Worker, group: Group, done: dict[int, Result], order: Order) -> Iterator[Result]:
    for trial in group:
        if trial.ident in done:
            order.record.reproduced(trial.ident, _run_again(trial, done[trial.ident].verdict, worker, order))
            continue
        outcome = run_trial(trial, order.setting, worker, keep_evidence=order.keep_evidence)
        verdict = outcome.verdict
        kept = None
        if order.keep_evidence or (verdict.word is not Word.PASS and trial.kind is not Kind.CANARY):
            kept = evidence_folder(trial)
            order.record.write_evidence(kept, outcome, verdict)
        result = in_brief(outcome.evidence, verdict, kept)
        order.record.finished(result)
        yield result
        if _owes_replays(result):
            order.record.reproduced(trial.ident, _run_again(trial, verdict, worker, order))
        if trial.kind is Kind.CANARY and order.catches(trial, verdict):
            return


def _run_again(trial: Trial, broke: Verdict, worker: Worker, order: Order) -> Reproduced:
    """A violation is proven by its own evidence, which is on disk by now; how often it comes again stands beside it."""
    for number in range(1, REPLAYS + 1):
        again = run_trial(trial, order.setting, worker, keep_evidence=True)
        order.record.write_evidence(f"{evidence_folder(trial)}/replay-{number}", again, again.verdict)
        if breaks(again.verdict, broke.property):
            return Reproduced(1, number)
    return Reproduced(0, REPLAYS)


def breaks(verdict: Verdict, prop: str) -> bool:
    """Whether a trial broke this promise, perhaps among others."""
    return verdict.word is Word.VIOLATION and prop in verdict.broken


def _given_up(errors: int, why: str, record: Record) -> LabError:
    """Why a run ends early: the engine is gone, or every look of a verifier fails."""
    if why.startswith("look:"):
        return LabError(
            f"your verifier raised in {errors} trials in a row; the last: {why}",
            f"Mend it: `lab verify {record.path.name}` then judges again what was kept, which is everything it saw.",
        )
    return LabError(
        f"{errors} trials in a row ended in an error; the last: {why}",
        f"`lab doctor` looks at the engine. `lab resume {record.path.name}` goes on.",
    )
