"""Whether an answer has the shape that docs/fuzz.md gives it: what a daemon under test may get wrong first.

`fields` is total: an answer of another shape is a difference of every property that would have read it, and only
what is well-shaped is passed on. So no judge behind this has to fear an odd value, and none skips one in silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from verifier.finding import Check
from verifier.fuzz.history import OK, Request

CHATS, DRAFTS, PROMPTS, REMOVALS = "chats-durable", "drafts-durable", "prompts-once", "removals-final"
OUTBOX, WATCHES, ANSWERS, SETTINGS = "outbox-once", "watches-durable", "answers-in-time", "settings-kept"
MACHINE, WORK = "machine-kept-up", "work-done"
PROPERTIES = (CHATS, DRAFTS, PROMPTS, REMOVALS, OUTBOX, WATCHES, ANSWERS, SETTINGS, MACHINE, WORK)

Checks = Mapping[str, Check]

OUTCOMES = ("done", "crashed", "hung", "unknown")
NO_SUCH_CHAT, NOTHING_ASKS = -32001, -32002
READS = ("status", "chat/list", "chat/read", "queue/list")
BRIEF = 200  # characters of an odd value in a finding

PROMISED_BY = {
    "status": ANSWERS,
    "chat/new": CHATS,
    "chat/list": CHATS,
    "chat/read": CHATS,
    "draft/set": DRAFTS,
    "prompt/send": PROMPTS,
    "queue/list": REMOVALS,
    "queue/remove": REMOVALS,
    "outbox/send": OUTBOX,
    "watch/add": WATCHES,
    "watch/rm": WATCHES,
    "chat/rename": SETTINGS,
    "chat/mark_unread": SETTINGS,
    "chat/set_mode": SETTINGS,
    "permission/decide": SETTINGS,
}


class Field(NamedTuple):
    name: str
    fits: Callable[[Any], bool]
    expected: str
    properties: tuple[str, ...]  # that read it


def _text_or_null(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _log(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("prompt"), str) and entry.get("outcome") in OUTCOMES
        for entry in value
    )


def _decisions(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(allow, bool) for allow in value.values())


_LOG = f'a list of {{"prompt": text, "outcome": one of {", ".join(OUTCOMES)}}}'
RESULTS: dict[str, tuple[Field, ...]] = {
    "status": (Field("idle", _boolean, "true or false", (ANSWERS,)),),
    "chat/list": (Field("chats", _texts, "a list of texts", (CHATS,)),),
    "queue/list": (Field("queue", _texts, "a list of texts", (REMOVALS, PROMPTS)),),
    "queue/remove": (Field("removed", _boolean, "true or false", (REMOVALS,)),),
    "chat/read": (
        Field("draft", _text_or_null, "text or null", (DRAFTS,)),
        Field("queue", _texts, "a list of texts", (PROMPTS, REMOVALS)),
        Field("running", _text_or_null, "text or null", (PROMPTS, REMOVALS)),
        Field("log", _log, _LOG, (PROMPTS, REMOVALS)),
        Field("watches", _texts, "a list of texts", (WATCHES,)),
        Field("title", _text_or_null, "text or null", (SETTINGS,)),
        Field("mode", _text_or_null, "text or null", (SETTINGS,)),
        Field("unread", _boolean, "true or false", (SETTINGS,)),
        Field("decisions", _decisions, "an object of true or false", (SETTINGS,)),
    ),
}
NOT_THERE: dict[str, Any] = {
    "draft": None, "queue": [], "running": None, "log": [], "watches": [], "title": None, "mode": None,
    "unread": False, "decisions": {},
}  # fmt: skip
"""What a chat that is not there holds: whatever was acknowledged in it is lost with it."""


def fields(request: Request, checks: Checks) -> dict[str, Any]:
    """The well-shaped fields of an answer; what is odd about it is a difference."""
    if request.outcome != OK:
        _error(request, checks)
        gone = request.op == "chat/read" and request.code == NO_SUCH_CHAT
        return dict(NOT_THERE) if gone else {}
    result = request.answer
    if not isinstance(result, dict):
        why = f"{request.who}: the answer is no object"
        checks[PROMISED_BY[request.op]].holds(False, request.who, "an object", brief(result), why)
        result = {}
    return {
        field.name: result[field.name] for field in RESULTS.get(request.op, ()) if _fits(field, result, request, checks)
    }


def brief(value: Any) -> str:
    """A value of any size and kind, for a finding."""
    text = json.dumps(value)
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}… ({len(text)} characters)"


def _fits(field: Field, result: dict[str, Any], request: Request, checks: Checks) -> bool:
    if field.name in result and field.fits(result[field.name]):
        return True
    found = brief(result[field.name]) if field.name in result else "nothing"
    for name in field.properties:
        why = f"{request.who}: `{field.name}` of the answer is not what it must be, so what was promised cannot be seen"
        checks[name].holds(False, f"{request.who} {field.name}", field.expected, found, why)
    return False


def _error(request: Request, checks: Checks) -> None:
    """An error must be one that this operation may have. A read has nothing to refuse but a chat that is not
    there."""
    error = request.answer
    well_shaped = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    about_a_chat = "chat" in request.args and request.op != "chat/new"
    if well_shaped and request.code == NO_SUCH_CHAT:
        legal, expected = about_a_chat, "no such error of this operation"
    elif well_shaped and request.code == NOTHING_ASKS:
        legal, expected = request.op == "permission/decide", "no such error of this operation"
    elif well_shaped:
        legal, expected = request.op not in READS, "what it asked for"
    else:
        legal, expected = False, "an error with a code and a message"
    if not legal:
        why = f"{request.who} was answered with an error that it cannot have: {brief(error)}"
        checks[PROMISED_BY[request.op]].holds(False, request.who, expected, brief(error), why)
