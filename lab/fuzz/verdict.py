"""From the evidence of a fuzz trial to its verdict: a pure function, so that stored evidence can be judged again.

A broken link comes first, then a broken promise, then a trial that ended early, then one that did not run as asked or
was not looked at whole, and only then a loss that nobody promised to prevent. Unlike in lab.verdict an audit comes
behind a promise: a machine that stood still explains an answer that came late, and no loss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lab.fuzz.model import FAULT, FuzzEvidence, FuzzResult, Kill
from lab.model import RECOVERS, Fact, Json, Process, Verdict, Word, from_json
from lab.storage import mountinfo
from lab.storage.mountinfo import Expected
from lab.trial.judge import SIGKILLED


def judge(evidence: FuzzEvidence, promises: Mapping[str, Sequence[str]], audits: Sequence[str]) -> Verdict:
    """The verdict of one trial. `audits` are properties that say whether it ran as it was asked to, and no promises."""
    properties = evidence.look.properties if evidence.look else {}
    facts = {name: properties[name].facts for name in (*promises, *audits) if name in properties}
    promised = [name for name, faults in promises.items() if FAULT in faults]
    failure = evidence.failure
    broke_down = failure is not None and failure.word is Word.VIOLATION
    differed = [name for name, finding in properties.items() if finding.differs is not None and name not in audits]
    broken = (*differed, RECOVERS) if broke_down else tuple(differed)

    def differing(word: Word, name: str) -> Verdict:
        differs = properties[name].differs
        assert differs is not None
        return Verdict(word, differs.why or _said(differs), name, broken, "end", differs, facts)

    for link in _broken_links(evidence):
        said = f" ({failure.phase}: {failure.what})" if failure else ""
        return Verdict(Word.INVALID, f"{link}{said}", facts=facts)
    for name in promised:
        if name in broken:
            return differing(Word.VIOLATION, name)
    if failure is not None:
        name = RECOVERS if broke_down else ""
        return Verdict(failure.word, f"{failure.phase}: {failure.what}", name, broken if name else (), facts=facts)
    for name in audits:
        if name in properties and properties[name].differs is not None:
            return differing(Word.INVALID, name)
    for missing in _missing(evidence, (*promises, *audits)):
        return Verdict(Word.INVALID, missing, facts=facts)
    for name in broken:
        return differing(Word.NOTE, name)
    return Verdict(Word.PASS, facts=facts)


def unnoted(promises: Mapping[str, Sequence[str]], audits: Sequence[str]) -> frozenset[str]:
    """Properties whose difference is never a mere note."""
    return frozenset({name for name, faults in promises.items() if FAULT in faults} | set(audits))


def waits_ms(history: Sequence[Json]) -> dict[str, tuple[float, ...]]:
    """How long each request waited, per operation: until its answer, or until it was given up."""
    invoked: dict[int, tuple[str, float]] = {}
    waits: dict[str, list[float]] = defaultdict(list)
    for line in history:
        if line["event"] == "invoke":
            invoked[line["id"]] = (line["op"], line["at_ms"])
        elif line["event"] in ("ok", "fail", "info"):
            op, at_ms = invoked.pop(line["id"])
            waits[op].append(round(line["at_ms"] - at_ms, 1))
    return {op: tuple(found) for op, found in sorted(waits.items())}


def in_brief(evidence: FuzzEvidence, verdict: Verdict, unnoted: Collection[str], kept: str | None) -> FuzzResult:
    """A trial as one line of the journal. What differs is a note, but for promises and audits, the `unnoted`."""
    last = evidence.phases[-1] if evidence.phases else None
    properties = evidence.look.properties if evidence.look else {}
    notes = [(n, found.differs) for n, found in properties.items() if n not in unnoted and found.differs is not None]
    trial = evidence.trial
    return FuzzResult(
        trial=replace(trial, scenario=replace(trial.scenario, lives=())),
        verdict=verdict,
        took_s=(last.began_ms + last.took_ms) / 1000 if last else 0.0,
        operations=sum(line["event"] == "invoke" and bool(line["step"]) for line in evidence.history),
        kills=evidence.kills,
        restarts=max(0, len(evidence.processes) - 1),
        up_ms=evidence.up_ms,
        waits_ms=waits_ms(evidence.history),
        notes=tuple(f"{name}: {differs.fact}: {differs.why or _said(differs)}" for name, differs in notes),
        mount=evidence.look.mount if evidence.look else "",
        verifier=evidence.verifier,
        evidence=kept,
    )


def _said(differs: Fact) -> str:
    return f"expected {differs.expected!r}, found {differs.found!r}"


def _broken_links(evidence: FuzzEvidence) -> Iterator[str]:
    """Each link of the chain that was looked for and found broken."""
    expected = from_json(Expected, evidence.mount)
    lines = [evidence.look.mount] if evidence.look else []
    for line in (*lines, *(p.mount for p in evidence.processes if p.mount is not None)):
        if why := mountinfo.audit(line, expected):
            yield f"not on {evidence.trial.storage}: {why}"
    numbers = [process.number for process in evidence.processes]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"it has lives {numbers}: one is missing"
    lives = evidence.trial.scenario.lives
    for process in evidence.processes:
        kill = lives[process.number - 1].kill if process.number <= len(lives) else None
        armed = f"{kill.hook}#{kill.n}" if kill is not None and kill.at == "hook" else None
        if process.armed != armed:
            yield f"life {process.number} was armed at {process.armed}, but the scenario says {armed}"
        if process.killed:
            yield from _broken_kill(process, kill)
        elif process.exit_code == SIGKILLED:
            yield f"life {process.number} exited {SIGKILLED} by itself: that is not a kill of the lab's"
    killed = sum(process.killed for process in evidence.processes)
    if killed != len(evidence.kills) and evidence.failure is None:
        yield f"{killed} lives were killed, but {len(evidence.kills)} kills are recorded"


def _broken_kill(process: Process, kill: Kill | None) -> Iterator[str]:
    """Struck at its own place, or where its operations ended, if that came first; alive before, and gone after."""
    who = f"life {process.number}"
    if kill is None:
        yield f"{who} was killed, and the scenario lets it live"
    elif process.hit is None:
        yield f"{who} was killed without a record of where it stood"
    elif str(process.hit) not in (_place(kill), "end#1"):
        yield f"{who} was killed at {process.hit}, but the scenario says {_place(kill)}"
    if process.alive is None:
        yield f"{who} was not seen alive before it was killed"
    if process.exit_code != SIGKILLED:
        yield f"{who} ended with exit code {process.exit_code}, not {SIGKILLED}"
    if process.oom_killed is not False:
        yield f"{who} was killed by its memory limit"
    if process.gone is None:
        yield f"{who} was not seen gone after the kill"


def _place(kill: Kill) -> str:
    """Where a kill is to strike, as a trial records it."""
    places = {"hook": f"{kill.hook}#{kill.n}", "start": f"start#{kill.after_ms}", "end": "end#1"}
    return places.get(kill.at, f"{kill.at}#{kill.n}")


def _missing(evidence: FuzzEvidence, names: Sequence[str]) -> Iterator[str]:
    """Links that a whole trial must have."""
    lives = len(evidence.trial.scenario.lives)
    if len(evidence.processes) != lives:
        yield f"{len(evidence.processes)} of its {lives} lives began"
        return
    killed = [process.number for process in evidence.processes if process.killed]
    if killed != list(range(1, lives)):
        yield f"lives {killed} were killed, of {lives} all but the last"
    if evidence.processes[-1].alive is None:
        yield "its last life was not seen alive at the end"
    if not any(line["event"] == "check" and line.get("final") for line in evidence.history):
        yield "what is left was never read back at the end"
    if evidence.look is None:
        yield "the oracle never looked"
        return
    for name in names:
        if name not in evidence.look.properties:
            yield f"the oracle said nothing of {name}"
    if not evidence.verifier:
        yield "the oracle never said who it is"
