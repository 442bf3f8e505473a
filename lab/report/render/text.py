"""A document for a terminal or a pipe: plain lines, no colour, at most 100 columns but for paths. Pure.

The verdict comes last, next to the prompt; what a person must see stands just above it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab.report.document import Block, Document, Failure, Items, Lines, Section, Table
from lab.report.text import LABEL, align, ends, in_parts, labelled
from lab.text import one_line, visible

FAILURES_SHOWN = 10  # more scroll the first, which is the one to read, off the screen


def render(document: Document, report: Path | None = None, *, everything: bool = False) -> str:
    """The end of a run; `everything` adds what else is on the page: hooks, canaries, the environment."""
    lines: list[str] = []
    for section in document.sections:
        if not section.urgent and (section.brief or everything):
            lines += ["", *([section.title.upper(), ""] if not section.brief else []), *_section(section)]
    if report:
        lines += labelled("report", str(report))
    urgent = [section for section in document.sections if section.urgent]
    for section in urgent:
        lines += ["", *([section.heading] if section.heading else []), *_section(section)]
    if urgent:
        lines.append("")
    final = document.headline
    return "\n".join([*lines[1:], *labelled(final.word, final.sentence, width=max(LABEL, len(final.word) + 2))]) + "\n"


def _section(section: Section) -> list[str]:
    lines: list[str] = []
    failures = 0
    for block in section.blocks:
        failures += isinstance(block, Failure)
        if isinstance(block, Failure) and failures > FAILURES_SHOWN:
            continue
        shown = list(_block(block))
        lines += ["", *shown] if lines and shown and isinstance(block, Table | Failure) else shown
    hidden = failures - FAILURES_SHOWN
    return [*lines, "", f"and {hidden:,} more kinds of failure, on the page"] if hidden > 0 else lines


def _block(block: Block) -> Iterator[str]:
    match block:
        case Table():
            rows = [block.head, *([one_line(cell.text) for cell in row] for row in block.rows)]
            only_text = len(block.head) == block.left
            yield from align(rows, block.left) if only_text else in_parts(rows, block.left)
        case Lines():
            width = max(LABEL, *(len(label) + 2 for label, _ in block.rows))
            for label, text in block.rows:
                yield from labelled(label, one_line(text), width=width)
        case Items():
            for entry in block.entries:
                yield from labelled(block.label, one_line(entry), width=max(LABEL, len(block.label) + 2))
        case Failure():
            yield from failure_lines(block)
        case _:  # a chart: of a page only
            return


def failure_lines(block: Failure) -> Iterator[str]:
    """One red trial: what, where, promised, found, evidence, and the line that repeats it."""
    yield ends(f"{block.word.upper()}  {block.title}", block.where)
    width = max(LABEL, *(len(label) + 1 for label, _ in block.lines))
    for label, text in block.lines:
        yield from labelled(label, one_line(text), indent=2, width=width)
    yield from (" " * LABEL + visible(line) for line in block.script)
