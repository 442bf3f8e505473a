"""Progress: it never runs past its end, fills on resume, says what broke at once, and suits what it is written to."""

from __future__ import annotations

import dataclasses
import io
import threading

import pytest
from report_data import STORAGES, canary_result, point_result
from report_fuzz_data import NOTE, canary, noted, result
from rich.console import Console

from lab.model import Word
from lab.report.progress import Goal, LiveBar, PlainLines, Tally, TrialLines, progress_for
from lab.report.text import WIDTH


class Clock:
    """Seconds that pass only when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def plain(goal, clock=None, done=(), spent_s=0.0, storages=STORAGES, campaign="matrix"):
    lines: list[str] = []
    progress = PlainLines(storages, lines.append, clock or Clock())
    progress.start(campaign, goal, done, spent_s)
    return progress, lines


def test_a_pipe_gets_plain_lines_at_bounded_intervals():
    """A CI log wants neither a line for each of 1,500 trials nor silence."""
    clock = Clock()
    progress, lines = plain(Goal(40), clock)
    for n in range(40):
        clock.now += 0.5
        progress.finished(point_result(n, "ext4"))
    progress.stop()
    assert len(lines) == 4
    assert " ".join(lines[0].split()) == "matrix 10/40 2.0/s 0:00:15 left ext4 10 pass tmpfs 0 pass overlay 0 pass"
    assert lines[-1].startswith("matrix   40/40")


def test_a_red_trial_is_said_at_once_and_a_canary_is_not():
    """An hour of nightly run should not hide a violation until its end; a canary is meant to be red."""
    progress, lines = plain(Goal(9))
    progress.finished(canary_result(300, "ext4"))
    progress.finished(point_result(7, "ext4", Word.INVALID))
    progress.finished(result(8, Word.VIOLATION))
    assert [line.split()[:4] for line in lines] == [
        ["2/9", "0007", "ext4", "INVALID"],
        ["3/9", "0008", "overlay", "VIOLATION"],
    ]
    assert "seed 7/8 step 41 queue/remove: removals-final" in lines[1]


def test_the_rate_is_of_the_last_half_minute():
    """A stall must show: the time left of an average since the start would go on shrinking."""
    clock = Clock()
    progress, lines = plain(Goal(1000), clock)
    for n in range(90):
        clock.now += 0.1
        progress.finished(point_result(n, "ext4"))
    clock.now += 60
    progress.finished(point_result(91, "ext4"))
    assert "0.0/s" in lines[-1]


def test_a_resumed_run_goes_on_where_it_was_and_fills():
    """It began at 0 of what was left, said `54 of 120 trials left` of a complete run, and never filled."""
    clock = Clock()
    done = [point_result(n, "ext4") for n in range(60)]
    tally = Tally(STORAGES, Goal(62), done, 30.0, clock)
    assert (tally.position(), tally.rate(), tally.left()) == ("60/62", 0.0, "-:--:-- left")
    for n in (60, 61):
        clock.now += 1
        tally.add(point_result(n, "ext4"))
    assert (tally.position(), tally.share(), tally.left(), tally.is_full()) == ("62/62", 1.0, "0:00:00 left", True)


def test_it_never_runs_past_its_end():
    """`5/3 -1:59:58 left`: of more trials than were announced, and of a clock that is over its time."""
    clock = Clock()
    tally = Tally(STORAGES, Goal(3, seconds=60), [point_result(n, "ext4") for n in range(5)], 0.0, clock)
    assert (tally.position(), tally.share()) == ("5/5", 1.0)
    clock.now = 3600.0
    assert tally.left() == "0:00:00 left"


def test_the_tries_of_a_canary_are_one_unit():
    """It is caught by the first try or by the fourth: a bar that counts tries stops short, or jumps."""
    tally = Tally(STORAGES, Goal(2), [], 0.0, Clock())
    for ident in (300, 301, 302):
        tally.add(canary_result(ident, "ext4", Word.PASS, ""))
    tally.add(point_result(1, "ext4"))
    assert tally.position() == "2/2"


def test_a_run_that_ends_by_the_clock_counts_its_time_also_that_of_earlier_sessions():
    """Resumed after 4 of 10 minutes it has 6 left; its canaries are no trials of its own."""
    clock = Clock()
    tally = Tally(STORAGES, Goal(seconds=600, canaries=False), [result(1), canary(20)], 240.0, clock)
    clock.now = 60.0
    assert (tally.share(), tally.left()) == (0.5, "0:05:00 left")
    assert tally.status().startswith("1 trial   0.0/s   0:05:00 left   8 kills   120 operations")


def test_a_line_fits_the_screen_whatever_the_numbers():
    """Lines of three layers that a terminal folds; "1 trials"."""
    clock = Clock()
    progress, lines = plain(Goal(None), clock)
    for ident, word in enumerate((*Word, *Word), 1):
        clock.now += 65.0
        progress.finished(result(ident, word, operations=1_000_000))
    shown = [line for line in lines if line.startswith("matrix")]
    assert len(shown) == 2 * len(Word)
    assert max(map(len, shown)) <= WIDTH
    assert shown[-1].endswith("…")


def test_what_was_not_said_yet_is_said_at_the_end_and_once():
    """A run of two seconds must not end in silence."""
    progress, lines = plain(Goal(30, canaries=False), campaign="fuzz", storages=("ext4",))
    progress.finished(canary(3))
    progress.stop()
    progress.stop()
    assert lines == ["fuzz     0/30   0.0/s   -:--:-- left   4 kills   60 operations   ext4 0 pass   canaries 1 run"]


def test_verbose_writes_whole_lines_whatever_the_threads_do():
    """Four workers report at the same time."""
    lines: list[str] = []
    progress = TrialLines((), lines.append)
    progress.start("matrix", Goal(200))
    workers = [
        threading.Thread(target=lambda w=w: [progress.finished(point_result(w * 50 + n, "ext4")) for n in range(50)])
        for w in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(10)
    progress.stop()
    assert [line.split()[0] for line in lines] == [f"{n}/200" for n in range(1, 201)]


def test_verbose_says_what_was_found():
    """Violations and losses, and a planted bug by its name."""
    lines: list[str] = []
    progress = TrialLines((), lines.append)
    progress.start("fuzz", Goal(3))
    for each in (result(7, Word.VIOLATION), noted(8, NOTE), canary(20, Word.PASS)):
        progress.finished(each)
    assert [line.split()[0] for line in lines] == ["1/3", "VIOLATION", "2/3", "NOTE", "3/3"]
    assert "canary draft-before-write: seed 7/20, 60 operations" in lines[4]
    assert all(len(line) <= WIDTH for line in lines if line[0].isdigit())


@pytest.mark.parametrize("verbose", [False, True])
def test_a_pipe_gets_no_escape_sequence(verbose):
    """They are noise in a CI log."""
    lines: list[str] = []
    progress = progress_for(STORAGES, Console(file=io.StringIO()), verbose, lines.append)
    assert isinstance(progress, TrialLines if verbose else PlainLines)
    progress.start("matrix", Goal(1))
    progress.finished(point_result(1, "ext4"))
    progress.stop()
    assert lines
    assert all(line.isprintable() for line in lines)


def test_a_terminal_gets_a_live_bar_and_what_broke_above_it():
    """And the cursor back, however often it is stopped."""
    screen = io.StringIO()
    live = progress_for(STORAGES, Console(file=screen, force_terminal=True, width=100), False, print)
    assert isinstance(live, LiveBar)
    live.stop()
    live.start("matrix", Goal(10))
    live.finished(point_result(1, "ext4"))
    live.finished(dataclasses.replace(point_result(2, "tmpfs", Word.HANG)))
    live.stop()
    live.stop()
    shown = screen.getvalue()
    assert "2/10" in shown
    assert "ext4 1 pass   tmpfs 0 pass, 1 hang" in shown
    assert "HANG" in shown
