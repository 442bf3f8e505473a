"""What a fuzz run says in a terminal, in numbers and in its exit code; and its progress."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
from report_fuzz_data import BUG, NOTE, RUN, SHORT, canary, data, green, result
from rich.console import Console

from lab.campaigns.fuzz_replay import _line as replay_line
from lab.fuzz.model import FuzzResult
from lab.model import RECOVERS, Kind, Word
from lab.plan.shrink import How
from lab.report.fuzz import end_text, note_lines, trial_line, violation_line
from lab.report.fuzz_data import FuzzData, Struck
from lab.report.fuzz_progress import LineFuzz, LiveFuzz, PlainFuzz, fuzz_progress_for
from lab.report.fuzz_summary import Summary, headline, summarise, to_json

VIOLATION = result(7, Word.VIOLATION)


def ended(results: list[FuzzResult], of: FuzzData) -> str:
    return end_text(results, of, summarise(results, of))


def replaced(*others: FuzzResult) -> list[FuzzResult]:
    mine = {r.trial.ident: r for r in (*green(), *others)}
    return list(mine.values())


def test_a_violation_is_one_line_that_names_seed_step_and_operation() -> None:
    """The line that a person searches a log for."""
    assert violation_line(VIOLATION) == (
        "VIOLATION seed=7/7 step=41 op=queue/remove what=removals-final: p38 of c1: it was removed, and waits again"
    )


def test_a_daemon_that_does_not_come_back_names_no_operation() -> None:
    """`recovers` is the lab's own: it has no fact of the oracle's."""
    verdict = dataclasses.replace(VIOLATION.verdict, property=RECOVERS, differs=None, why="restart: exit\ncode 75")
    line = violation_line(dataclasses.replace(VIOLATION, verdict=verdict))
    assert line == "VIOLATION seed=7/7 step=- op=- what=recovers: restart: exit code 75"


def test_a_loss_that_nobody_promised_to_prevent_is_a_note_of_the_same_form() -> None:
    """Planted: a note that cannot be told from a violation, or that lacks its operation."""
    assert note_lines(result(3, notes=(NOTE,))) == [
        "NOTE seed=7/3 step=12 op=chat/rename what=settings-kept: title of c1: expected 't12', found None"
    ]


@pytest.mark.parametrize(
    ("text", "struck"),
    [
        ("hook chat.synced#4", Struck("hook", "chat.synced")),
        ("answer#7", Struck("answer")),
        ("invoke#2 + 5 ms", Struck("invoke")),
        ("start + 20 ms", Struck("start")),
        ("end#1", Struck("end")),
    ],
)
def test_where_a_kill_struck_is_read_from_its_own_record(text: str, struck: Struck) -> None:
    """As the trial writes it down: never where the plan meant it to."""
    assert Struck.of(text) == struck


def test_losses_are_told_once_for_each_kind() -> None:
    """A run of two minutes wrote two hundred NOTE lines, and whoever read it missed the violation between them."""
    mode = NOTE.replace("chat/rename", "chat/set_mode")
    unnamed = "settings-kept: decisions of c1"
    results = [result(n, notes=(NOTE, mode)) for n in range(1, 5)] + [result(5, notes=(unnamed,))]
    lines = ended(results, data()).splitlines()
    assert [line for line in lines if line.startswith(("NOTE ", "and "))] == [
        note_lines(results[0])[0],
        "and 3 more of chat/rename",
        note_lines(results[0])[1],
        "and 3 more of chat/set_mode",
        note_lines(results[4])[0],
    ]
    many = [result(n, notes=(NOTE.replace("chat/rename", f"chat/op{n}"),)) for n in range(1, 31)]
    lines = ended(many, data()).splitlines()
    assert sum(line.startswith("NOTE ") for line in lines) == 20
    assert "and 10 more kinds of loss" in lines


def test_the_numbers_of_a_green_run() -> None:
    """Counted by hand: 12 trials of 60 operations and 4 kills in 36 s, in turn on three layers."""
    results = [*green(), canary(20)]
    summary = summarise(results, data(bugs=(BUG,)))
    assert summary.exit_code == 0
    assert (summary.trials, summary.operations, summary.kills, summary.restarts) == (12, 720, 48, 48)
    assert (summary.operations_per_s, summary.kills_per_s) == (round(780 / 36, 3), round(52 / 36, 3))
    assert summary.kinds == {"hook": 12, "answer": 12, "start": 12, "end": 12}
    assert summary.hooks == {"chat.synced": 6, "queue.removed": 6}
    assert summary.facts["removals-final"] == 84
    waits = summary.waits["queue/remove"]
    assert (waits.count, waits.p50, waits.p95, waits.p99, waits.max) == (120, 5.0, 10.0, 10.0, 10.0)
    up = summary.layers[0].up
    assert up is not None
    assert (up.p50, up.p95, up.max) == (212.0, 312.0, 312.0)
    assert (summary.bugs_planted, summary.bugs_caught) == (1, 1)
    json.dumps(to_json(summary))


def test_the_end_of_a_green_run_fits_the_screen_and_says_pass_last() -> None:
    """Plain text of at most 100 columns that needs no colour."""
    results = [*replaced(result(3, notes=(NOTE, NOTE))), canary(20)]
    text = ended(results, data(bugs=(BUG,)))
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "canaries  1 of 1 caught",
        "notes     2 chat/rename: lost, and promised by nobody",
        "hooks     2 of 2 killed at",
        "kills     12 at hooks, 12 at an answer, 12 in a start, 12 after the operations",
        "corpus    2 seeds that once failed, run first",
        "asked for 10 min",
        "NOTE seed=7/3 step=12",
    ):
        assert part in text, text
    assert "\nPASS      720 operations and 48 real kills, every promise held, 2 losses" in text


def test_a_failure_says_everything_in_one_place() -> None:
    """Promised, found, evidence, the script and the line that runs it again."""
    others = [result(8, Word.VIOLATION), result(9, Word.HANG)]
    text = ended(replaced(VIOLATION, *others), data(shrunk={7: SHORT}))
    assert text.count("VIOLATION  removals-final") == 1
    for part in (
        "trial 0007 · tmpfs · sigkill",
        "promised  removals-final after sigkill",
        'found     ["p38"]',
        f"evidence  .lab/runs/{RUN}/evidence/0007/",
        "61 to 5 operations, one at a time, after 140 candidates",
        f"lab replay {RUN} 7",
        "also      0008 on overlay",
        "kill -9   at queue.removed#1",
        "HANG  why it is hang",
    ):
        assert part in text, text
    assert "a promise was broken: 1 distinct violation; 2 violation, 1 hang of 12 trials" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_fault_of_timing_and_a_search_cut_short_are_told_apart() -> None:
    """Planted: "a fault of timing" said of a search that had no time."""
    timing = dataclasses.replace(SHORT, how=How(61, 30, 140, serial=False, finished=True))
    cut = dataclasses.replace(SHORT, how=How(61, 30, 140, serial=False, finished=False))
    assert "a fault of timing, it does not shrink further" in " ".join(
        ended([VIOLATION], data(shrunk={7: timing})).split()
    )
    text = " ".join(ended([VIOLATION], data(shrunk={7: cut})).split())
    assert "side by side, after 140 candidates; the time was up, a shorter one may be there" in text
    assert "a longer --shrink" in text
    assert "fault of timing" not in text
    assert "it does not fail one at a time" not in text


def test_a_search_that_left_nothing_out_claims_no_shorter_script() -> None:
    """Planted: "160 to 160 operations", which reads as a result."""
    same = dataclasses.replace(SHORT, how=How(160, 160, 40, serial=False, finished=False))
    text = " ".join(ended([VIOLATION], data(shrunk={7: same})).split())
    assert "no shorter than 160 operations" in text
    assert "160 to 160" not in text


def test_a_script_that_is_still_long_is_named_and_not_printed() -> None:
    """A search cut short left 272 operations, and forty lines of them buried the verdict."""
    for after, printed in ((40, True), (41, False)):
        long = dataclasses.replace(SHORT, how=How(272, after, 140, serial=False, finished=False))
        text = ended([VIOLATION], data(shrunk={7: long}))
        assert ("kill -9   at queue.removed#1" in text) is printed
        assert f"script    {SHORT.path}" in text
        assert (f"replay    lab replay {SHORT.path}" in text) is not printed  # else it is one of the script's own


def test_a_broken_promise_is_told_once_at_the_end() -> None:
    """Each was said when it was found; twelve lines before the blocks that say the same hid the blocks."""
    assert "VIOLATION seed=" not in ended(replaced(VIOLATION, result(8, Word.VIOLATION)), data())
    kinds = [result(n, Word.VIOLATION, f"property-{n:02d}") for n in range(1, 13)]
    lines = ended(kinds, data()).splitlines()
    assert [line for line in lines if line.startswith("VIOLATION seed=")] == [violation_line(r) for r in kinds[10:]]
    assert lines.count(f"and 2 more kinds of failure: lab show {RUN}") == 1


def test_the_operations_of_a_red_trial_are_those_sent() -> None:
    """ "136 operations" stood beside "272 to 4 operations", and nothing said that a kill had cut the rest."""
    assert "seed 7/7: 60 operations sent, killed at" in " ".join(ended([VIOLATION], data()).split())


def test_an_audit_is_not_said_to_be_a_promise() -> None:
    """Planted: "promised  nothing: work-done …"."""
    verdict = dataclasses.replace(result(7, Word.INVALID).verdict, property="work-done")
    text = " ".join(ended([dataclasses.replace(VIOLATION, verdict=verdict)], data()).split())
    assert "promised audit work-done: no promise, it says whether the trial ran as asked" in text


def test_a_run_of_a_planted_bug_says_which_trial_caught_it() -> None:
    """ "canaries 1 of 1 caught" was read as a second thing beside the bug that was asked for."""
    text = ended([canary(1, Word.PASS, kind=Kind.POINT), canary(2, kind=Kind.POINT)], data(bugs=(BUG,)))
    assert "planted   draft-before-write: caught by trial 0002" in text
    assert "VIOLATION the planted bug was caught by trial 0002: 1 violation of 2 trials" in text
    assert "canaries" not in text
    text = ended([canary(1, Word.PASS, kind=Kind.POINT)], data(bugs=(BUG,)))
    assert "planted   draft-before-write: not caught in 1 trial" in text


@pytest.mark.parametrize(
    ("results", "changes", "code", "word"),
    [
        (replaced(VIOLATION, result(8, Word.ERROR)), {}, 1, "VIOLATION"),
        (replaced(result(8, Word.ERROR), result(9, Word.HANG)), {}, 3, "ERROR"),
        (replaced(result(8, Word.UNREPRODUCED)), {}, 2, "UNPROVEN"),
        (replaced(result(8, Word.HANG)), {}, 2, "UNPROVEN"),
        (replaced(result(8, Word.INVALID)), {}, 2, "UNPROVEN"),
        (replaced(result(8, Word.NOTE, notes=(NOTE,))), {}, 0, "PASS"),
        (green(), {"bugs": (BUG,)}, 2, "UNPROVEN"),
        ([*green(), canary(20, Word.PASS)], {"bugs": (BUG,)}, 2, "UNPROVEN"),
        ([*green(), canary(20, prop="chats-durable")], {"bugs": (BUG,)}, 2, "UNPROVEN"),
        ([*green(), canary(20)], {"bugs": (BUG,)}, 0, "PASS"),
        ([canary(1, Word.PASS, kind=Kind.POINT), canary(2, kind=Kind.POINT)], {"bugs": (BUG,)}, 1, "VIOLATION"),
        ([canary(1, Word.PASS, kind=Kind.POINT)], {"bugs": (BUG,)}, 2, "UNPROVEN"),
        (replaced(VIOLATION), {"interrupted": True}, 130, "INTERRUPTED"),
        (green(3), {"interrupted": True, "bugs": (BUG,)}, 130, "INTERRUPTED"),
        ([], {}, 2, "NO-WORK"),
        ([result(1, operations=0)], {}, 2, "NO-WORK"),
        ([result(1, kills=())], {}, 2, "NO-WORK"),
        (green(), {"promises": {"outbox-once": ("sigkill",)}}, 2, "NO-WORK"),
        (green(), {"promises": {"outbox-once": ()}}, 0, "PASS"),
    ],
)  # fmt: skip
def test_the_exit_code_and_the_last_word_agree(
    results: list[FuzzResult], changes: dict[str, object], code: int, word: str
) -> None:
    """Planted: each of them green, or each named for another reason than its own."""
    of = data(**changes)
    summary = summarise(results, of)
    assert summary.exit_code == code
    assert headline(results, of, summary).word == word
    assert ended(results, of).splitlines()[-1].startswith(word) or word in ended(results, of).splitlines()[-2]


def test_what_is_missing_is_said() -> None:
    """NO-WORK without a reason sends a person to the source code."""
    text = ended([result(1, operations=0, kills=())], data(promises={"outbox-once": ("sigkill",)}))
    for part in ("no operation was sent", "the daemon was never killed", "outbox-once is promised, and no fact"):
        assert part in text


def test_a_daemon_that_never_came_up_is_one_reason_not_ten() -> None:
    """An image that does not start was told as a lack of operations, of kills and of each property's facts."""
    dead = result(1, Word.INVALID, operations=0, kills=(), up_ms=(), restarts=0)
    dead = dataclasses.replace(dead, verdict=dataclasses.replace(dead.verdict, facts={}))
    text = ended([dead], data())
    assert text.count("missing ") == 1
    assert "no daemon came up: nothing was killed or checked" in text


