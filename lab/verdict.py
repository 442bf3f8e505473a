"""From evidence to verdict: a pure function, so that stored evidence can be judged again.

A green run means something only because of this file: a trial passes if each link of its evidence was seen, and every
missing link makes it invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.model import Evidence, Kind, LedgerCounts, Look, Process, Verdict, Word, from_json
from lab.storage import mountinfo
from lab.storage.mountinfo import Expected

SIGKILLED = 137  # 128 + SIGKILL, as the engine reports it
RECOVERS = "recovers"  # the one property that the lab itself decides: recovery ends by itself, with exit code 0


def judge(evidence: Evidence, promises: Mapping[str, tuple[str, ...]]) -> Verdict:
    """The verdict of one trial.

    The order matters. A broken link comes first, for nothing that was seen behind it counts. Then the first difference
    that the verifier reported, in the order of its looks; then a trial that ended early; then what was never checked.
    """
    facts = {
        name: sum(look.properties[name].facts for look in evidence.looks if name in look.properties)
        for name in promises
    }
    for broken in _broken_links(evidence):
        return Verdict(Word.INVALID, broken, facts=facts)
    found = _first_difference(evidence, promises)
    if found is not None:
        look, name = found
        differs = look.properties[name].differs
        assert differs is not None
        promised = evidence.trial.fault in promises.get(name, ())
        why = differs.why or f"{differs.fact}: expected {differs.expected!r}, found {differs.found!r}"
        word = Word.VIOLATION if promised else Word.NOTE
        return Verdict(word, why, name, _broken(evidence), look.name, differs, facts)
    failure = evidence.failure
    if failure is not None:
        name = RECOVERS if failure.word is Word.VIOLATION else ""
        return Verdict(failure.word, f"{failure.phase}: {failure.what}", name, (name,) if name else (), facts=facts)
    for missing in _unchecked(evidence, facts):
        return Verdict(Word.INVALID, missing, facts=facts)
    return Verdict(Word.PASS, facts=facts)


def _broken_links(evidence: Evidence) -> Iterator[str]:
    """Each link of the chain that was looked for and found broken."""
    expected = from_json(Expected, evidence.mount)
    lines = [look.mount for look in evidence.looks] + [p.mount for p in evidence.processes if p.mount is not None]
    for line in lines:
        if why := mountinfo.audit(line, expected):
            yield f"not on {evidence.trial.storage}: {why}"
    for process in evidence.processes:
        if process.killed:
            yield from _broken_kill(process)
        elif process.oom_killed:
            yield f"process {process.number} was killed by its memory limit, not by the lab"
        elif process.exit_code == SIGKILLED:
            yield f"process {process.number} exited 137 by itself: that is not a kill"


def _broken_kill(process: Process) -> Iterator[str]:
    who = f"process {process.number}"
    if process.hit is None or str(process.hit) != process.armed:
        yield f"{who} was killed without the record of its armed hook {process.armed}"
    if process.alive is None:
        yield f"{who} was not seen alive at {process.armed}"
    if process.exit_code != SIGKILLED:
        yield f"{who} ended with exit code {process.exit_code}, not {SIGKILLED}"
    if process.oom_killed is not False:
        yield f"{who} was killed by its memory limit"
    if process.gone is None:
        yield f"{who} was not seen gone after the kill"


def _first_difference(evidence: Evidence, promises: Mapping[str, tuple[str, ...]]) -> tuple[Look, str] | None:
    """The earliest look that found a difference; of several properties the promised ones first, in their order."""
    for look in evidence.looks:
        order = [*promises, *sorted(set(look.properties) - set(promises))]
        for name in order:
            if name in look.properties and look.properties[name].differs is not None:
                return look, name
    return None


def _broken(evidence: Evidence) -> tuple[str, ...]:
    """Every property that differed at some look."""
    return tuple(sorted({name for look in evidence.looks for name, f in look.properties.items() if f.differs}))


def _unchecked(evidence: Evidence, facts: Mapping[str, int]) -> Iterator[str]:
    """Links that a whole trial must have: the kill, the restart, all looks, and facts for every property."""
    probe = evidence.trial.kind is Kind.PROBE
    killed = [process for process in evidence.processes if process.killed]
    last = evidence.processes[-1] if evidence.processes else None
    if not killed and not probe:
        yield "nothing was killed"
    if last is None or last.killed or last.exit_code != 0:
        yield "no process came to its end by itself with exit code 0"
    looks = [look.name for look in evidence.looks]
    for name in ("end",) if probe else ("killed", "recovered", "end"):
        if name not in looks:
            yield f"the verifier never looked at `{name}`"
    if not probe and looks.count("killed") != len(killed):
        yield "the verifier did not look after every kill"
    for name, number in facts.items():
        if number == 0:
            yield f"{name} was checked on no fact"


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
