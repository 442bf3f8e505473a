"""The verdict on a whole run in one word, one sentence and one exit code. Every report opens or ends with it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lab.model import Word
from lab.report import coverage
from lab.report.document import Headline, Owes, Report
from lab.report.failures import groups
from lab.report.text import duration, ident, plural
from lab.run.data import RunData

NOUNS = {"violation": "violations", "hang": "hangs", "error": "errors"}


def gaps(data: RunData, owes: Owes) -> tuple[str, ...]:
    """Why a run without a failure would still prove too little, one line a reason. An interrupted one owes nothing."""
    return () if data.interrupted else tuple(reason for lacks in owes for reason in lacks(data))


def headline(data: RunData, report: Report) -> Headline:
    """The first that applies: a broken promise stands whatever else failed, and whether or not the run was finished."""
    words = {r.verdict.word for r in data.failures}
    if Word.VIOLATION in words:
        return Headline("VIOLATION", _broken(data), 1, "bad")
    if data.interrupted:
        return Headline("INTERRUPTED", _interrupted(data), 130, "warn")
    if Word.ERROR in words:
        failed = f"the lab, the engine or the checker failed: {_red(data)} of {plural(len(data.points()), 'trial')}"
        return Headline("ERROR", f"{failed}, in {duration(data.took_s)}", 3, "bad")
    lacking, missed = gaps(data, report.owes), coverage.missed_canaries(data)
    if words or lacking or missed:
        return Headline("UNPROVEN" if words or missed else "NO-WORK", _unproven(data, lacking, missed), 2, "warn")
    part = report.partial(data)
    return Headline(f"PASS (partial: {part})" if part else "PASS", _passed(data, report.work(data)), 0, "good")


def _passed(data: RunData, work: str) -> str:
    lost = sum(len(r.verdict.notes) or r.verdict.word is Word.NOTE for r in data.points())
    refused = sum(not leg.offered for leg in data.legs)
    said = [
        work,
        "every promise held",
        plural(lost, "unpromised loss", "unpromised losses") if lost else "",
        f"{plural(refused, 'leg')} not offered" if refused else "",
        f"in {duration(data.took_s)}",
    ]
    shard = f"; a part of {data.whole:,} trials, `lab merge` judges the whole" if data.is_shard else ""
    return ", ".join(filter(None, said)) + shard


def _broken(data: RunData) -> str:
    of_trials = f"{_red(data)} of {plural(len(data.points()), 'trial')}"
    caught = [c.caught_by for c in coverage.canaries(data) if c.caught_by] if data.is_of_a_bug else []
    if caught:
        what = f"the planted bug was caught by trial {', '.join(ident(r.trial) for r in caught)}: {of_trials}"
    else:
        distinct = sum(group[0].verdict.word is Word.VIOLATION for group in groups(data))
        kinds = f" ({plural(distinct, 'kind')} of violation)" if len(data.failures) > 1 else ""
        what = f"a promise was broken: {of_trials}{kinds}"
    left = f"; interrupted, `lab resume {data.run}` finishes it" if data.interrupted else ""
    return f"{what}, in {duration(data.took_s)}{left}"


def _interrupted(data: RunData) -> str:
    red = f" ({_red(data)})" if data.failures else ""
    total = len(data.results) + len(coverage.unfinished(data))
    of = plural(len(data.results), "trial") if data.bounds else f"{len(data.results):,} of {plural(total, 'trial')}"
    return f"{of} done{red}; `lab resume {data.run}` finishes it"


def _unproven(data: RunData, lacking: Sequence[str], missed: Sequence[coverage.Canary]) -> str:
    planted = plural(len(coverage.canaries(data)), "planted bug")
    reasons = [_red(data), f"{len(missed)} of {planted} not caught" if missed else "", *lacking[:1]]
    return f"not enough evidence: {'; '.join(filter(None, reasons))}"


def _red(data: RunData) -> str:
    """`3 violations, 1 hang`, worst first."""
    counts = Counter(r.verdict.word.value for r in data.failures)
    return ", ".join(plural(count, word, NOUNS.get(word, word)) for word, count in counts.items())
