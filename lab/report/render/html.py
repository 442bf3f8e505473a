"""A document as one self-contained page: no script, nothing fetched, light and dark, narrow and wide, fit to print.

Pure but for reading its own templates. They escape everything that they are given. Same document, same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lab.report import text
from lab.report.document import SYMBOLS, Document
from lab.text import visible

KEY = {
    "process": "runs",
    "recovery": "recovers",
    "operation": "operation (hollow: no answer)",
    "look": "look",
    "request": "request",
    "effect": "effect",
    "broke": "what broke",
}
STEPS = (1, 2, 5, 10)  # of an axis, times a power of ten
TICKS = 6


def render(document: Document) -> str:
    first = sorted(document.sections, key=lambda section: not section.urgent)  # what a person must see
    return _pages().get_template("report.html.j2").render(document=document, sections=first, key=KEY)


@cache
def _pages() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent.parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(ticks=ticks, decades=decades, log10=math.log10, share_line=share_line)
    made.filters.update(duration=text.duration, symbol=lambda word: SYMBOLS.get(word, ""))
    made.tests["block"] = lambda block, kind: type(block).__name__ == kind
    return made


def _safe(value: object) -> object:
    """HTML forbids control characters even escaped; `Markup` is our own and stays as it is."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def ticks(longest: float) -> list[float]:
    """Round numbers from 0 up to `longest`, at most seven."""
    if longest <= 0:
        return [0.0]
    power = 10 ** math.floor(math.log10(longest / TICKS))
    step = next(step for s in STEPS if (step := s * power) * TICKS >= longest)
    return [float(n * step) for n in range(TICKS + 1) if n * step <= longest]


def decades(least: float, most: float) -> list[float]:
    """Powers of ten around both: the ends and the marks of a logarithmic axis."""
    first = math.floor(math.log10(least))
    last = max(first + 1, math.ceil(math.log10(most)))
    return [10.0**n for n in range(first, last + 1)]


def share_line(values: Sequence[float], left: float, width: float, top: float, height: float, longest: float) -> str:
    """The points of a staircase: of the sorted values, the share that does not exceed x."""
    corners = [(0.0, 0.0)]
    for number, value in enumerate(values, 1):
        corners += [(value, corners[-1][1]), (value, number / len(values))]
    corners.append((longest, 1.0))
    return " ".join(f"{left + width * x / longest:.1f},{top + height * (1 - y):.1f}" for x, y in corners)
