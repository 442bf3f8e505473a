"""How a report words things: numbers, times, points, differing facts, the line that replays a trial.

Pure functions from data to text. The console, HTML, Markdown and JUnit views share them, so that one thing is
called the same everywhere.
"""

from __future__ import annotations

import json
import re
from typing import Any

from lab.model import Json, Result, Trial, Verdict
from lab.report.data import LegInfo, RunData

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

HEADING_CHARS = 56  # of a block's first line, which must leave room for the trial's number and layer


def ident(trial: Trial) -> str:
    """A trial's number as it is shown and typed."""
    return f"{trial.ident:04d}"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 hook`, `1,200 hooks`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def duration(seconds: float) -> str:
    """`4.2 s`, `5 min 58 s`, `2 h 3 min`."""
    whole = round(seconds)
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(share: float) -> str:
    """A share as a percentage that is never rounded down: it is used for upper bounds."""
    digits = 1 if share >= 0.001 else 3
    scale = 10**digits
    return f"{-(-share * 100 * scale // 1) / scale:.{digits}f} %"


def points(trial: Trial) -> str:
    """What the plan does to a trial: `log.synced#4, then recovery.start#1`, or `a race of 8`."""
    said = ", then ".join(map(str, trial.points))
    race = f"a race of {trial.racers}" if trial.racers else ""
    return ", with ".join(part for part in (said, race) if part) or "no crash point"


def tags(result: Result) -> str:
    """What the subject said about the first place it was killed at: `class once, tool charge`."""
    return ", ".join(f"{k} {v}" for k, v in sorted(result.hits[0].tags.items())) if result.hits else ""


def value(data: Any) -> str:
    """An expected or found value on one line."""
    text = data if isinstance(data, str) else json.dumps(data, sort_keys=True, ensure_ascii=False, default=str)
    return printable(text)


def printable(text: str) -> str:
    """Without control characters, nor those that turn text around.

    A subject's last words may be anything; a terminal and XML must survive them.
    """
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, limit: int = 0) -> str:
    """Printable, its white space run together, and cut to `limit` characters if one is given."""
    line = " ".join(printable(text).split())
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"


def promise(data: RunData, verdict: Verdict, leg: LegInfo | None = None) -> str:
    """What was promised, from the subject's own file."""
    faults = data.promises.get(verdict.property, ()) if leg is None else leg.promised
    if leg is not None and verdict.property in data.audits:
        return f"nothing: {verdict.property} says whether it ran as asked, and it did not, so it counts for nothing"
    return f"{verdict.property} after {' or '.join(faults)}" if faults else f"{verdict.property}: by nobody"


def title(result: Result) -> str:
    """What a red trial is about: the property that was broken, or the reason in a line."""
    return result.verdict.property or one_line(result.verdict.why) or "no reason recorded"


def heading(data: RunData, result: Result) -> str:
    """The title of a red trial or a note; in a cells campaign its leg, and the property if that is another."""
    leg, name = data.leg(result.trial), result.verdict.property
    if leg is None:
        return title(result)
    return f"{leg.name}: {name}" if name not in ("", leg.cell) else leg.name


def promised(data: RunData, name: str) -> str:
    """After which faults a property holds by the subject's own word, and in which journal modes not."""
    if name in data.audits:
        return "no promise: a difference makes the trial invalid"
    mine = [leg for leg in data.legs if leg.cell == name and leg.offered]
    faults = ", ".join(data.promises.get(name, ()))
    without = [leg.journal_mode for leg in mine if not leg.promised]
    if not faults or (mine and len(without) == len(mine)):
        return "nothing: a loss is a note"
    return faults + (f"; nothing in {', '.join(without)}: a loss is a note" if without else "")


def details(data: RunData, result: Result) -> list[tuple[str, str]]:
    """A red trial in labelled lines, all that is needed to understand and to repeat it."""
    trial, verdict = result.trial, result.verdict
    known_tags = f"; {tags(result)}" if tags(result) else ""
    lines = [("point", f"{points(trial)}  (workload {trial.workload}{known_tags})")]
    leg = data.leg(trial)
    if leg is not None:
        lines.append(("cell", f"{leg.cell} in journal mode {leg.journal_mode} on {trial.storage}"))
        lines.append(("clause", leg.clause))
    if len(result.hits) < len(trial.points):
        lines.append(("killed at", ", then ".join(map(str, result.hits)) or "nothing: it was never killed"))
    if verdict.property:
        lines.append(("promised", promise(data, verdict, leg)))
    if others := [name for name in verdict.broken if name != verdict.property]:
        lines.append(("also broke", ", ".join(others)))
    if verdict.why and verdict.why != one_line(heading(data, result), HEADING_CHARS):  # there it may be cut
        lines.append(("why", one_line(verdict.why)))
    if verdict.differs:
        where = f"  (look: {verdict.look})" if verdict.look else ""
        lines += [
            ("fact", value(verdict.differs.fact) + where),
            ("expected", value(verdict.differs.expected)),
            ("found", value(verdict.differs.found)),
        ]
        if verdict.differs.why and verdict.differs.why != verdict.why:
            lines.append(("since", one_line(verdict.differs.why)))
    if result.evidence:
        lines.append(("evidence", f"{data.path / result.evidence}/"))
    return [*lines, ("seed", str(data.seed)), ("replay", f"lab replay {data.run} {ident(trial)}")]


def flat(tree: Json, prefix: str = "") -> list[tuple[str, str]]:
    """A tree of JSON data as (dotted name, value) rows, in the order it was written."""
    rows: list[tuple[str, str]] = []
    for key, entry in tree.items():
        if isinstance(entry, dict) and entry:
            rows += flat(entry, f"{prefix}{key}.")
        elif isinstance(entry, list) and all(isinstance(v, str | int | float) for v in entry):
            rows.append((prefix + key, ", ".join(map(str, entry))))
        else:
            rows.append((prefix + key, value(entry)))
    return rows
