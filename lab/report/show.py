"""`lab show`: one run, or one of its trials, as text. Pure; at most 100 columns but for paths and command lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from lab.model import Evidence, Finding, Hit, Json, Kind, Look, Process, Result, Trial
from lab.report.console import end_text, failure_block, trial_line
from lab.report.data import GREEN, RunData
from lab.report.summary import summarise
from lab.report.table import WIDTH, align, ends, labelled
from lab.report.text import details, flat, ident, one_line, plural, points, printable, value

HISTORY_TAIL = 20  # what was answered last before the crash is what was at stake
LOG_LINES = 15


class UnknownTrial(Exception):
    """There is no such trial in a run; `none` says why there may be no trial at all."""

    def __init__(self, run: str, wanted: int, numbers: Collection[int], none: str) -> None:
        known = f"its trials are {min(numbers):04d} to {max(numbers):04d}" if numbers else none
        super().__init__(f"run {run} has no trial {wanted:04d}; {known}")


def show_run(data: RunData) -> str:
    """A run: where it ran, its end table, and a line for each trial that was not green."""
    lines = [f"run {data.run}  {data.campaign} of {data.subject}, seed {data.seed}", ""]
    lines += environment_lines(data.environment)
    red = [r for r in data.ordered if r.verdict.word not in GREEN and r.trial.kind is not Kind.CANARY]
    if red:
        lines += ["", f"{plural(len(red), 'red trial')}; look at one: lab show {data.run} {ident(red[0].trial)}"]
        lines += [trial_line(r) for r in red]
    return "\n".join([*lines, "", end_text(data, summarise(data))])


def environment_lines(environment: Json) -> list[str]:
    """Where a run ran: machine, engine, images, a labelled line each."""
    packages = environment.get("packages", [])
    where = flat({**environment, "packages": f"{len(packages)} of the base image, listed in run.json"})
    width = max((len(name) for name, _ in where), default=0) + 2
    return [line for name, said in where for line in labelled(name, one_line(said), width=width)]


def show_trial(data: RunData, wanted: int, evidence: Evidence | None = None) -> str:
    """One trial, whole if its evidence was kept whole and is given. Raises UnknownTrial."""
    result = next((r for r in data.results if r.trial.ident == wanted), None)
    if result is None:
        trial = next((t for t in data.trials if t.ident == wanted), None)
        if trial is None:
            raise UnknownTrial(data.run, wanted, [t.ident for t in data.trials], "its plan is empty")
        return "\n".join([*_head(trial, "has not run yet"), *labelled("finish", f"lab resume {data.run}")]) + "\n"
    if result.verdict.word in GREEN or result.trial.kind is Kind.CANARY:
        lines = [*_head(result.trial, result.verdict.word), *_brief(data, result)]
    else:
        lines = failure_block(data, result)
    if evidence is None:
        kept = "in brief: the journal's line alone (lab run --evidence all keeps every trial whole)"
        return "\n".join([*lines, "", *_counts(result), *labelled("evidence", kept)]) + "\n"
    parts = (_timeline, _processes, _looks, _history, _ledger)
    lines += ["", *_counts(result), *_asked(evidence), *(line for part in parts for line in ["", *part(evidence)])]
    return "\n".join(lines) + "\n"


def _head(trial: Trial, said: str) -> list[str]:
    about = f"trial {ident(trial)} · {trial.storage} · {trial.fault}"
    kind = "" if trial.kind is Kind.POINT else f"  ({trial.kind}{f' {trial.bug}' if trial.bug else ''})"
    return [ends(f"{said.upper()}{kind}", about), *labelled("point", f"{points(trial)} (workload {trial.workload})")]


def _brief(data: RunData, result: Result) -> list[str]:
    return [line for label, said in details(data, result)[1:] for line in labelled(label, one_line(said, 400))]


def _counts(result: Result) -> list[str]:
    facts = ", ".join(f"{name} {count:,}" for name, count in result.verdict.facts.items()) or "none"
    recovered = ", ".join(f"{ms:,.0f} ms" for ms in result.recovery_ms) or "never"
    lines = [
        ("killed at", ", then ".join(map(_hit, result.hits)) or "nothing"),
        ("recovered", f"{recovered}; {plural(result.starts, 'container')} started, {result.took_s:.2f} s in all"),
        ("facts", facts),
        ("ledger", ", ".join(f"{count} {name}" for name, count in vars(result.counts).items())),
        ("mount", result.mount or "not seen"),
        ("verifier", result.verifier or "not seen"),
    ]
    return [line for label, said in lines for line in labelled(label, one_line(said))]


def _hit(hit: Hit) -> str:
    said = ", ".join(f"{k} {v}" for k, v in sorted(hit.tags.items()))
    return f"{hit} ({said})" if said else str(hit)


def _asked(evidence: Evidence) -> list[str]:
    """What the volume's mount must have been; `mount` above and in each process is what was read from inside."""
    return labelled("asked", f"mount {one_line(_pairs(evidence.mount))}")


