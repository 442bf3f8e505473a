"""`lab show`: one run, or one of its trials, as text. Pure; at most 100 columns but for paths and command lines."""

from __future__ import annotations

from collections.abc import Sequence

from lab.engine.errors import UsageError
from lab.model import Evidence, Hit, Json, Kind, Look, Op, Process, Result, Scenario, Trial, Word
from lab.report.document import Report
from lab.report.failures import about, details, failure, note_line, said_of, setting, struck_at, title, where
from lab.report.render import text
from lab.report.render.lanes import lanes
from lab.report.reports import document
from lab.report.script import arguments
from lab.report.text import WIDTH, align, ends, ident, labelled, pairs, plural, some, value
from lab.report.timeline import timeline
from lab.run.data import GREEN, RunData
from lab.text import last_words, one_line

TRIALS_SHOWN = 20  # of a run's list, red ones first; `--all` lists every one
LOG_LINES = 15
RANGES_SHOWN = 8
HISTORY_SHOWN = 60  # records, the last ones: what a kill cut or followed; history.jsonl has them all
STILL_MS = 100  # a shorter stall of the machine is its ordinary business


# A run.


def show_run(data: RunData, report: Report, *, everything: bool = False) -> str:
    """A run: its end, and its trials, red ones first; `everything` adds all of them and what else is on the page."""
    red = {r.trial.ident for r in data.failures}
    order = [*data.failures, *(r for r in data.ordered if r.trial.ident not in red)]
    shown = order if everything else order[:TRIALS_SHOWN]
    counted = f"{plural(len(order), 'trial')} run, {len(red):,} red"
    if len(order) > len(shown):
        counted += f"; {len(order) - len(shown):,} more: lab show {data.run} --all"
    if order:
        counted += f"; {'the first red one' if red else 'one of them'}: lab show {data.run} {ident(order[0].trial)}"
    lines = [f"run {data.run}  {data.campaign} of {data.subject}, seed {data.seed}", ""]
    lines += [*(trial_line(result) for result in shown), *labelled("trials", counted), ""]
    return "\n".join([*lines, text.render(document(data, report), everything=everything)])


def trial_line(result: Result, done: str = "") -> str:
    """One finished trial on one line; `done` is how far the run is, `12/1500`, while it goes on."""
    trial = result.trial
    head = f"{done}  " if done else ""
    head += f"{ident(trial)}  {trial.storage:<7}  {result.verdict.word:<9}  "
    tail = f"  {result.took_s:5.2f} s"
    work = f", {plural(result.operations, 'operation')}" if result.operations else ""
    room = WIDTH - len(head) - len(tail)
    return head + one_line(about(trial) + work, room).ljust(room) + tail


# A trial.


def show_trial(data: RunData, wanted: int, evidence: Evidence | None = None) -> str:
    """One trial, whole if its evidence was kept whole and is given. Raises UsageError if there is no such trial."""
    result = next((r for r in data.results if r.trial.ident == wanted), None)
    if result is None:
        trial = next((t for t in data.trials if t.ident == wanted), None)
        if trial is None:
            numbers = sorted({t.ident for t in (*data.trials, *(r.trial for r in data.results))})
            known = f"its trials are {_ranges(numbers)}" if numbers else "it has no trial yet"
            todo = f"`lab show {data.run} --all` lists them."
            raise UsageError(f"run {data.run} has no trial {wanted:04d}; {known}", todo)
        return "\n".join([*_head(trial, "has not run yet"), *labelled("finish", f"lab resume {data.run}")]) + "\n"
    lines = [*_result(data, result), "", *_counts(result)]
    if evidence is None:
        kept = "in brief: the journal's line alone (lab run --evidence all keeps every trial whole)"
        return "\n".join([*lines, *labelled("evidence", kept)]) + "\n"
    lines += _setting(evidence)
    phases = ([p.name, f"{p.began_ms:,.0f} ms", f"{p.took_ms:,.0f} ms"] for p in evidence.phases)
    parts = (
        list(lanes(timeline(evidence, result.verdict))),
        align([["phase", "began", "took"], *phases]),
        [line for process in evidence.processes for line in _process(process)],
        [line for look in evidence.looks for line in _look(look)] or ["the checker has not looked"],
        _history(evidence, said_of(result).step),
        _ledger(evidence),
    )
    for part in filter(None, parts):
        lines += ["", *part]
    return "\n".join(lines) + "\n"


