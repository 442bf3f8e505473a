"""One effect outside for every call that succeeded, none for any other; counted by the ledger alone."""

from __future__ import annotations

from verifier.finding import Check
from verifier.kernel import states
from verifier.kernel.case import Case
from verifier.kernel.ledger import Effect


def check(case: Case) -> Check:
    """Against the log at every look; against the script's own set at the end, with the ledger drained."""
    check = Check()
    landed: dict[str, list[Effect]] = {}
    for one in case.ledger.effects:
        landed.setdefault(one.effect, []).append(one)
    for effect, found in landed.items():
        why = "an intent is durable before its request is sent: so no effect is unknown to the log"
        check.holds(effect in case.stories, f"effects[{effect}]", "an intent in the log", _names(found), why)
    for effect in case.stories:
        _against_log(check, case, effect, landed.get(effect, []))
    for script in case.scripts:
        if case.at_end or script is not case.scripts[-1]:
            for effect, call in script.calls.items():
                why = "the script intends it so, wherever it was killed"
                _count(check, effect, (int(call.lands),), landed.get(effect, []), why)
    return check


def _against_log(check: Check, case: Case, effect: str, found: list[Effect]) -> None:
    """As many effects as the state of the intent allows, and they are what it asked for."""
    state, born = case.state(effect), case.stories[effect][0].record.born
    pure = born is not None and born["class"] == "pure"
    if pure or state in ("proposed", "resolved_failed"):
        _count(check, effect, (0,), found, f"intent {state}{', class pure' if pure else ''}: nothing may have landed")
    elif state in states.LANDED:
        _count(check, effect, (1,), found, f"intent {state}: it has landed, once")
    else:
        _count(check, effect, (0, 1), found, f"intent {state}: it may have landed, once")
    if born is not None:
        for one in found:
            asked = [born["class"], born["tool"], born["args"]]
            why = "[class, tool, args]: what landed is what was asked for"
            check.same(f"effects[{effect}]", asked, [one.kind, one.tool, one.args], why)
    for _, record in case.stories[effect]:
        if record.after == "applied" and len(found) == 1:
            why = "the receipt in the log is the one that the outside gave"
            check.same(f"effects[{effect}].receipt", found[0].receipt, record.receipt, why)


def _count(check: Check, effect: str, allowed: tuple[int, ...], found: list[Effect], why: str) -> None:
    expected = f"{allowed[-1]} effect" if len(allowed) == 1 else "0 or 1 effects"
    check.holds(len(found) in allowed, f"effects[{effect}]", expected, _names(found), why)


def _names(found: list[Effect]) -> str:
    count = f"{len(found)} effect{'' if len(found) == 1 else 's'}"
    return f"{count}: {', '.join(e.name for e in found)}" if found else count
