"""Log records as typed data. Parses what the format allows and nothing else; never raises on what it does not."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple


class Attempt(NamedTuple):
    task: int
    attempt: int  # `try` in the format
    before: str | None
    after: str


class Intent(NamedTuple):
    effect: str
    before: str | None
    after: str
    born: dict[str, Any] | None  # task, step, tool, class and args of a new intent
    receipt: Any


class Cursor(NamedTuple):
    task: int
    attempt: int
    step: int
    clock: int


Record = Attempt | Intent | Cursor


class Entry(NamedTuple):
    """One frame of the log. `record` is None, and `fault` says why, if the payload is none of the format's records."""

    lsn: int
    payload: bytes
    record: Record | None
    fault: str


def canonical(value: Any) -> str:
    """Canonical JSON, as the format defines it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def effect_identity(task: int, step: int, tool: str, args: Any) -> str:
    """The identity of an effect: what it is, never which attempt asked for it."""
    return f"{task}/{step}/{tool}/{canonical(args)}"


@lru_cache(maxsize=2048)  # the looks of a trial read the same frames again; equal bytes give equal records
def parse(payload: bytes) -> tuple[Record | None, str]:
    """A record, or None and what is wrong with the payload."""
    try:
        fields = json.loads(payload)
        if canonical(fields).encode("ascii") != payload:
            return None, "not canonical JSON"
    except (ValueError, RecursionError) as error:
        return None, f"not JSON: {error}"
    name = fields.get("r") if isinstance(fields, dict) else None
    shape = _SHAPES.get(name) if isinstance(name, str) else None
    record = shape(fields) if shape else None
    return record, "" if record else "none of the format's records"


def _is(fields: dict[str, Any], names: set[str], numbers: tuple[str, ...]) -> bool:
    return fields.keys() == names | {"r"} and all(type(fields[n]) is int and fields[n] >= 0 for n in numbers)


def _moves(fields: dict[str, Any]) -> bool:
    before, after = fields["from"], fields["to"]
    return (before is None or isinstance(before, str)) and isinstance(after, str)


def _attempt(fields: dict[str, Any]) -> Attempt | None:
    if not _is(fields, {"task", "try", "from", "to"}, ("task", "try")) or not _moves(fields):
        return None
    return Attempt(fields["task"], fields["try"], fields["from"], fields["to"])


def _intent(fields: dict[str, Any]) -> Intent | None:
    born, extra = fields.get("from") is None, {"effect", "from", "to"}
    if born:
        extra |= {"task", "step", "tool", "class", "args"}
    if fields.get("to") == "applied":
        extra |= {"receipt"}
    if not _is(fields, extra, ("task", "step") if born else ()) or not _moves(fields):
        return None
    if not isinstance(fields["effect"], str):
        return None
    if born and not (isinstance(fields["tool"], str) and isinstance(fields["class"], str)):
        return None
    about = {name: fields[name] for name in ("task", "step", "tool", "class", "args")} if born else None
    return Intent(fields["effect"], fields["from"], fields["to"], about, fields.get("receipt"))


def _cursor(fields: dict[str, Any]) -> Cursor | None:
    names = ("task", "try", "step", "clock")
    return Cursor(*(fields[n] for n in names)) if _is(fields, set(names), names) else None


_SHAPES = {"attempt": _attempt, "intent": _intent, "cursor": _cursor}
