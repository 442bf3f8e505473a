"""From evidence to verdict: a pure function, so that stored evidence can be judged again.

A green run means something only because of this file: a trial passes if each link of its evidence was seen, and every
missing link makes it invalid. What the links are depends on the script (`lab.trial.links`); what outweighs what does
not, and stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.model import RECOVERS, Evidence, Fact, Json, LedgerCounts, Look, Result, Scenario, Verdict, Word
from lab.trial import links

MAX_NOTES = 20  # of one trial, in its verdict; the evidence has all


def judge(evidence: Evidence, promises: Mapping[str, Sequence[str]], audits: Sequence[str] = ()) -> Verdict:
    """The verdict of one trial. `audits` are properties that say whether it ran as it was asked to, and no promises.

    The order matters. A broken link comes first, for nothing that was seen behind it counts. Then the first difference
    that breaks a promise; then a trial that ended early; then an audit that differs, or a link that was never made, as
    of a property that was checked on no fact. Only then an unpromised loss: it is green, and may hide none of these.
    """
    checked = [name for name in promises if name != RECOVERS]
    facts = {**_facts(evidence, (*checked, *audits)), RECOVERS: len(evidence.up_ms)}
    broken = _broken(evidence, audits)
    failure = evidence.failure

    def promised(look: Look, name: str) -> bool:
        return _is_promised(promises.get(name, ()), _struck(evidence, look.process))

    notes = tuple(
        f"{name}: {differs.fact}: {_why(differs)}"
        for look, name, differs in _first_differences(evidence)
        if name not in audits and not promised(look, name)
    )[:MAX_NOTES]

    def differing(word: Word, look: Look, name: str, differs: Fact) -> Verdict:
        why = differs.why or f"{differs.fact}: {_why(differs)}"
        return Verdict(word, why, name, broken, look.name, differs, facts, notes)

    def missing(why: str) -> Verdict:
        said = f" ({failure.phase}: {failure.what})" if failure else ""
        return Verdict(Word.INVALID, f"{why}{said}", facts=facts, notes=notes)

    chain = links.of(evidence.trial.script)
    if chain.audits_first:
        for look, name, differs in _differences(evidence, audits):
            return differing(Word.INVALID, look, name, differs)
    for link in chain.links:
        for wrong in link(evidence):
            return missing(wrong)
    for look, name, differs in _differences(evidence, checked):
        if promised(look, name):
            return differing(Word.VIOLATION, look, name, differs)
    if failure is not None:
        why = f"{failure.phase}: {failure.what}"
        if failure.word is not Word.VIOLATION:
            return Verdict(failure.word, why, facts=facts, notes=notes)
        struck = _struck(evidence, len(evidence.processes))
        # That a recovery ends is promised under every fault, unless said otherwise.
        kept = RECOVERS not in promises or _is_promised(promises[RECOVERS], struck)
        return Verdict(Word.VIOLATION if kept else Word.NOTE, why, RECOVERS, broken, facts=facts, notes=notes)
    for look, name, differs in _differences(evidence, audits):
        return differing(Word.INVALID, look, name, differs)
    for unmade in (*(link(evidence) for link in chain.owed), _unchecked(evidence, checked, audits)):
        for wrong in unmade:
            return missing(wrong)
    for look, name, differs in _differences(evidence, broken):
        return differing(Word.NOTE, look, name, differs)
    return Verdict(Word.PASS, facts=facts)


def _is_promised(survives: Sequence[str], struck: set[str]) -> bool:
    """Whether a property that is claimed to survive some faults survives all that struck."""
    return bool(survives) and struck <= {*survives}


def _struck(evidence: Evidence, number: int) -> set[str]:
    """The faults that struck up to that process: one that is planned, and never came to strike, excuses no loss."""
    return {p.fault for p in evidence.processes if p.number <= number and p.fault is not None}


def _facts(evidence: Evidence, names: Sequence[str]) -> dict[str, int]:
    return {
        name: sum(look.properties[name].facts for look in evidence.looks if name in look.properties) for name in names
    }


def _why(differs: Fact) -> str:
    return differs.why or f"expected {differs.expected!r}, found {differs.found!r}"


def _differences(evidence: Evidence, names: Sequence[str]) -> Iterator[tuple[Look, str, Fact]]:
    """What differed of these properties: the earliest look first, within it in the order of the names."""
    for look in evidence.looks:
        for name in names:
            if name in look.properties and (differs := look.properties[name].differs) is not None:
                yield look, name, differs


def _first_differences(evidence: Evidence) -> Iterator[tuple[Look, str, Fact]]:
    seen: set[str] = set()
    for look in evidence.looks:
        for name, finding in look.properties.items():
            if finding.differs is not None and name not in seen:
                seen.add(name)
                yield look, name, finding.differs


def _broken(evidence: Evidence, audits: Sequence[str]) -> tuple[str, ...]:
    """Every property that differed at some look, and `recovers` if that is how the trial ended."""
    differed = {name for _, name, _ in _first_differences(evidence)} - set(audits)
    failed = evidence.failure is not None and evidence.failure.word is Word.VIOLATION
    return tuple(sorted(differed | ({RECOVERS} if failed else set())))


def _unchecked(evidence: Evidence, promised: Sequence[str], audits: Sequence[str]) -> Iterator[str]:
    """What the verifier owes: an answer for every property at every look, and facts: of each, or at least of some."""
    for look in evidence.looks:
        for name in sorted({*promised, *audits} - set(look.properties)):
            yield f"the verifier said nothing of {name} at `{look.name}`"
    facts = _facts(evidence, promised)
    if not links.of(evidence.trial.script).facts_each and any(facts.values()):
        facts = {}
    for name, count in (facts | _facts(evidence, audits)).items():
        if count == 0:
            yield f"{name}{', which says whether it ran as asked,' if name in audits else ''} was checked on no fact"
    if not promised:
        yield "no property was checked: the subject promises none"
    if not evidence.verifier:
        yield "the verifier never said who it is"


def in_brief(evidence: Evidence, verdict: Verdict, kept: str | None) -> Result:
    """A trial as one line of the journal."""
    last = evidence.phases[-1] if evidence.phases else None
    sent = evidence.history if isinstance(evidence.trial.script, Scenario) else ()  # others are a subject's own words
    return Result(
        trial=evidence.trial,
        verdict=verdict,
        hits=tuple(p.hit for p in evidence.processes if p.killed and p.hit is not None),
        up_ms=evidence.up_ms,
        starts=evidence.starts,
        took_s=(last.began_ms + last.took_ms) / 1000 if last else 0.0,
        counts=count_ledger(evidence.ledger),
        processes=sum(p.racer is None for p in evidence.processes),
        operations=sum(line.get("event") == "invoke" and bool(line.get("step")) for line in sent),
        waits_ms=waits_ms(sent),
        mount=evidence.looks[-1].mount if evidence.looks else "",
        verifier=evidence.verifier,
        evidence=kept,
    )


def waits_ms(history: Sequence[Json]) -> dict[str, tuple[float, ...]]:
    """How long each request of a client waited, per operation: until its answer, or until it was given up."""
    invoked: dict[int, tuple[str, float]] = {}
    waits: dict[str, list[float]] = {}
    for line in history:
        if line.get("event") == "invoke":
            invoked[line["id"]] = (line["op"], line["at_ms"])
        elif line.get("event") in ("ok", "fail", "info"):
            op, at_ms = invoked.pop(line["id"])
            waits.setdefault(op, []).append(round(line["at_ms"] - at_ms, 1))
    return {op: tuple(found) for op, found in sorted(waits.items())}


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
