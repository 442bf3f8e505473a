"""What is printed: a stranger's bytes reach a terminal and a report as text, and as nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.text import one_line, visible


@pytest.mark.parametrize(
    "bad",
    ["\x1b", "\x9b", "\x9d", "\x07", "\r", "\x00", "\x7f", "\u202e", "\u2067", "\u200f", "\u061c", "\u2028", "\ud800"],
    ids=lambda char: f"U+{ord(char):04X}",
)
def test_what_steers_a_terminal_is_replaced(bad: str) -> None:
    """Planted: ESC ] 52 in a subject's log sets the clipboard of whoever replays it; U+202E turns a verdict around."""
    assert visible(f"a{bad}[31mb") == "a\ufffd[31mb"


def test_words_tabs_and_line_breaks_stay() -> None:
    """Escaping everything that is not ASCII would make most names unreadable."""
    text = "größer\t日本 👩\u200d🔧\nnext ━"
    assert visible(text) == text


@given(st.text())
def test_a_line_is_one_line_of_the_asked_length(text: str) -> None:
    """A subject that prints line feeds must not write lines of its own into a report."""
    line = one_line(text, 20)
    assert len(line) <= 20
    assert len(line.splitlines()) <= 1
    assert line.isprintable() or set(line) - set(visible(line)) == set()
    assert visible(visible(text)) == visible(text)
