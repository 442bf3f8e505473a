"""Red trials and notes in words: where it was struck, what was promised, what was found, and how to repeat it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.model import RECOVERS, START, CrashScript, Hit, Kind, Result, Trial, Word
from lab.report import text
from lab.report.document import Failure
from lab.report.script import script_lines
from lab.report.text import ident, plural, value
from lab.report.timeline import Timeline
from lab.run.data import Reproducer, RunData, workload_of
from lab.text import one_line

TITLE_CHARS = 56  # of a block's first line, which must leave room for the trial's number and layer
VALUE_CHARS = 400  # of an expected or found value; the whole is in the evidence
COPIED = ("evidence", "replay", "script")  # lines that are to be copied, and so are never cut
SCRIPT_SHOWN = 40  # operations of a reproducer that is printed: a short one has about ten

# As a checker of clients begins each fact, and a note after its property.
_FACT = re.compile(r"(?:(?P<property>[\w-]+): )?step=(?P<step>\S+) op=(?P<op>[^\s:]+)[:\s]*(?P<rest>.*)$", re.DOTALL)


@dataclass(frozen=True)
class Said:
    """What differs, taken apart: the operation it names, if it names one, and the rest."""

    property: str
    step: str
    op: str
    what: str


def said(fact: str, prop: str = "", why: str = "") -> Said:
    """Of a fact and why it differs, or of a note, which has both in one."""
    match = _FACT.match(fact)
    step, op, what = match.group("step", "op", "rest") if match else ("", "", fact)
    name = (match and match["property"]) or prop
    return Said(name, step, op, ": ".join(filter(None, (name, what, why))))


def said_of(result: Result) -> Said:
    """What a trial is about that was not a plain pass."""
    verdict = result.verdict
    return said(verdict.differs.fact if verdict.differs else "", verdict.property, verdict.why)


def finding_line(result: Result) -> str:
    """`VIOLATION seed 7/12 step 41 queue/remove: …`, whole and on one line, as it is said when it is found."""
    found = said_of(result)
    step = f" step {found.step} {found.op}" if found.step else ""
    return one_line(f"{result.verdict.word.upper()} {place(result.trial)}{step}: {found.what or 'no reason recorded'}")


def note_line(result: Result, note: str) -> str:
    """`seed 7/12 step 12 chat/rename: …`: a loss that was not promised not to happen."""
    found = said(note)
    step = f" step {found.step} {found.op}" if found.step else ""
    return one_line(f"{place(result.trial)}{step}: {found.what}")


def note_kind(note: str) -> str:
    """What kind of loss it is: the operation, or the property of one that names none."""
    found = said(note)
    return found.op or found.property or note.partition(":")[0]


def place(trial: Trial) -> str:
    """What is done to a trial: `log.synced#4, then recovery.start#1`, `a race of 8`, `seed 7/12`."""
    if not isinstance(trial.script, CrashScript):
        return f"seed {trial.script.name}"
    points = ", then ".join(map(str, trial.kills))
    race = f"a race of {trial.script.racers}" if trial.script.racers else ""
    return ", with ".join(part for part in (points, race) if part) or "no crash point"


def struck_at(hit: Hit) -> str:
    """`log.synced#4`, `start + 20 ms`: of the moment after a start, the number is its time."""
    return f"{START} + {hit.n} ms" if hit.hook == START else str(hit)


def where(trial: Trial) -> str:
    return f"trial {ident(trial)} · {trial.storage} · {trial.faults}"


def about(trial: Trial) -> str:
    """A trial on one line: `canary ack-before-append: log.synced#4 (workload 7)`."""
    planted = " ".join(filter(None, ("" if trial.kind is Kind.POINT else trial.kind, trial.bug)))
    return one_line(f"{planted}: {setting(trial)}" if planted else setting(trial))


def setting(trial: Trial) -> str:
    """`log.synced#4 (workload 7)`, `seed 7/12`."""
    workload = workload_of(trial)
    return place(trial) if workload is None else f"{place(trial)} (workload {workload})"


def title(data: RunData, result: Result) -> str:
    """The property that was broken, or the reason in a line; of a trial with a leg the leg, and the property if that
    is another."""
    leg, name = data.leg(result.trial), result.verdict.property
    if leg is None:
        return name or one_line(result.verdict.why) or "no reason recorded"
    return f"{leg.name}: {name}" if name not in ("", leg.cell) else leg.name


def promise(data: RunData, result: Result) -> str:
    name, leg = result.verdict.property, data.leg(result.trial)
    if name in data.audits:
        return f"nothing: {name} says whether it ran as asked, and it did not, so it counts for nothing"
    if name == RECOVERS:
        return f"{RECOVERS}: it starts again after each kill, and recovers in time"
    faults = data.promises.get(name, ()) if leg is None else leg.promised
    return f"{name} after {' or '.join(faults)}" if faults else f"{name}: not promised"


def details(data: RunData, result: Result) -> list[tuple[str, str]]:
    trial, verdict = result.trial, result.verdict
    lines = _struck(result)
    if leg := data.leg(trial):
        lines += [("cell", f"{leg.cell} in journal mode {leg.journal_mode} on {trial.storage}"), ("clause", leg.clause)]
    if verdict.property:
        lines.append(("promised", promise(data, result)))
    if others := [name for name in verdict.broken if name != verdict.property]:
        lines.append(("also broke", ", ".join(others)))
    if verdict.why and verdict.why != one_line(title(data, result), TITLE_CHARS):  # there it may be cut
        lines.append(("why", verdict.why))
    if differs := verdict.differs:
        look = f"  (look: {verdict.look})" if verdict.look else ""
        lines += [
            ("fact", value(differs.fact) + look),
            ("expected", value(differs.expected)),
            ("found", value(differs.found)),
        ]
        if differs.why not in ("", verdict.why):
            lines.append(("since", differs.why))
    if result.reproduced:
        lines.append(("reproduced", f"{result.reproduced.again} of {plural(result.reproduced.of, 'time')}"))
    if result.evidence:
        lines.append(("evidence", f"{data.path / result.evidence}/"))
    found = data.reproducers.get(trial.ident)
    if found and found.is_shorter:
        lines += [("shrunk", shrunk(found)), ("script", f"lab replay {found.path}")]
    lines += [("seed", str(data.seed)), ("replay", f"lab replay {data.run} {ident(trial)}")]
    return [(label, one_line(line, 0 if label in COPIED else VALUE_CHARS)) for label, line in lines]


def _struck(result: Result) -> list[tuple[str, str]]:
    trial, hits = result.trial, ", then ".join(map(struck_at, result.hits))
    if not isinstance(trial.script, CrashScript):
        struck = f"killed at {hits}" if hits else "never killed"
        return [("scenario", f"{place(trial)}: {plural(result.operations, 'operation')} sent, {struck}")]
    tags = "".join(f"; {k} {v}" for k, v in sorted(result.hits[0].tags.items())) if result.hits else ""
    lines = [("point", f"{place(trial)}  (workload {trial.script.workload}{tags})")]
    if len(result.hits) < len(trial.kills):
        lines.append(("killed at", hits or "nothing: it was never killed"))
    return lines


def shrunk(found: Reproducer) -> str:
    """How a shorter script was found, and what it is worth."""
    how = found.how
    form = "one at a time" if how.serial else "side by side"
    if how.finished and not how.serial:  # else one at a time may not have been tried to its end
        form += ": it does not fail one at a time"
    line = f"from {how.before} to {plural(how.after, 'operation')}, {form}, after {plural(how.tried, 'candidate')}"
    if not how.finished:
        return f"{line}; out of time, a shorter one may exist: give --shrink more seconds"
    return f"{line}; a fault of timing, it does not shrink further" if how.timing else line


def groups(data: RunData) -> list[list[Result]]:
    """Red trials that most likely are of one fault: the same verdict, leg, property, and operation or hook."""
    found: dict[tuple[object, ...], list[Result]] = {}
    for result in data.failures:
        at = said_of(result).op or tuple(hit.hook for hit in result.hits)
        key = (result.verdict.word, data.leg(result.trial), result.verdict.property, at)
        found.setdefault(key, []).append(result)
    return list(found.values())


def failure(data: RunData, group: Sequence[Result], pictures: Mapping[int, Timeline] = {}) -> Failure:
    """The block of the first of them; the others are named."""
    result = group[0]
    lines = details(data, result)
    if others := [f"{ident(r.trial)} on {r.trial.storage}" for r in group[1:]]:
        lines.append(("also", text.some(others, 12)))
    found = data.reproducers.get(result.trial.ident)
    shows = found and found.is_shorter and found.how.after <= SCRIPT_SHOWN
    return Failure(
        word=result.verdict.word,
        title=one_line(title(data, result), TITLE_CHARS),
        where=where(result.trial),
        lines=lines,
        script=script_lines(found.scenario) if found and shows else (),
        picture=pictures.get(result.trial.ident),
        anchor=anchor(data, result),
    )


def anchor(data: RunData, result: Result) -> str:
    """Where a table links to. A note stands for all of its leg: only the first of them is shown."""
    leg = data.leg(result.trial)
    if leg and result.verdict.word is Word.NOTE:
        return f"note-{data.legs.index(leg)}"
    return f"trial-{ident(result.trial)}"
