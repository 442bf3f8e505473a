"""What may be asked of the ledger on a trial's socket: a line of bytes becomes a request, or `Malformed` says why not.

Pure: no socket and no store is touched here, so that nothing half-checked ever reaches them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

CLASSES = ("pure", "keyed", "once")
MAX_TEXT = 8192  # of an effect, a key or a tool, in bytes
MAX_TOKEN = 2**63 - 1  # SQLite's integers
MAX_DEPTH = 32  # of the objects and lists of a request; Python's JSON fails, in every reader, at some 1,000


class Malformed(Exception):
    """A line that is no request; the message is for the person who wrote its sender."""


@dataclass(frozen=True)
class Send:
    """Do it: the effect `effect` of class `klass`."""

    effect: str
    klass: str
    key: str | None
    token: int
    tool: str | None
    args: Any


@dataclass(frozen=True)
class Fence:
    """From now on refuse a `Send` of `effect` whose token is lower."""

    effect: str
    token: int


@dataclass(frozen=True)
class Receipt:
    """Has `effect` landed?"""

    effect: str


Request = Send | Fence | Receipt


def parse(line: bytes) -> Request:
    """One line without its LF. Raises Malformed."""
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise Malformed("not a JSON object")
    _check_values(asked)
    match asked.get("do"):
        case "send":
            return _send(asked)
        case "fence":
            return Fence(_text(asked, "effect"), _token(asked))
        case "receipt":
            return Receipt(_text(asked, "effect"))
    raise Malformed("`do` is none of send, fence, receipt")


def _check_values(asked: Any) -> None:
    """Bound the depth, and refuse the numbers that JSON does not have: what is recorded, every reader can read."""
    level, depth = [asked], 0
    while level:
        if depth >= MAX_DEPTH and any(isinstance(value, dict | list) for value in level):
            raise Malformed(f"nested more than {MAX_DEPTH} deep")
        if any(isinstance(value, float) and not math.isfinite(value) for value in level):
            raise Malformed("a number is infinite or NaN")
        depth += 1
        level = [inner for value in level for inner in _inside(value)]


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _send(asked: dict[str, Any]) -> Send:
    klass = asked.get("class")
    if klass not in CLASSES:
        raise Malformed(f"`class` is none of {', '.join(CLASSES)}")
    if klass == "keyed" and asked.get("key") is None:
        raise Malformed("a keyed send needs a `key`")
    key = None if asked.get("key") is None else _text(asked, "key")
    tool = None if asked.get("tool") is None else _text(asked, "tool")
    args = asked.get("args")
    try:
        json.dumps(args, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Malformed("`args` is not valid Unicode") from None
    return Send(_text(asked, "effect"), klass, key, _token(asked), tool, args)


def _text(asked: dict[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        raise Malformed(f"`{name}` is not a text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise Malformed(f"`{name}` is not valid Unicode") from None
    if size > MAX_TEXT:
        raise Malformed(f"`{name}` is longer than {MAX_TEXT} bytes")
    return value


def _token(asked: dict[str, Any]) -> int:
    value = asked.get("token")
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_TOKEN:
        raise Malformed("`token` is not an integer of 64 bits")
    return value