def test_a_replay_is_told_in_lines_that_fit_the_screen() -> None:
    """A daemon's traceback, carets and all, came as one line of two thousand characters."""
    why = "it ended by itself; last words: " + "File x.py, line 7 |     ~~~^^^^^^ | " * 60
    verdict = dataclasses.replace(VIOLATION.verdict, why=why)
    text = replay_line(3, verdict, f".lab/runs/{RUN}/replays/0007/3")
    lines = text.splitlines()
    assert lines[0].startswith("     3   violation of removals-final: it ended by itself; last words: File x.py")
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 9
    assert "^" not in text
    assert "| |" not in text
    assert lines[-1] == f"         evidence .lab/runs/{RUN}/replays/0007/3"
    passed = dataclasses.replace(verdict, word=Word.PASS, property="")
    assert replay_line(1, passed, "") == "     1   pass"


def test_a_missed_bug_is_named_with_its_tries() -> None:
    """Until it is caught, a pass of its property means nothing."""
    text = ended([*green(), canary(20, Word.PASS)], data(bugs=(BUG,)))
    assert "CANARY MISSED  1 planted bug not caught" in text
    assert "must be caught by drafts-durable within 4 trials: 0020 pass" in text


def test_hooks_that_were_never_killed_at_are_named() -> None:
    """A hook that no seed reaches is a hole in the campaign."""
    of = data(hooks=("chat.synced", "queue.removed", "recovery.locked"))
    assert "2 of 3 killed at; never: recovery.locked" in ended(green(), of)
    many = ended(green(), data(hooks=tuple(f"hook-{n}" for n in range(26))))
    assert "hook-5 and 20 more (report.html)" in " ".join(many.split())
    assert "hook-6" not in many
    assert "the daemon has no hooks" in ended(green(), data(hooks=()))


