"""The test cases of a run, for the test views of CI systems. Pure.

A CI system that reads nothing but these must not see green where `lab` exits with another code than 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.model import RECOVERS, Kind, Result, Trial, Word
from lab.report import coverage, legs
from lab.report.document import Case, Headline
from lab.report.failures import details, finding_line, note_line, place, title
from lab.report.text import ident, plural
from lab.run.data import GREEN, RunData, workload_of
from lab.text import one_line

SHOWN = 20  # red trials of one property, and notes


def trial_cases(data: RunData, storage: str) -> Sequence[Case]:
    """A test for each trial of a plan, finished or not, and for what is not offered."""
    finished = [r for r in data.ordered if r.trial.kind is not Kind.CANARY and r.trial.storage == storage]
    left = [t for t in coverage.unfinished(data) if t.kind is not Kind.CANARY and t.storage == storage]
    cases = [_trial(data, result) for result in finished]
    cases += [Case(_name(data, t), outcome="skipped", message="the run ended before this trial") for t in left]
    for leg in legs.refused(data):
        cases.append(Case(leg.name, outcome="skipped", message=f"{legs.NOT_OFFERED}: {leg.reason}"))
    return cases


def _trial(data: RunData, result: Result) -> Case:
    name, word = _name(data, result.trial), result.verdict.word
    if word in GREEN:
        noted = f"note: {one_line(result.verdict.why or title(data, result))}" if word is Word.NOTE else ""
        return Case(name, result.took_s, body=noted)
    message = f"{word}: {result.verdict.property or one_line(result.verdict.why) or 'no reason recorded'}"
    return _red(data, name, result.took_s, [result], message)


def _name(data: RunData, trial: Trial) -> str:
    kind = "" if trial.kind is Kind.POINT else f"{trial.kind} "
    leg, workload = data.leg(trial), workload_of(trial)
    of_leg = f"{leg.name} " if leg else ""
    of_workload = f"workload {workload}, " if workload is not None else ""
    return f"{ident(trial)} {kind}{of_leg}{place(trial)} ({of_workload}{trial.faults})"


def _red(data: RunData, name: str, took_s: float, red: Sequence[Result], message: str) -> Case:
    """What JUnit calls a failure is a broken assertion; an error is a test that could not say."""
    word = red[0].verdict.word
    blocks = ("\n".join(f"{label}: {line}" for label, line in details(data, result)) for result in red[:SHOWN])
    return Case(name, took_s, "failure" if word is Word.VIOLATION else "error", word, message, "\n\n".join(blocks))


def property_cases(data: RunData, storage: str) -> Sequence[Case]:
    """A test for each property over all trials, and one for trials that say nothing of any: of a run without a plan."""
    mine = data.points(storage)
    red = [r for r in data.failures if r.trial.storage == storage]
    took = sum(r.took_s for r in mine)
    notes = "\n".join([note_line(r, note) for r in mine for note in r.verdict.notes][:SHOWN])
    violations = [r for r in red if r.verdict.word is Word.VIOLATION]
    cases = []
    for name in dict.fromkeys((*data.promises, *data.audits, RECOVERS)):
        broke = [r for r in violations if name in (r.verdict.property, *r.verdict.broken)]
        cases.append(_over(data, f"{name} in {plural(len(mine), 'trial')}", took, broke))
    stopped = [r for r in red if r.verdict.word is not Word.VIOLATION]
    return [*cases, _over(data, "every trial ran to its end", took, stopped, notes)]


def _over(data: RunData, name: str, took_s: float, red: Sequence[Result], notes: str = "") -> Case:
    return _red(data, name, took_s, red, finding_line(red[0])) if red else Case(name, took_s, body=notes)


def canary_cases(data: RunData) -> Sequence[Case]:
    cases = []
    for canary in coverage.canaries(data):
        took = sum(r.took_s for r in canary.tries)
        if canary.caught_by:
            cases.append(Case(canary.name, took))
        elif data.interrupted:
            cases.append(Case(canary.name, took, "skipped", message="the run ended before it was caught"))
        else:
            tries = plural(len(canary.tries), "try", "tries")
            missed = f"planted bug not caught by {canary.bug.property} in {tries}"
            cases.append(Case(canary.name, took, "failure", "canary missed", missed, canary.bug.meaning))
    return cases


def evidence_case(headline: Headline, gaps: Sequence[str]) -> Case:
    name = "the run has seen what it must"
    return Case(name, 0.0, "error", "NO-WORK", headline.sentence, "\n".join(gaps)) if gaps else Case(name)
