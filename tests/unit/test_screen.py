"""What the command line prints: a subject's bytes reach a terminal as text, and a reader may go away."""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.text import Text

from lab.cli.screen import Screen, complain, say

EVIL = "\x1b]52;c;YQ==\x07 \x9b2J \u202egnp"
TAME = "\ufffd]52;c;YQ==\ufffd \ufffd2J \ufffdgnp"


def test_every_line_is_escaped_on_both_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """Planted: `lab replay`, the `error` line and `repeat this run` printed a subject's ESC and bidi marks raw."""
    say(EVIL)
    complain(EVIL)
    assert capsys.readouterr() == (TAME + "\n", TAME + "\n")


@pytest.mark.parametrize("drawn", [EVIL, Text(EVIL, "bold")], ids=["markup", "text"])
def test_what_progress_draws_is_escaped_and_its_own_colours_stay(drawn: str | Text) -> None:
    """The console writes escape sequences of its own; a subject's must not come with them."""
    file = io.StringIO()
    Screen(file=file, force_terminal=True, color_system="standard", width=80).print(drawn)
    for word in ("\x1b]52", "\x9b", "\u202e", "\x07"):
        assert word not in file.getvalue()
    assert "\x1b[1m" in file.getvalue() or isinstance(drawn, str)


def test_a_terminal_that_knows_no_utf_8_gets_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: UnicodeEncodeError for a dash, in the middle of a campaign."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", file)
    say("plan – 3 ✓")
    assert file.buffer.getvalue() == b"plan ? 3 ?\n"  # type: ignore[attr-defined]


@pytest.fixture
def unread() -> Iterator[io.TextIOWrapper]:
    """A pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    file = os.fdopen(write, "w")
    yield file
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), write)  # what is still buffered
    file.close()


def test_a_reader_that_goes_away_stops_a_campaign_as_ctrl_c_does(unread: io.TextIOWrapper) -> None:
    """Planted: BrokenPipeError out of the progress of `lab run … | head`: "volume cannot be removed", exit 3."""
    asked = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(say("stopping")))
    try:
        with contextlib.redirect_stdout(unread):
            say("progress")
            say("more")
        Screen(file=unread).print("drawn")
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(asked) == 1


def test_progress_that_goes_away_stops_a_campaign_as_well(unread: io.TextIOWrapper) -> None:
    """rich exits with 1 by itself, which says that a promise was broken."""
    asked = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(1))
    try:
        Screen(file=unread).print("drawn")
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked == [1]


def test_a_command_that_handles_no_ctrl_c_ends_with_its_reader(unread: io.TextIOWrapper) -> None:
    """`lab show | head` must not go on for nobody."""
    with contextlib.redirect_stdout(unread), pytest.raises(BrokenPipeError):
        say("a line")
