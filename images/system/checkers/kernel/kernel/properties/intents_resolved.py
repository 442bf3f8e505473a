"""No intent is left in the air, and the ledger shows that each went its class's way.

`pure` and `keyed` are sent again with the same key. `once` is sent again only behind a fence above every earlier send
and a receipt question, asked after that fence, that found none. Judged by tokens and the ledger's own order, never by
time: the log and the ledger have no common clock, but a token is the LSN of a durable record.
"""

from __future__ import annotations

from verifier.finding import Check
from verifier.kernel import states
from verifier.kernel.case import Case, Move
from verifier.kernel.ledger import Request
from verifier.kernel.records import Intent

# What the ledger must have said for an outcome: to a send, and to a receipt question.
SENT = {"applied": ("landed", "deduped", "computed"), "resolved_failed": ("declined",), "proposed": ()}
ASKED = {"applied": "found", "resolved_failed": "declined", "proposed": "none"}


def check(case: Case) -> Check:
    """Requests and outcomes at every look; nothing in the air at recovered and end; all resolved at the end."""
    check = Check()
    calls = {effect: call for script in case.scripts for effect, call in script.calls.items()}
    for effect, story in case.stories.items():
        born = story[0].record.born
        about = calls[effect].about if effect in calls else None
        check.same(f"intents[{effect}]", about, born, "an intent is a call that the script makes")
    for request in case.ledger.requests:
        _request(check, case, request)
    processes = _processes(case)
    for effect, story in case.stories.items():
        requests = case.ledger.of(effect)
        if _class(story) == "once":
            _sent_once(check, effect, requests)
        _outcomes(check, effect, story, requests, processes)
        if not case.after_crash:
            state = story[-1].record.after
            expected = "proposed or resolved" if case.look == "recovered" else "resolved"
            why = "recovery resolves every intent that was dispatched, by its class"
            settled = state in (states.SETTLED if case.look == "recovered" else states.RESOLVED)
            check.holds(settled, f"intents[{effect}].state", expected, state, why)
    for effect, call in calls.items():
        if case.at_end or call not in case.scripts[-1].calls.values():
            expected = "resolved_ok" if call.ok else "resolved_failed"
            why = "the script makes this call, and the outside's answer to it is fixed"
            check.same(f"intents[{effect}].state", expected, case.state(effect), why)
    return check


def _class(story: list[Move]) -> str | None:
    born = story[0].record.born
    return born["class"] if born else None


def _processes(case: Case) -> dict[int, int]:
    """Which process wrote an LSN, as far as it was acknowledged."""
    oks = (e for e in case.history if e.get("op") == "append" and e.get("type") == "ok")
    return {e["lsn"]: e["process"] for e in oks if type(e.get("lsn")) is int}


def _request(check: Check, case: Case, request: Request) -> None:
    """One request is about an intent of the log, and a send carries the token, class and key of its dispatch."""
    if request.result == "malformed":
        check.holds(False, request.name, "a well-formed request", "malformed", "the ledger could not read it")
        return
    story = case.stories.get(request.effect)
    why = "an intent is durable before anything is asked of the outside"
    fact = f"{request.name}: {request.do} {request.effect}"
    if not check.holds(story is not None, fact, "an intent in the log", "none", why) or story is None:
        return
    if request.do != "send":
        return
    durable = case.log.entries[request.token - 1].record if 1 <= request.token <= case.log.end else None
    dispatched = isinstance(durable, Intent) and (durable.effect, durable.after) == (request.effect, "dispatched")
    expected = f"the LSN of a dispatched record of {request.effect}"
    why = "a send carries as token the LSN of its dispatched record, durable before the send"
    check.holds(dispatched, f"{fact}, token", expected, request.token, why)
    check.same(f"{fact}, class", _class(story), request.kind, "the class is the intent's")
    check.same(f"{fact}, key", request.effect, request.key, "the key is the effect's identity, in every send of it")


def _sent_once(check: Check, effect: str, requests: tuple[Request, ...]) -> None:
    """Between any two sends of a `once` effect lie a fence above the earlier and, after it, a receipt of none."""
    sends = sorted((r for r in requests if r.do == "send"), key=lambda r: r.token)
    for number, later in enumerate(sends):
        for earlier in sends[:number]:
            fact = f"{later.name}: second send of {effect} (token {later.token}, after {earlier.token})"
            why = "`once` is not deduped: it may be sent again only when it is certain that it has not landed"
            fenced, asked = _asked_behind_fence(requests, earlier.token, later.token, "none", later)
            found = "no fence" if not fenced else "a fence, but no receipt question after it that found none"
            expected = f"a fence above token {earlier.token}, then a receipt question that found none"
            check.holds(asked, fact, expected, "both" if asked else found, why)


def _asked_behind_fence(
    requests: tuple[Request, ...], above: int, upto: int, answer: str, before: Request | None = None
) -> tuple[bool, bool]:
    """Was a fence raised with a token in (above, upto], and was a receipt question answered so after it?"""
    fenced = False
    for request in requests:
        if request is before:
            break
        if request.do == "fence" and above < request.token <= upto:
            fenced = True
        if fenced and request.do == "receipt" and request.result == answer:
            return True, True
    return fenced, False


def _outcomes(
    check: Check, effect: str, story: list[Move], requests: tuple[Request, ...], processes: dict[int, int]
) -> None:
    """Each outcome of a dispatch in the log rests on something the ledger said.

    The reply to a send counts for a `once` only in the process that sent it: what a dead process was told, nobody
    knows. Where a process is not known from the history, the two are taken to be the same.
    """
    once = _class(story) == "once"
    dispatch = 0
    for lsn, record in story:
        if record.after == "dispatched":
            dispatch = lsn
        if record.before != "dispatched" or record.after not in SENT:
            continue
        sender, owner = processes.get(dispatch), processes.get(lsn)
        heard = not once or sender is None or owner is None or sender == owner
        replied = heard and any(
            r.do == "send"
            and r.result in SENT[record.after]
            and r.reply != "lost"
            and (not once or r.token == dispatch)
            for r in requests
        )
        answer = ASKED[record.after]
        fenced, asked = _asked_behind_fence(requests, dispatch, lsn, answer)
        behind = (once or record.after == "proposed") and asked
        found = "a fence, but no such answer after it" if fenced else "no fence and no reply it could know"
        fact = f"log[{lsn}] intents[{effect}] -> {record.after}"
        expected = f"the reply to a send, or a fence above token {dispatch} and then a receipt question: {answer}"
        why = f"an outcome rests on what the outside said; class {_class(story)}"
        check.holds(replied or behind, fact, expected, "as expected" if replied or behind else found, why)
