"""The verdict on a whole run in one word, one sentence and one exit code. Every report opens or ends with it. Pure."""

from __future__ import annotations

from collections import Counter

from lab.model import Word
from lab.report import coverage
from lab.report.document import Headline, Owes, Report
from lab.report.failures import groups
from lab.report.text import duration, plural
from lab.run.data import RunData

EXIT_PASS = 0
EXIT_BROKEN = 1
EXIT_NO_EVIDENCE = 2
EXIT_ERROR = 3
EXIT_INTERRUPTED = 130

NOUNS = {"violation": "violations", "hang": "hangs", "error": "errors"}


def gaps(data: RunData, owes: Owes) -> tuple[str, ...]:
    """Why a run without a failure would still prove too little, one line a reason. An interrupted one owes nothing."""
    return () if data.interrupted else tuple(reason for lacks in owes for reason in lacks(data))


def exit_code(data: RunData, owes: Owes) -> int:
    """The first that applies: a broken promise stands whatever else failed, and whether or not the run was finished."""
    words = {r.verdict.word for r in data.failures}
    if Word.VIOLATION in words:
        return EXIT_BROKEN
    if data.interrupted:
        return EXIT_INTERRUPTED
    if Word.ERROR in words:
        return EXIT_ERROR
    if words or gaps(data, owes) or coverage.missed_canaries(data):
        return EXIT_NO_EVIDENCE
    return EXIT_PASS


def headline(data: RunData, report: Report) -> Headline:
    """What to say first, or last."""
    code = exit_code(data, report.owes)
    say = {
        EXIT_PASS: _passed,
        EXIT_BROKEN: _broken,
        EXIT_ERROR: _failed,
        EXIT_INTERRUPTED: _interrupted,
        EXIT_NO_EVIDENCE: _unproven,
    }
    word, sentence = say[code](data, report)
    tone = {EXIT_PASS: "good", EXIT_BROKEN: "bad", EXIT_ERROR: "bad"}.get(code, "warn")
    return Headline(word, sentence, code, tone)  # type: ignore[arg-type]


def _passed(data: RunData, report: Report) -> tuple[str, str]:
    part = report.partial(data)
    lost = sum(len(r.verdict.notes) or r.verdict.word is Word.NOTE for r in data.points())
    refused = sum(not leg.offered for leg in data.legs)
    said = [
        report.work(data),
        "every promise held",
        plural(lost, "unpromised loss", "unpromised losses") if lost else "",
        f"{plural(refused, 'leg')} not offered" if refused else "",
        f"in {duration(data.took_s)}",
    ]
    shard = f"; a part of {data.whole:,} trials, `lab merge` judges the whole" if data.is_shard else ""
    return f"PASS (partial: {part})" if part else "PASS", ", ".join(filter(None, said)) + shard


def _broken(data: RunData, report: Report) -> tuple[str, str]:
    caught = [c.caught_by for c in coverage.canaries(data) if c.caught_by] if data.is_of_a_bug else []
    if caught:
        by = ", ".join(f"{result.trial.ident:04d}" for result in caught)
        what = f"the planted bug was caught by trial {by}: {_red(data)} of {plural(len(data.points()), 'trial')}"
    else:
        distinct = sum(group[0].verdict.word is Word.VIOLATION for group in groups(data))
        kinds = f" ({plural(distinct, 'kind')} of violation)" if len(data.failures) > 1 else ""
        what = f"a promise was broken: {_red(data)} of {plural(len(data.points()), 'trial')}{kinds}"
    left = f"; interrupted, `lab resume {data.run}` finishes it" if data.interrupted else ""
    return "VIOLATION", f"{what}, in {duration(data.took_s)}{left}"


def _failed(data: RunData, report: Report) -> tuple[str, str]:
    trials = plural(len(data.points()), "trial")
    return "ERROR", f"the lab, the engine or the checker failed: {_red(data)} of {trials}, in {duration(data.took_s)}"


def _interrupted(data: RunData, report: Report) -> tuple[str, str]:
    red = f" ({_red(data)})" if data.failures else ""
    total = len(data.results) + len(coverage.unfinished(data))
    of = plural(len(data.results), "trial") if data.bounds else f"{len(data.results):,} of {plural(total, 'trial')}"
    return "INTERRUPTED", f"{of} done{red}; `lab resume {data.run}` finishes it"


def _unproven(data: RunData, report: Report) -> tuple[str, str]:
    missed, planted = len(coverage.missed_canaries(data)), len(coverage.canaries(data))
    canaries = f"{missed} of {plural(planted, 'planted bug')} not caught" if missed else ""
    reasons = [part for part in (_red(data), canaries, *gaps(data, report.owes)[:1]) if part]
    return "UNPROVEN" if data.failures or missed else "NO-WORK", f"not enough evidence: {'; '.join(reasons)}"


def _red(data: RunData) -> str:
    """`3 violations, 1 hang`, worst first."""
    counts = Counter(r.verdict.word.value for r in data.failures)
    return ", ".join(plural(count, word, NOUNS.get(word, word)) for word, count in counts.items())
