"""A document as Markdown, for the step summary of a CI job. Pure; all that a subject said is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from lab.report.document import Document, Failure, Items, Lines, Section, Table
from lab.text import one_line

FAILURES_SHOWN = 20  # GitHub cuts a step summary at 1 MiB; the page has them all
FAILURE_HEAD = ("verdict", "what", "where", "details", "replay")
SHOWN_OF_FAILURE = ("point", "scenario", "cell", "fact", "expected", "found", "why", "reproduced")


def render(document: Document) -> str:
    """The verdict first, then what a person must see, then the tables."""
    final = document.headline
    parts = [
        f"## {'✅' if final.exit_code == 0 else '❌'} {escape(f'{final.word}: {final.sentence}')}",
        f"{escape(document.subject)} · {document.campaign} `{document.run}` · seed `{document.seed}`",
    ]
    shown = [section for section in document.sections if section.brief]
    for section in sorted(shown, key=lambda s: not s.urgent):
        parts += [f"### {escape(section.title)}", *_section(section)]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """On one line, with nothing in it that Markdown or HTML would take for its own."""
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", html.escape(one_line(text), quote=False))


def _section(section: Section) -> Iterator[str]:
    """Failures stand together in one table, before all else; a chart is of a page only."""
    failures = [block for block in section.blocks if isinstance(block, Failure)]
    if failures:
        rows = [_failure(block) for block in failures[:FAILURES_SHOWN]]
        yield _table(FAILURE_HEAD, ["---"] * len(FAILURE_HEAD), rows)
    if len(failures) > FAILURES_SHOWN:
        yield f"and {len(failures) - FAILURES_SHOWN:,} more"
    for block in section.blocks:
        match block:
            case Table():
                rule = ["---"] * block.left + ["--:"] * (len(block.head) - block.left)
                yield _table(block.head, rule, [[escape(cell.text) for cell in row] for row in block.rows])
            case Lines():
                yield "\n".join(f"- {escape(label)}: {escape(text)}" for label, text in block.rows)
            case Items():
                label = f"{block.label}: " if block.label else ""
                yield "\n".join(f"- {escape(label + entry)}" for entry in block.entries)


def _table(head: Sequence[str], rule: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Of cells that are escaped already."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _failure(block: Failure) -> list[str]:
    lines = dict(block.lines)
    details = [f"{label} {one_line(lines[label], 200)}" for label in SHOWN_OF_FAILURE if label in lines]
    cells = [block.word.value, block.title, block.where, "; ".join(details)]
    return [*map(escape, cells), f"`{lines['replay'].replace('`', '')}`"]
