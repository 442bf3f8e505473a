"""One trial as a picture: lanes of clients, processes, looks and the ledger over time, and where it was struck. Pure.

Phases, looks and clients have times. What a subject that drives itself said, and the ledger's records, have an order
alone: they are spread evenly over the time in which they must have come, and the caption says so.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.model import Evidence, Json, Look, Phase, Process, Scenario, Verdict
from lab.text import one_line

OPERATIONS_SHOWN = 300  # the last ones: what a kill cut or followed
LABEL_CHARS = 90
STARTS = ("start", "restart")
UP = ("recovery", "up")  # phases that end when a process is back
_NAMED = re.compile(r"requests? (\d+)(?:, (\d+))*(?: and (\d+))?")

Kind = Literal["process", "recovery", "operation", "look", "request", "effect"]
_Entry = tuple[Literal["request", "effect"], int, Json]  # with its number
State = Literal["", "broke", "open"]  # what the verdict is about; what never got an answer


@dataclass(frozen=True)
class Span:
    """Something that took time, or happened at one moment, in a lane."""

    lane: str
    began_ms: float
    ended_ms: float
    label: str
    kind: Kind
    state: State = ""


@dataclass(frozen=True)
class Strike:
    """A fault: a vertical line through all lanes."""

    at_ms: float
    label: str


@dataclass(frozen=True)
class Timeline:
    """Times are in ms since the trial began."""

    lanes: tuple[str, ...]
    spans: tuple[Span, ...]
    strikes: tuple[Strike, ...]
    length_ms: float
    caption: str

    def of(self, lane: str) -> tuple[Span, ...]:
        return tuple(span for span in self.spans if span.lane == lane)


@dataclass(frozen=True)
class _Seen:
    process: Process
    began_ms: float
    ended_ms: float


def timeline(evidence: Evidence, verdict: Verdict) -> Timeline:
    """The picture of a trial, with what its verdict is about marked."""
    length = max((p.began_ms + p.took_ms for p in evidence.phases), default=0.0)
    seen = list(_processes(evidence, length))
    step, named = _about(verdict)
    by_clients = isinstance(evidence.trial.script, Scenario)
    operations = list(_clients(evidence, step) if by_clients else _own(evidence, seen))
    shown = [span for span in operations[:-OPERATIONS_SHOWN] if span.state == "broke"] + operations[-OPERATIONS_SHOWN:]
    spans = [*shown, *_lives(evidence, seen), *_looks(evidence), *_ledger(evidence, named)]
    notes = [] if by_clients else ["operations have an order and no times: spread evenly over their process"]
    if any(span.lane == "ledger" for span in spans):
        notes.append("the ledger's records have an order and no times: spread evenly between two looks")
    if len(operations) > len(shown):
        notes.append(f"{len(operations) - len(shown):,} earlier operations are not shown")
    return Timeline(
        lanes=tuple(sorted({span.lane for span in spans}, key=_rank)),
        spans=tuple(spans),
        strikes=tuple(Strike(at.ended_ms, _struck(at.process)) for at in seen if at.process.killed),
        length_ms=max([length, *(span.ended_ms for span in spans)]),
        caption="; ".join(notes),
    )


def _struck(process: Process) -> str:
    return f"{process.fault or 'kill'} of process {process.number} at {process.hit or 'a moment'}"


def _rank(lane: str) -> tuple[int, str]:
    order = ("client", "operations", "process", "racer", "checker", "ledger")
    kind, _, number = lane.partition(" ")
    return order.index(kind), number.zfill(3)


def _about(verdict: Verdict) -> tuple[str, frozenset[int]]:
    """The step of the operation, and the requests of the ledger, that the differing fact names."""
    fact = verdict.differs
    if fact is None:
        return "", frozenset()
    step = re.search(r"\bstep=(\S+)", fact.fact)
    text = f"{fact.fact} {fact.found} {fact.why}"
    numbers = (int(n) for match in _NAMED.finditer(text) for n in match.groups() if n)
    return step[1] if step else "", frozenset(numbers)


def _end(phase: Phase) -> float:
    return phase.began_ms + phase.took_ms


def _processes(evidence: Evidence, length: float) -> Iterator[_Seen]:
    """Each process from the phase that started it to the kill, or to the next process, or to the end."""
    starts = [p.began_ms for p in evidence.phases if p.name in STARTS]
    kills = [_end(p) for p in evidence.phases if p.name == "kill"]
    raced = next((_end(p) for p in evidence.phases if p.name == "race"), length)
    for number, (process, began) in enumerate(zip(evidence.processes, starts, strict=False)):
        if process.racer:
            ended = raced
        elif process.killed and kills and kills[-1] >= began:
            ended = kills[bisect_left(kills, began)]
        else:
            ended = starts[number + 1] if number + 1 < len(starts) else length
        yield _Seen(process, began, ended)


def _lives(evidence: Evidence, seen: Sequence[_Seen]) -> Iterator[Span]:
    ups = [_end(p) for p in evidence.phases if p.name in UP]
    for at in seen:
        process = at.process
        lane = f"racer {process.racer}" if process.racer else "process"
        ended = "" if process.killed or process.exit_code is None else f", exit {process.exit_code}"
        label = f"process {process.number}: {' '.join(process.command)}{ended}"
        yield Span(lane, at.began_ms, at.ended_ms, one_line(label, LABEL_CHARS), "process")
        up = next((ms for ms in ups if at.began_ms < ms <= at.ended_ms), None)
        if up is not None and process.number > 1 and not process.racer:
            yield Span(lane, at.began_ms, up, f"process {process.number} recovers", "recovery")


def _look_phases(evidence: Evidence) -> Iterator[tuple[Look, Phase]]:
    return zip(evidence.looks, (p for p in evidence.phases if p.name.startswith("look:")), strict=False)


def _looks(evidence: Evidence) -> Iterator[Span]:
    for look, phase in _look_phases(evidence):
        broke = [name for name, finding in look.properties.items() if finding.differs]
        found = f": {', '.join(broke)} differs" if broke else ": nothing differs"
        label = one_line(f"look {look.name}{found}", LABEL_CHARS)
        yield Span("checker", phase.began_ms, _end(phase), label, "look", "broke" if broke else "")


def _clients(evidence: Evidence, step: str) -> Iterator[Span]:
    """What clients sent, by their own clock, which is set by the first answer that both have seen."""
    shift = _shift(evidence)
    answers = {r["id"]: r for r in evidence.history if r.get("event") in ("ok", "fail", "info")}
    for record in evidence.history:
        if record.get("event") != "invoke" or not record.get("step"):
            continue
        answer = answers.get(record["id"])
        began = record["at_ms"] + shift
        ended = answer["at_ms"] + shift if answer else began
        said = answer["event"] if answer else "no answer was recorded"
        arguments = " ".join(map(str, record.get("args", {}).values()))
        label = one_line(f"{record['step']} {record['op']} {arguments}: {said}", LABEL_CHARS)
        state: State = "broke" if str(record["step"]) == step else "" if said in ("ok", "fail") else "open"
        yield Span(f"client {record['client']}", began, ended, label, "operation", state)


def _shift(evidence: Evidence) -> float:
    """What turns a time of the clients into one of the trial."""
    up = next((r["at_ms"] for r in evidence.history if r.get("event") == "up" and "at_ms" in r), 0.0)
    answered = [p for p in evidence.phases if p.name == "up"] or [p for p in evidence.phases if p.name in STARTS]
    return float(_end(answered[0]) - up) if answered else 0.0


def _own(evidence: Evidence, seen: Sequence[_Seen]) -> Iterator[Span]:
    """What a subject said of its own operations, in the order in which it said it."""
    for at in seen:
        mine = [r for r in evidence.history if r.get("process") == at.process.number and "type" in r]
        step_ms = (at.ended_ms - at.began_ms) / (len(mine) + 1)
        place = {id(r): at.began_ms + step_ms * n for n, r in enumerate(mine, 1)}
        answers = {str(r.get("id")): r for r in mine if r["type"] != "invoke"}
        for record in mine:
            if record["type"] != "invoke":
                continue
            answer = answers.get(str(record.get("id")))
            began = place[id(record)]
            ended = max(began, place[id(answer)]) if answer else began
            said = answer["type"] if answer else "no answer"
            label = one_line(f"{record.get('id')} {record.get('op')}: {said}", LABEL_CHARS)
            yield Span("operations", began, ended, label, "operation", "" if answer else "open")


def _ledger(evidence: Evidence, named: frozenset[int]) -> Iterator[Span]:
    """The ledger's records, each between the snapshot that has it first and the one before."""
    before = 0.0
    known: set[tuple[str, int]] = set()
    for at_ms, ledger in sorted(_snapshots(evidence), key=lambda snapshot: snapshot[0]):
        fresh = [entry for entry in _entries(ledger) if entry[:2] not in known]
        for number, (kind, seq, entry) in enumerate(fresh, 1):
            where = before + (at_ms - before) * number / (len(fresh) + 1)
            about = entry.get("effect") or entry.get("do") or ""
            label = one_line(f"{kind} {seq}: {about} {entry.get('result', '')}", LABEL_CHARS)
            broke = named & {seq if kind == "request" else entry.get("request", 0)}
            yield Span("ledger", where, where, label, kind, "broke" if broke else "")
        known |= {entry[:2] for entry in fresh}
        before = at_ms


def _entries(ledger: Json) -> list[_Entry]:
    """Requests by number, each effect behind the request that it is of."""
    found: list[_Entry] = [("request", int(e.get("seq", 0)), e) for e in ledger.get("requests", ())]
    found += [("effect", int(e.get("seq", 0)), e) for e in ledger.get("effects", ())]
    return sorted(found, key=lambda entry: (int(entry[2].get("request", entry[1])), entry[0] == "effect"))


def _snapshots(evidence: Evidence) -> Iterator[tuple[float, Json]]:
    for look, phase in _look_phases(evidence):
        yield phase.began_ms, look.ledger
    if isinstance(evidence.trial.script, Scenario):
        shift, at_ms = _shift(evidence), 0.0
        for record in evidence.history:
            at_ms = record["at_ms"] + shift if "at_ms" in record else at_ms
            if record.get("event") == "ledger":
                yield at_ms, record["ledger"]
    yield max((_end(p) for p in evidence.phases), default=0.0), evidence.ledger
