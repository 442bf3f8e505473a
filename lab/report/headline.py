"""The verdict on a whole run in one word and one sentence. Every report opens or ends with it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lab.report.coverage import unfinished
from lab.report.data import RunData
from lab.report.summary import EXIT_BROKEN, EXIT_ERROR, EXIT_INTERRUPTED, EXIT_PASS, Summary
from lab.report.text import duration, percent, plural


@dataclass(frozen=True)
class Headline:
    """`PASS`, `VIOLATION`, `ERROR`, `UNPROVEN`, `NO-WORK` or `INTERRUPTED`, and what that means here."""

    word: str
    sentence: str


def headline(data: RunData, summary: Summary) -> Headline:
    """What to say first; it agrees with the exit code."""
    took = duration(summary.took_s)
    red = _red(data)
    if summary.exit_code == EXIT_PASS:
        notes = summary.verdicts["note"]
        said = f", {plural(notes, 'loss', 'losses')} that nobody promised to prevent" if notes else ""
        refused = len(summary.not_offered)
        said += f", {plural(refused, 'leg')} not offered" if refused else ""
        part = f"; a part of {data.whole:,} trials, `lab merge` judges the whole" if data.is_shard else ""
        return Headline("PASS", f"{plural(summary.kills, 'real kill')}, every promise held{said}, in {took}{part}")
    if summary.exit_code == EXIT_INTERRUPTED:
        total = len(data.results) + len(unfinished(data))
        done = f"{len(data.results):,} of {plural(total, 'trial')} done"
        return Headline("INTERRUPTED", f"{done}{f' ({red})' if red else ''}; `lab resume {data.run}` finishes it")
    if summary.exit_code == EXIT_BROKEN:
        return Headline("VIOLATION", f"a promise was broken: {red} of {plural(summary.trials, 'trial')}, in {took}")
    if summary.exit_code == EXIT_ERROR:
        return Headline("ERROR", f"the lab or the engine failed: {red} of {plural(summary.trials, 'trial')}, in {took}")
    missed = len(summary.canaries_missed)
    canaries = f"{missed} of {plural(summary.canaries_planted, 'canary', 'canaries')} missed" if missed else ""
    reasons = [part for part in (red, canaries, *summary.no_work[:1]) if part]
    return Headline("UNPROVEN" if red or missed else "NO-WORK", f"not enough evidence: {'; '.join(reasons)}")


def _red(data: RunData) -> str:
    """`3 violation, 1 hang`, worst first."""
    counts = Counter(r.verdict.word.value for r in data.failures())
    return ", ".join(f"{count:,} {word}" for word, count in counts.items())


def bound_sentence(summary: Summary) -> str:
    """The upper bound in words, with all it rests on."""
    if not summary.bound:
        return "none: no point was drawn at random"
    failed = f", {summary.bound.failed:,} of them failed" if summary.bound.failed else ""
    drawn = f"from {summary.bound.drawn:,} drawn at random per layer{failed}"
    return f"fewer than {percent(summary.bound.upper)} of the untried points fail (95 %, {drawn})"