def _head(trial: Trial, word: str) -> list[str]:
    planted = f" {trial.bug}" if trial.bug else ""
    kind = f"  ({trial.kind}{planted})" if planted or trial.kind is not Kind.POINT else ""
    return [ends(f"{word.upper()}{kind}", where(trial)), *labelled("point", setting(trial))]


def _result(data: RunData, result: Result) -> list[str]:
    if result.verdict.word not in GREEN and result.trial.kind is not Kind.CANARY:
        return list(text.failure_lines(failure(data, [result])))
    lines = [line for label, said in details(data, result)[1:] for line in labelled(label, said)]
    notes = [line for note in result.verdict.notes for line in labelled("note", note_line(result, note))]
    named = labelled("about", one_line(title(data, result))) if result.verdict.word is not Word.PASS else []
    return [*_head(result.trial, result.verdict.word), *named, *lines, *notes]


def _counts(result: Result) -> list[str]:
    up = ", ".join(f"{ms:,.0f} ms" for ms in result.up_ms) or "never"
    struck = ", then ".join(struck_at(hit) + _tags(hit) for hit in result.hits)
    lines = [
        ("killed at", struck or "nothing"),
        ("up after", f"{up}; {plural(result.starts, 'container')} started, {result.took_s:.2f} s in all"),
        ("facts", ", ".join(f"{name} {count:,}" for name, count in result.verdict.facts.items()) or "none"),
        ("mount", result.mount or "not seen"),
        ("checker", result.verifier or "not seen"),
    ]
    if any(vars(result.counts).values()):
        lines.append(("ledger", ", ".join(f"{count} {name}" for name, count in vars(result.counts).items())))
    return [line for label, said in lines for line in labelled(label, one_line(said))]


def _tags(hit: Hit) -> str:
    return f" ({', '.join(f'{k} {v}' for k, v in sorted(hit.tags.items()))})" if hit.tags else ""


def _ranges(numbers: Sequence[int]) -> str:
    """`0001, 0013, 0025 to 0029`: a group of canary trials ends when one is caught, and leaves a gap."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return some([f"{run[0]:04d}" + (f" to {run[-1]:04d}" if run[1:] else "") for run in found], RANGES_SHOWN)


def _setting(evidence: Evidence) -> list[str]:
    """What the volume's mount must have been, and what ended the trial early."""
    lines = labelled("asked", f"mount {pairs(evidence.mount)}")
    if failed := evidence.failure:
        lines += labelled("failed", f"{failed.word} in {failed.phase}: {one_line(failed.what, 600)}")
    return lines + (labelled("diagnosis", one_line(evidence.diagnosis, 600)) if evidence.diagnosis else [])


def _process(process: Process) -> list[str]:
    racer = f" (racer {process.racer})" if process.racer else ""
    hit = str(process.hit) if process.hit else "none"
    killed = f"{process.fault or 'SIGKILL'} sent" if process.killed else "not killed by the lab"
    memory = {None: "memory not asked", True: "over its memory limit", False: "within its memory limit"}
    alive, gone = process.alive or "not seen", process.gone or "not seen"
    end = f"alive: {alive}; {killed}; exit {process.exit_code}; {memory[process.oom_killed]}; gone: {gone}"
    if not process.killed and process.exit_code is not None:  # what only a kill must show is not missing
        end = f"by itself, exit {process.exit_code}; {memory[process.oom_killed]}"
    command = one_line(" ".join(process.command), WIDTH - 14 - len(racer))
    lines = [f"process {process.number}{racer}: {command}"]
    mount = process.mount or "not seen from its /proc"
    for label, said in (("hook", f"armed {process.armed or 'none'}; hit {hit}"), ("end", end), ("mount", mount)):
        lines += labelled(label, one_line(said), indent=2)
    return lines + [
        line for said in last_words(process.log, LOG_LINES) for line in labelled("log", said[:400], indent=2)
    ]


def _look(look: Look) -> list[str]:
    lines = [f"look {look.name} (process {look.process})"]
    for name, finding in look.properties.items():
        if fact := finding.differs:
            why = f" ({one_line(fact.why)})" if fact.why else ""
            said = f"{value(fact.fact)}: expected {value(fact.expected)}, found {value(fact.found)}{why}"
            lines += labelled("differs", f"{name}: {one_line(said, 600)}", indent=2)
        else:
            lines += labelled(f"{finding.facts:,} ok" if finding.facts else "no fact", name, indent=2)
    return lines