def _timeline(evidence: Evidence) -> list[str]:
    rows = [["phase", "began", "took"]]
    rows += [[p.name, f"{p.began_ms:,.0f} ms", f"{p.took_ms:,.0f} ms"] for p in evidence.phases]
    failed = evidence.failure
    ended = labelled("failed", f"{failed.word} in {failed.phase}: {one_line(failed.what)}") if failed else []
    return [*align(rows), *ended]


def _processes(evidence: Evidence) -> list[str]:
    return [line for process in evidence.processes for line in _process(process)]


def _process(process: Process) -> list[str]:
    racer = f" (racer {process.racer})" if process.racer else ""
    lines = [f"process {process.number}{racer}: {one_line(' '.join(process.command), WIDTH - 14 - len(racer))}"]
    hit = _hit(process.hit) if process.hit else "none"
    lines += labelled("hook", f"armed {process.armed or 'none'}; hit {hit}", indent=2)
    killed = "SIGKILL sent" if process.killed else "not killed by the lab"
    alive, gone = process.alive or "not seen", process.gone or "not seen"
    oom = {None: "OOM kill not asked", True: "killed for its memory", False: "not killed for its memory"}[
        process.oom_killed
    ]
    lines += labelled("end", f"alive: {alive}; {killed}; exit {process.exit_code}; {oom}; gone: {gone}", indent=2)
    lines += labelled("mount", one_line(process.mount or "not seen from its /proc"), indent=2)
    said = [line.rstrip() for line in printable(process.log).splitlines() if line.strip()][-LOG_LINES:]
    return lines + [line for text in said for line in labelled("log", text[:400], indent=2)]


def _looks(evidence: Evidence) -> list[str]:
    return [line for look in evidence.looks for line in look_lines(look)] or ["the verifier has not looked"]


def look_lines(look: Look) -> list[str]:
    """What one look compared and found, a line a property."""
    lines = [f"look {look.name} (process {look.process})"]
    for name, finding in look.properties.items():
        lines += labelled(_found(finding), f"{name}{_difference(finding)}", indent=2)
    return lines


def _found(finding: Finding) -> str:
    return "differs" if finding.differs else f"{finding.facts:,} ok" if finding.facts else "no fact"


def _difference(finding: Finding) -> str:
    if finding.differs is None:
        return ""
    fact = finding.differs
    why = f" ({one_line(fact.why)})" if fact.why else ""
    return one_line(f": {value(fact.fact)}: expected {value(fact.expected)}, found {value(fact.found)}{why}", 600)


def _history(evidence: Evidence) -> list[str]:
    shown = evidence.history[-HISTORY_TAIL:]
    lines = [f"history, the last {len(shown)} of {plural(len(evidence.history), 'record')}"]
    return lines + [_record(record) for record in shown]


def _record(record: dict[str, Any]) -> str:
    if record.get("died"):
        return f"  process {record.get('process')} was killed here"
    rest = {k: v for k, v in record.items() if k not in ("process", "id", "type", "op")}
    head = f"  {record.get('process')}/{record.get('id')}".ljust(8) + f"{one_line(str(record.get('type', ''))):<8}"
    return head + one_line(f"{record.get('op', '')} {_pairs(rest)}", WIDTH - len(head))


def _ledger(evidence: Evidence) -> list[str]:
    entries = [("request", e) for e in evidence.ledger.get("requests", ())]
    entries += [("effect", e) for e in evidence.ledger.get("effects", ())]
    lines = [f"ledger, {plural(len(entries), 'record')} in order"]
    for kind, entry in sorted(entries, key=lambda pair: pair[1].get("seq", 0)):
        rest = {k: v for k, v in entry.items() if k != "seq"}
        head = f"  {entry.get('seq', '?'):>4}  {kind:<7}  "
        lines.append(head + one_line(_pairs(rest), WIDTH - len(head)))
    return lines


def _pairs(entry: dict[str, Any]) -> str:
    shown: Iterable[tuple[str, Any]] = ((k, v) for k, v in entry.items() if v is not None)
    return " ".join(f"{k}={value(v)}" for k, v in shown)
