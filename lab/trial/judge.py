"""From evidence to verdict: a pure function, so that stored evidence can be judged again.

A green run means something only because of this file: a trial passes if each link of its evidence was seen, and every
missing link makes it invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.model import RECOVERS, Evidence, Fact, Kind, LedgerCounts, Look, Process, Verdict, Word, from_json
from lab.storage import mountinfo
from lab.storage.mountinfo import Expected

SIGKILLED = 137  # 128 + SIGKILL, as the engine reports it


def judge(evidence: Evidence, promises: Mapping[str, tuple[str, ...]], audits: Sequence[str] = ()) -> Verdict:
    """The verdict of one trial. `audits` are properties that say whether it ran as it was asked to, and no promises.

    The order matters. A broken link comes first, for nothing that was seen behind it counts. Then the first difference
    that breaks a promise; then a trial that ended early; then what was never checked. Only then a loss that nobody
    promised to prevent: it is green, and may hide none of these.
    """
    checked = _facts(evidence, tuple(promises))
    facts = checked | _facts(evidence, audits)
    for look, name, differs in _differences(evidence, audits):
        return _differing(Word.INVALID, look, name, differs, evidence, facts)
    for broken in _broken_links(evidence):
        said = f" ({evidence.failure.phase}: {evidence.failure.what})" if evidence.failure else ""
        return Verdict(Word.INVALID, f"{broken}{said}", facts=facts)
    promised = [name for name, faults in promises.items() if evidence.trial.fault in faults]
    for look, name, differs in _differences(evidence, promised):
        return _differing(Word.VIOLATION, look, name, differs, evidence, facts)
    failure = evidence.failure
    if failure is not None:
        name = RECOVERS if failure.word is Word.VIOLATION else ""
        return Verdict(failure.word, f"{failure.phase}: {failure.what}", name, (name,) if name else (), facts=facts)
    for missing in _unchecked(evidence, checked, audits):
        return Verdict(Word.INVALID, missing, facts=facts)
    others = sorted({name for look in evidence.looks for name in look.properties} - set(promised))
    for look, name, differs in _differences(evidence, others):
        return _differing(Word.NOTE, look, name, differs, evidence, facts)
    return Verdict(Word.PASS, facts=facts)


def _facts(evidence: Evidence, names: Sequence[str]) -> dict[str, int]:
    """Facts compared for each of the properties, over the whole trial."""
    return {
        name: sum(look.properties[name].facts for look in evidence.looks if name in look.properties) for name in names
    }


def _differing(word: Word, look: Look, name: str, differs: Fact, evidence: Evidence, facts: dict[str, int]) -> Verdict:
    why = differs.why or f"{differs.fact}: expected {differs.expected!r}, found {differs.found!r}"
    return Verdict(word, why, name, _broken(evidence), look.name, differs, facts)


def _broken_links(evidence: Evidence) -> Iterator[str]:
    """Each link of the chain that was looked for and found broken."""
    expected = from_json(Expected, evidence.mount)
    lines = [look.mount for look in evidence.looks] + [p.mount for p in evidence.processes if p.mount is not None]
    for line in lines:
        if why := mountinfo.audit(line, expected):
            yield f"not on {evidence.trial.storage}: {why}"
    numbers = [process.number for process in evidence.processes]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"it has processes {numbers}: one is missing"
    for process in evidence.processes:
        yield from _broken_process(process, evidence)
    yield from _broken_count_of_kills(evidence)


def _broken_process(process: Process, evidence: Evidence) -> Iterator[str]:
    who, points = f"process {process.number}", evidence.trial.points
    # The first runs, the others recover, and racers have no point of their own.
    rank = sum(p.racer is None for p in evidence.processes if p.number <= process.number)
    asked = str(points[rank - 1]) if process.racer is None and rank <= len(points) else None
    if process.armed != asked:
        yield f"{who} was armed at {process.armed}, but the trial is about {asked}"
    if process.killed:
        yield from _broken_kill(process, evidence)
    elif process.oom_killed:
        yield f"{who} was killed by its memory limit, not by the lab"
    elif process.exit_code == SIGKILLED:
        yield f"{who} exited {SIGKILLED} by itself: that is not a kill"
    elif process.hit is not None and process.exit_code is not None:
        yield f"{who} stood at {process.hit} and ended with exit code {process.exit_code} before it was killed"


def _broken_kill(process: Process, evidence: Evidence) -> Iterator[str]:
    who = f"process {process.number}"
    if process.hit is None or str(process.hit) != process.armed:
        yield f"{who} was killed without the record of its armed hook {process.armed}"
    if process.alive is None:
        yield f"{who} was not seen alive at {process.armed}"
    if process.exit_code is None and _ended_before_a_look_at(process, evidence):
        return  # its end could not be seen; the failure says why
    if process.exit_code != SIGKILLED:
        yield f"{who} ended with exit code {process.exit_code}, not {SIGKILLED}"
    if process.oom_killed is not False:
        yield f"{who} was killed by its memory limit"
    if process.gone is None:
        yield f"{who} was not seen gone after the kill"


def _ended_before_a_look_at(process: Process, evidence: Evidence) -> bool:
    return evidence.failure is not None and all(look.process != process.number for look in evidence.looks)


def _broken_count_of_kills(evidence: Evidence) -> Iterator[str]:
    """What was judged must have been killed before; what a probe asks for must not be there to be killed at."""
    killed = [process for process in evidence.processes if process.killed]
    failure = evidence.failure
    judged = bool(evidence.looks) or failure is None or failure.word is Word.VIOLATION
    if evidence.trial.kind is not Kind.PROBE:
        if judged and not killed and not (evidence.trial.racers and not evidence.trial.points):
            yield "nothing was killed"
    elif killed:
        yield f"it reached {killed[0].armed}, which is not in the census: the enumeration is not complete"


def _differences(evidence: Evidence, names: Sequence[str]) -> Iterator[tuple[Look, str, Fact]]:
    """What differed of these properties: the earliest look first, within it in the order of the names."""
    for look in evidence.looks:
        for name in names:
            if name in look.properties and (differs := look.properties[name].differs) is not None:
                yield look, name, differs


def _broken(evidence: Evidence) -> tuple[str, ...]:
    """Every property that differed at some look."""
    return tuple(
        sorted({name for look in evidence.looks for name, f in look.properties.items() if f.differs is not None})
    )


def _unchecked(evidence: Evidence, facts: Mapping[str, int], audits: Sequence[str]) -> Iterator[str]:
    """Links that a whole trial must have: the restart, its end, every look, and facts for every property."""
    last = evidence.processes[-1] if evidence.processes else None
    if last is None or last.killed or last.exit_code != 0:
        yield "no process came to its end by itself with exit code 0"
        return
    killed = [process for process in evidence.processes if process.killed]
    if evidence.trial.drawn == "all" and evidence.trial.kind is Kind.POINT and len(killed) < len(evidence.trial.points):
        yield f"{evidence.trial.points[len(killed)]}, which the census reached, was not reached"
    racers = [process for process in evidence.processes if process.racer is not None and process.exit_code is not None]
    if len(racers) != evidence.trial.racers:
        yield f"{len(racers)} of {evidence.trial.racers} racers were seen to their end"
    wanted = [("killed", process.number) for process in killed]
    wanted += [("recovered", last.number)] if evidence.trial.kind is not Kind.PROBE else []
    wanted += [("end", last.number)]
    looks = [(look.name, look.process) for look in evidence.looks]
    for name, number in wanted:
        if (name, number) not in looks:
            yield f"the verifier never looked at `{name}` of process {number}"
    for look in evidence.looks:
        for name in sorted(set(facts) - set(look.properties)):
            yield f"the verifier said nothing of {name} at `{look.name}`"
    for name, count in facts.items():
        if count == 0:
            yield f"{name} was checked on no fact"
    for name in audits:
        if not any(name in look.properties and look.properties[name].facts for look in evidence.looks):
            yield f"{name}, which says whether it ran as asked, was checked on no fact"
    if not facts:
        yield "no property was checked: the subject promises none"
    if not evidence.verifier:
        yield "the verifier never said who it is"


def count_ledger(ledger: Mapping[str, object]) -> LedgerCounts:
    """What the outside world counted in one trial, from its own records."""
    requests, effects = ledger.get("requests", []), ledger.get("effects", [])
    assert isinstance(requests, list) and isinstance(effects, list)
    sent = [r.get("effect") for r in requests if r.get("do") == "send"]
    results = [r.get("result") for r in requests]
    return LedgerCounts(
        resent=len({e for e in sent if sent.count(e) > 1}),
        deduped=results.count("deduped"),
        fenced=results.count("fenced"),
        receipts=results.count("found"),
        effects=len(effects),
    )
