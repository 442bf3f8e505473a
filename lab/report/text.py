"""Plain text: numbers, times and values as they are worded everywhere; and columns. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import Any

from lab.model import Json, Trial
from lab.text import one_line, visible

WIDTH = 100
LABEL = 10  # width of the word at the start of a line


def value(data: Any) -> str:
    """An expected or found value on one line."""
    text = data if isinstance(data, str) else json.dumps(data, sort_keys=True, ensure_ascii=False, default=str)
    return visible(text)


def pairs(entry: Json) -> str:
    """`effect=e-1 key=k-1`; what is None is left out."""
    return one_line(" ".join(f"{k}={value(v)}" for k, v in entry.items() if v is not None))


def ident(trial: Trial) -> str:
    """A trial's number as it is shown and typed."""
    return f"{trial.ident:04d}"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 hook`, `1,200 hooks`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def duration(seconds: float) -> str:
    """`4.2 s`, `5 min 58 s`, `2 h 3 min`."""
    whole = round(seconds)
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(share: float) -> str:
    """A share as a percentage that is never rounded down: it is used for upper bounds."""
    digits = 1 if share >= 0.001 else 3
    scale = 10**digits
    return f"{-(-share * 100 * scale // 1) / scale:.{digits}f} %"


def some(names: Sequence[str], limit: int = 6) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def flat(tree: Json, prefix: str = "") -> list[tuple[str, str]]:
    """A tree of JSON data as (dotted name, value) rows, in the order it was written."""
    rows: list[tuple[str, str]] = []
    for key, entry in tree.items():
        if isinstance(entry, dict) and entry:
            rows += flat(entry, f"{prefix}{key}.")
        elif isinstance(entry, list) and all(isinstance(v, str | int | float) for v in entry):
            rows.append((prefix + key, ", ".join(map(str, entry))))
        else:
            rows.append((prefix + key, value(entry)))
    return rows


def align(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """The rows as lines: the first `left` columns flush left, the others flush right as numbers are."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if n < left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def in_parts(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """The rows as lines, in as many tables below each other as fit the width; each has the first `left` columns."""
    lines: list[str] = []
    rest = list(range(left, len(rows[0])))
    while rest:
        for count in range(len(rest), 0, -1):
            part = align([[*row[:left], *(row[n] for n in rest[:count])] for row in rows], left)
            if max(map(len, part)) <= WIDTH:
                break
        lines += ["", *part] if lines else part
        rest = rest[count:]
    return lines


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