# What was sent and answered, life by life.


def _history(evidence: Evidence, step: str) -> list[str]:
    """The last records, and the one that a verdict names, which is marked."""
    if not isinstance(evidence.trial.script, Scenario):
        lines = [(record, _own(record)) for record in evidence.history]
    else:
        answers = {r["id"]: r for r in evidence.history if r.get("event") in ("ok", "fail", "info")}
        lines = [(record, said) for record in evidence.history for said in _record(record, answers, step)]
    skipped = {id(record) for record, _ in lines[:-HISTORY_SHOWN] if not step or str(record.get("step")) != step}
    shown = [said for record, said in lines if id(record) not in skipped]
    hidden = len(lines) - len(shown)
    more = f", {hidden:,} of them in history.jsonl only" if hidden else ""
    return [f"history, {plural(len(lines), 'line')}{more}", *shown] if lines else []


def _record(record: Json, answers: dict[int, Json], step: str) -> list[str]:
    """A record for a person; nothing for one that says nothing by itself."""
    match record.get("event"):
        case None:
            return [_own(record)]
        case "invoke" if record["step"]:
            return [_operation(record, answers.get(record["id"]), marked=str(record["step"]) == step)]
        case "up":
            return [f"  life {record.get('life', '?')} is up"]
        case "killed":
            return [f"  killed at {one_line(str(record['at']), 80)}"]
        case "still" if record["ms"] >= STILL_MS:
            return [f"  the machine stood still for {record['ms']:,.0f} ms"]
        case "settled":
            return ["  idle" if record["idle"] else "  it never got idle"]
        case "check":
            kind = "final check" if record.get("final") else "check"
            return labelled(kind, one_line(value(record["observed"]), 600), indent=2, width=len(kind) + 1)
        case "check-failed":
            return [f"  what is left could not be read back: {one_line(str(record['why']), 60)}"]
        case "error":
            return [f"  the clients failed: {one_line(str(record['what']), 76)}"]
    return []


def _own(record: Json) -> str:
    if record.get("died"):
        return f"  process {record.get('process')} was killed here"
    rest = {k: v for k, v in record.items() if k not in ("process", "id", "type", "op")}
    head = f"  {record.get('process')}/{record.get('id')}".ljust(8) + f"{one_line(str(record.get('type', ''))):<8}"
    return head + one_line(f"{record.get('op', '')} {pairs(rest)}", WIDTH - len(head))


def _operation(sent: Json, answer: Json | None, *, marked: bool) -> str:
    """`>   41  client 2  queue/remove  c1 p38 -> {"removed": true}   12.3 ms`."""
    op = Op(sent["step"], sent["client"], sent["op"], sent["args"])
    wait = f"{answer['at_ms'] - sent['at_ms']:,.1f} ms" if answer else ""
    head = f"{'>' if marked else ' '}{op.step:>5}  client {op.client:<2} {one_line(op.op):<17}  "
    room = WIDTH - len(head) - 14
    said = one_line(f"{arguments(op)} -> {_answer(answer)}".strip(), room)
    return f"{head}{said:<{room}}  {wait:>12}".rstrip()


def _answer(answer: Json | None) -> str:
    if answer is None:
        return "nothing was recorded"
    if answer["event"] == "info":
        return f"no answer: {answer['why']}"
    if answer["event"] == "fail":
        return f"error {answer['error'].get('code')}: {answer['error'].get('message')}"
    return value(answer["result"]) if answer["result"] else "ok"


def _ledger(evidence: Evidence) -> list[str]:
    entries: list[tuple[str, Json]] = [("request", e) for e in evidence.ledger.get("requests", ())]
    entries += [("effect", e) for e in evidence.ledger.get("effects", ())]
    lines = [f"ledger, {plural(len(entries), 'record')} in order"] if entries else []
    for kind, entry in sorted(entries, key=lambda pair: pair[1].get("seq", 0)):
        head = f"  {entry.get('seq', '?'):>4}  {kind:<7}  "
        lines.append(head + one_line(pairs({k: v for k, v in entry.items() if k != "seq"}), WIDTH - len(head)))
    return lines