def test_no_number_of_a_canary_is_in_a_verdict() -> None:
    """Planted: a caught canary that makes its run red."""
    summary: Summary = summarise([*green(), canary(20)], data(bugs=(BUG,)))
    assert summary.verdicts["violation"] == 0
    assert summary.trials == 12


class Clock:
    """A clock that stands still unless it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pipe_gets_a_line_every_few_seconds_and_each_violation_at_once() -> None:
    """A CI log of an hour must show that it lives, and never ten thousand lines."""
    clock, lines = Clock(), []
    progress = PlainFuzz("fuzz", ("ext4",), lines.append, clock)
    progress.start(10.0, None)
    progress.finished(result(3))
    assert lines == []
    progress.finished(result(6, Word.VIOLATION, notes=(NOTE,)))
    assert [line.split()[0] for line in lines] == ["VIOLATION"]  # losses are for the end, or for -v
    progress.finished(result(9, Word.HANG))
    assert lines[-1] == trial_line(result(9, Word.HANG))
    clock.now = 65.0
    progress.finished(result(12))
    assert lines[-1] == (
        "fuzz     0:01:05 of 0:10:00   4 trials   240 operations   16 kills   2 pass, 1 violation, 1 hang"
    )
    progress.stop()
    progress.stop()
    assert len(lines) == 3


def test_a_line_of_progress_fits_the_screen_and_counts_one_as_one() -> None:
    """Planted: "1 trials", and lines of three layers that a terminal folds."""
    clock, lines = Clock(), []
    progress = PlainFuzz("fuzz", ("ext4", "tmpfs", "overlay"), lines.append, clock)
    progress.start(None, 1)
    clock.now = 65.0
    progress.finished(result(1, operations=1, kills=("end#1",)))
    assert (
        lines[-1] == "fuzz     0:01:05   1/1 trial   1 operation   1 kill   ext4 0 pass   tmpfs 1 pass   overlay 0 pass"
    )
    for ident, word in enumerate(Word, 2):
        clock.now += 65.0
        progress.finished(result(ident, word, operations=1_000_000))
    assert len(lines) > len(Word)
    assert max(len(line) for line in lines if line.startswith("fuzz")) <= 100
    assert lines[-1].endswith("…")


def test_canaries_are_progress_and_no_verdict() -> None:
    """A planted bug is meant to be red."""
    lines: list[str] = []
    progress = PlainFuzz("fuzz", ("ext4",), lines.append, Clock())
    progress.start(None, 30)
    progress.finished(canary(3))
    progress.stop()
    assert lines == ["fuzz     0:00:00   0/30 trials   60 operations   4 kills   ext4 0 pass   canaries 1 run"]


def test_a_terminal_gets_a_bar_of_the_time_and_a_pipe_does_not() -> None:
    """Escape sequences in a CI log are noise."""
    screen = io.StringIO()
    live = fuzz_progress_for("fuzz", ("ext4",), Console(file=screen, force_terminal=True, width=100))
    assert isinstance(live, LiveFuzz)
    live.stop()
    live.start(10.0, None)
    live.finished(VIOLATION)
    assert live._live is not None
    live._live.refresh()
    live.stop()
    live.stop()
    shown = screen.getvalue()
    assert "of 0:10:00   1 trial   60 operations   4 kills" in shown
    assert "VIOLATION seed=7/7 step=41" in shown
    pipe = io.StringIO()
    plain = fuzz_progress_for("fuzz", ("ext4",), Console(file=pipe))
    plain.start(1.0, None)
    plain.finished(result(1))
    plain.stop()
    assert pipe.getvalue().startswith("fuzz     0:00:0")
    assert "\x1b" not in pipe.getvalue()


def test_verbose_writes_a_line_a_trial_that_fits_the_screen() -> None:
    """A planted bug's name may be long."""
    lines: list[str] = []
    progress = LineFuzz(lines.append)
    progress.start(None, None)
    noted = dataclasses.replace(VIOLATION, notes=(NOTE,))
    progress.finished(noted)
    progress.finished(canary(20))
    assert lines[0] == trial_line(VIOLATION)
    assert lines[1].startswith("VIOLATION seed=7/7")
    assert [lines[2]] == note_lines(noted)
    assert lines[0].split()[:3] == ["0007", "tmpfs", "violation"]
    assert "canary draft-before-write: seed 7/20, 60 operations, 4 kills" in lines[3]
    assert all(len(line) <= 100 for line in (lines[0], lines[3]))
