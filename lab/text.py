"""Makes text from outside safe to print: a subject's words must not steer a terminal, turn a line around or break XML.

Everything that the command line prints and every report goes through `visible`.
"""

from __future__ import annotations

import re

# C0 and C1 controls (ESC, CSI, OSC, CR; not tab and newline), marks that turn text around, separators that break a
# line unseen, lone surrogates, and what XML cannot hold.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_MESSAGE = ("error", "exception", "panic", "fatal", "assert")  # a word of the line that a stack is about


def visible(text: str) -> str:
    """`text` with a replacement character for each that is not to be printed; tabs and line breaks stay."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def last_words(log: str, most: int) -> list[str]:
    """The last `most` lines that a program printed, and before them the message of a stack that is longer than that."""
    lines = [line.rstrip() for line in visible(log).splitlines() if line.strip()]
    tail, before = lines[-most:], lines[:-most]
    if any(map(_is_message, tail)):
        return tail
    message = next(filter(_is_message, reversed(before)), None)
    return [message, "…", *tail] if message else tail


def _is_message(line: str) -> bool:
    return any(word in line.lower() for word in _MESSAGE)


def one_line(text: str, limit: int = 0) -> str:
    """`visible`, its white space run together, and cut to `limit` characters if one is given."""
    line = " ".join(visible(text).split())
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"
