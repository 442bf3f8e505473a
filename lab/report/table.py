"""Plain text in columns, at most 100 characters wide. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 100
LABEL = 10  # width of the word at the start of a line


def align(rows: Sequence[Sequence[str]], left: int = 1, gap: str = "  ") -> list[str]:
    """The rows as lines: the first `left` columns flush left, the others flush right as numbers are."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        gap.join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def in_parts(rows: Sequence[Sequence[str]], left: int) -> list[list[str]]:
    """The rows as lines, in as many tables as fit the width; the first `left` columns stand in each."""
    parts, rest = [], list(range(left, len(rows[0])))
    while rest:
        count = len(rest)
        while count > 1 and max(map(len, _columns(rows, left, rest[:count]))) > WIDTH:
            count -= 1
        parts.append(_columns(rows, left, rest[:count]))
        rest = rest[count:]
    return parts


def _columns(rows: Sequence[Sequence[str]], left: int, others: Sequence[int]) -> list[str]:
    return align([[*row[:left], *(row[n] for n in others)] for row in rows], left)


def labelled(label: str, text: str, indent: int = 0, width: int = LABEL) -> list[str]:
    """`label     text`, wrapped and hung under the text; a word longer than a line is kept whole, to be copied."""
    start = " " * indent + label.ljust(width)
    start = start if start.endswith(" ") else start + " "
    return textwrap.wrap(
        text or "-",
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * (indent + width),
        break_long_words=False,
        break_on_hyphens=False,
    )


def ends(left: str, right: str) -> str:
    """Two texts at the two ends of a line; one after the other where they do not both fit."""
    return left + " " * max(2, WIDTH - len(left) - len(right)) + right
