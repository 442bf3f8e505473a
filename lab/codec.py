"""Turns the words of the lab into JSON and back: every file, journal line and protocol record goes through here.

What comes from outside is bounded in size and depth before it is parsed, and checked for its shape after (by pydantic):
wrong data raises ValueError, one line with its place, and never something later. May not do I/O.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable
from functools import cache
from typing import Any, NoReturn, TypeVar, cast, overload

from pydantic import TypeAdapter, ValidationError

from lab.text import one_line

T = TypeVar("T")
SAID_DEPTH = 32  # of what a subject, a client or a workload says
DEPTH = 64  # of a file, or a service's answer, that holds such words with some levels of its own around them
LIMIT_BYTES = 128 * 1024 * 1024  # of one text
SHOWN = 3  # places of a damaged value that are named
SHOWN_CHARS = 200  # of each

# A string, closed or not, or a bracket. Possessive: an unclosed string costs one pass, not one from each quote.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class OutOfBounds(ValueError):
    """JSON, perhaps, but larger or deeper than the lab reads, or with a number or text that no file could hold."""


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def to_json(value: Any) -> Any:
    """A dataclass of ours (or a container of them) as plain JSON data."""
    kind = object if isinstance(value, dict | list | tuple) else type(value)
    return _adapter(cast(Hashable, kind)).dump_python(value, mode="json")


def from_json(kind: type[T], data: Any) -> T:
    """The reverse of `to_json`. Raises ValueError with the place, if a field is missing or of another type."""
    try:
        # As JSON: only there is a list strictly a tuple, while "7" is no number and true no 1.
        found: T = _adapter(cast(Hashable, kind)).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        places = [f"{'.'.join(map(str, e['loc'])) or 'all of it'}: {e['msg']}" for e in error.errors()[:SHOWN]]
        raise ValueError("; ".join(one_line(place, SHOWN_CHARS) for place in places)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def dump(value: Any, *, pretty: bool = False) -> bytes:
    """The text of a value, with a line feed: one line, or `pretty` for a file that people read."""
    layout: dict[str, Any] = {"indent": 1, "sort_keys": True} if pretty else {"separators": (",", ":")}
    return (json.dumps(to_json(value), **layout) + "\n").encode()


@overload
def parse(text: bytes | str, *, what: str = ..., limit_bytes: int = ..., depth: int = ...) -> Any: ...
@overload
def parse(text: bytes | str, kind: type[T], *, what: str = ..., limit_bytes: int = ..., depth: int = ...) -> T: ...
def parse(
    text: bytes | str,
    kind: type[T] | None = None,
    *,
    what: str = "",
    limit_bytes: int = LIMIT_BYTES,
    depth: int = DEPTH,
) -> Any:
    """JSON text as data, or as a `kind`. `what` names its place: a path, or a path and a line.

    Raises ValueError, in one line that begins with `what`; OutOfBounds if it is too large or too deep.
    """
    try:
        data = _data(text, limit_bytes, depth)
        return data if kind is None else from_json(kind, data)
    except ValueError as error:
        raised = OutOfBounds if isinstance(error, OutOfBounds) else ValueError
        raise raised(f"{what}: {error}" if what else str(error)) from None


def _data(text: bytes | str, limit_bytes: int, depth: int) -> Any:
    if len(text) > limit_bytes:
        raise OutOfBounds(f"it is larger than {size(limit_bytes)}")
    # Decoded here and not by json, which takes UTF-16 as well: a scan for brackets would read past those.
    plain = text.decode("utf-8") if isinstance(text, bytes) else text
    check_depth(plain, depth)
    data = json.loads(plain, parse_constant=_no_number, parse_float=_finite)
    if _SURROGATE.search(plain):
        _check_text(data)
    return data


def check_depth(text: str, depth: int) -> None:
    """Raise OutOfBounds if brackets outside strings are nested deeper. For JSON; it need not be valid."""
    if text.count("{") + text.count("[") <= depth:
        return
    now = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "{[":
            now += 1
            if now > depth:
                raise OutOfBounds(f"it is nested deeper than {depth} levels")
        elif first in "}]":
            now -= 1


def size(count_bytes: int) -> str:
    """`64 MiB`, `4 KiB`, `100 bytes`: a bound, in a person's words."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count_bytes >= unit:
            return f"{count_bytes / unit:g} {name}"
    return f"{count_bytes} bytes"


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise OutOfBounds(f"the number {one_line(digits, 20)} is too large")
    return value


def _no_number(name: str) -> NoReturn:
    raise OutOfBounds(f"{name} is no JSON")


def _check_text(data: Any) -> None:
    """Half of a surrogate pair may stand in JSON, and in no file."""
    try:
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise OutOfBounds("it holds half of a surrogate pair, which is no text") from None
