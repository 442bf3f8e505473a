"""What a terminal and a pipe get: the end table, the blocks of red runs, progress, show and compare."""

from __future__ import annotations

import dataclasses
import io
import threading

import pytest
from report_data import (
    DIFFERS,
    STORAGES,
    canary_result,
    green,
    green_results,
    point_result,
    probe_result,
    replaced,
    run_of,
)
from rich.console import Console

from lab.model import CrashPoint, Evidence, Fact, Finding, Hit, Look, Phase, Process, Verdict, Word
from lab.report.compare import compare
from lab.report.console import FAILURES_SHOWN, end_text, layer_table
from lab.report.progress import LineProgress, LiveProgress, PlainProgress, progress_for
from lab.report.show import UnknownTrial, show_run, show_trial
from lab.report.summary import summarise
from lab.report.table import WIDTH
from lab.report.text import printable


def red():
    """One of each way to be red, and a missed canary."""
    words = (Word.VIOLATION, Word.HANG, Word.INVALID, Word.ERROR, Word.UNREPRODUCED, Word.NOTE)
    others = [point_result(9 + n, "ext4", word) for n, word in enumerate(words)]
    results = replaced(
        green_results(), *others, canary_result(301, "tmpfs", Word.PASS, ""), probe_result(400, Word.HANG)
    )
    return run_of(results, expected_hooks=5)


def huge():
    """Long names and large numbers everywhere."""
    long = "h" * 70
    fact = Fact("intents[" + "x" * 300 + "]", list(range(300)), "y " * 500, "because " * 60)
    result = point_result(9, "ext4", Word.VIOLATION)
    result = dataclasses.replace(
        result,
        trial=dataclasses.replace(result.trial, points=(CrashPoint(1, long, 99_999), CrashPoint(2, long, 1))),
        verdict=dataclasses.replace(result.verdict, differs=fact, why="why " * 90),
        recovery_ms=(1_234_567.0,),
    )
    return run_of(replaced(green_results(), result), points_known=98_765_432)


def text_of(data):
    return end_text(data, summarise(data))


def evidence_of(result):
    return Evidence(
        trial=result.trial,
        nonce="n",
        mount={"fstype": "ext4"},
        phases=(Phase("provision", 0, 31.2), Phase("kill", 121, 12)),
        processes=(
            Process(1, ("kernel", "run"), "log.synced#4", Hit("log.synced", 4), "psutil", True, 137, False, "engine"),
            Process(2, ("kernel", "recover"), None, log="last words \x1b[31m\x00\n" + "z" * 500),
        ),
        looks=(
            Look("killed", 1, {"prefix-durable": Finding(41)}),
            Look("recovered", 2, {"prefix-durable": Finding(0), "effects-exactly-once": Finding(12, DIFFERS)}),
        ),
        history=(
            {"process": 1, "op": "append", "type": "invoke", "id": 7, "task": 2},
            {"process": 1, "died": True},
        ),
        ledger={
            "requests": [{"seq": 1, "do": "send", "effect": "e1", "result": "landed"}],
            "effects": [{"seq": 2, "effect": "e1", "receipt": "r" * 300}],
        },
        verifier="kernel 1",
        starts=3,
        recovery_ms=(41.0,),
    )


@pytest.mark.parametrize("make", [green, red, huge, lambda: dataclasses.replace(green(), results=())])
def test_nothing_is_wider_than_100_columns(make):
    """A narrow terminal and a CI log break a wider table; only what is to be copied whole may be longer."""
    data = make()
    whole = show_trial(data, 9, evidence_of(point_result(9, "ext4"))) if data.results else ""
    texts = [text_of(data), show_run(data), compare(data), compare(data, red()), whole]
    for text in texts:
        for line in text.splitlines():
            assert len(line) <= WIDTH or max(map(len, line.split())) > 60, line


@pytest.mark.parametrize("make", [green, red, huge])
def test_no_colour_and_no_control_character_reaches_a_terminal(make):
    """A subject's last words may hold escape sequences."""
    texts = (text_of(make()), show_trial(make(), 9, evidence_of(point_result(9, "ext4"))))
    assert all(c == "\n" or c.isprintable() for text in texts for c in text)


def test_the_end_of_a_green_run_says_what_it_rests_on():
    """The last line is the verdict; all above it are its reasons."""
    lines = text_of(green()).splitlines()
    assert lines[0].split()[:7] == ["layer", "trials", "pass", "violation", "hang", "invalid", "error"]
    assert lines[1].split()[:7] == ["ext4", "40", "40", "0", "0", "0", "0"]
    assert "canaries  3 of 3 caught" in lines
    assert "hooks     4 of 4 killed at on every layer · 24 second crashes inside recovery" in lines
    assert lines[-1] == "PASS      144 real kills, every promise held, in 5 min 58 s"


def test_a_violation_says_everything_in_one_place():
    """Point, promise, fact, evidence and replay line: nobody should need a second command to understand it."""
    text = text_of(run_of(replaced(green_results(), point_result(109, "tmpfs", Word.VIOLATION))))
    for part in (
        "VIOLATION  effects-exactly-once",
        "trial 0109 · tmpfs · sigkill",
        "log.synced#4 (workload 1; class pure)",
        "effects-exactly-once after sigkill or powercut",
        "expected  1",
        "found     2",
        "requests 41 and 58, the second after recovery",
        ".lab/runs/20261130-101502-7f3a/evidence/0109/",
        "lab replay 20261130-101502-7f3a 0109",
        "seed      814467209",
    ):
        assert part in text, part
    assert text.splitlines()[-1].startswith("VIOLATION ")


def test_a_violation_names_every_property_that_broke():
    """The first that differed is an accident of order; the others may say more."""
    result = point_result(109, "tmpfs", Word.VIOLATION)
    verdict = dataclasses.replace(result.verdict, broken=("effects-exactly-once", "legal-state"))
    text = text_of(run_of(replaced(green_results(), dataclasses.replace(result, verdict=verdict))))
    assert "  also broke legal-state" in text


def test_a_red_run_names_every_missing_link():
    """Missed canary, missing coverage and each red word have their own block."""
    text = text_of(red())
    for part in ("CANARY MISSED", "must be caught by prefix-durable; tries: 0301 pass", "NO-WORK", "5 are expected"):
        assert part in text, part
    for word in ("VIOLATION", "ERROR", "UNREPRODUCED", "HANG", "INVALID"):
        assert f"\n{word}  " in text, word


def test_a_column_for_notes_appears_only_when_there_are_some():
    """A rare word must not be hidden, nor cost width in every run."""
    assert "note" not in layer_table(summarise(green()))[0]
    assert {"note", "unreproduced"} <= set(layer_table(summarise(red()))[0].split())


def test_a_flood_of_failures_is_cut_and_counted():
    """A broken layer fails 500 times; the first failures are what is read."""
    data = run_of([point_result(i, "ext4", Word.VIOLATION) for i in range(40)], storages=("ext4",))
    assert f"and {40 - FAILURES_SHOWN} more red trials: lab show" in text_of(data)


def test_an_interrupted_run_tells_how_to_finish_it_and_does_not_complain_of_missing_work():
    """Ctrl-C is no finding."""
    data = dataclasses.replace(green(), results=tuple(green_results()[:30]), interrupted=True)
    text = text_of(data)
    assert "INTERRUPTED 30 of 123 trials done; `lab resume 20261130-101502-7f3a` finishes it" in text
    assert "NO-WORK" not in text
    assert "CANARY" not in text


class Clock:
    """Seconds that pass only when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pipe_gets_plain_lines_at_bounded_intervals():
    """A CI log wants neither a line for each of 1,500 trials nor silence."""
    clock, lines = Clock(), []
    progress = PlainProgress("matrix", STORAGES, lines.append, clock)
    progress.start(40)
    for n in range(40):
        clock.now += 0.5
        progress.finished(point_result(n, "ext4"))
    progress.stop()
    assert len(lines) == 4
    assert " ".join(lines[0].split()) == "matrix 10/40 2.0/s 0:00:15 left ext4 10 pass tmpfs 0 pass overlay 0 pass"
    assert lines[-1].startswith("matrix   40/40")


def test_a_red_trial_is_said_at_once_and_a_canary_is_not():
    """An hour of nightly run should not hide a violation until its end; a canary is meant to be red."""
    lines = []
    progress = PlainProgress("matrix", STORAGES, lines.append, Clock())
    progress.start(9)
    progress.finished(canary_result(300, "ext4"))
    progress.finished(point_result(7, "ext4", Word.INVALID))
    assert len(lines) == 1
    assert lines[0].split()[:4] == ["2/9", "0007", "ext4", "invalid"]


def test_the_rate_is_of_the_last_half_minute():
    """A stall must show: the time left of an average since the start would go on shrinking."""
    clock, lines = Clock(), []
    progress = PlainProgress("matrix", STORAGES, lines.append, clock)
    progress.start(1000)
    for n in range(90):
        clock.now += 0.1
        progress.finished(point_result(n, "ext4"))
    clock.now += 60
    progress.finished(point_result(91, "ext4"))
    assert "0.0/s" in lines[-1]


def test_verbose_writes_one_whole_line_a_trial_whatever_the_threads_do():
    """Four workers report at the same time."""
    lines = []
    progress = LineProgress(lines.append)
    progress.start(200)
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


def test_a_terminal_gets_a_live_bar_and_a_pipe_does_not():
    """Escape sequences in a CI log are noise."""
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    live = progress_for("matrix", STORAGES, terminal)
    assert isinstance(live, LiveProgress)
    live.start(10)
    live.finished(point_result(1, "ext4"))
    live.finished(point_result(2, "tmpfs", Word.HANG))
    live._live.refresh()
    live.stop()
    live.stop()
    shown = screen.getvalue()
    assert "2/10" in shown
    assert "ext4 1 pass   tmpfs 0 pass, 1 hang" in shown
    pipe = io.StringIO()
    plain = progress_for("matrix", STORAGES, Console(file=pipe))
    plain.start(1)
    plain.finished(point_result(1, "ext4"))
    plain.stop()
    assert pipe.getvalue().startswith("matrix   1/1")
    assert "\x1b" not in pipe.getvalue()


def test_layers_side_by_side_mark_what_differs_and_name_the_points():
    """`overlay` lost what `ext4` kept: that is what a comparison is for."""
    data = run_of(replaced(green_results(), point_result(209, "overlay", Word.VIOLATION)))
    text = compare(data)
    row = next(line for line in text.splitlines() if line.startswith("violation"))
    assert row.split() == ["violation", "0", "0", "≠", "1"]
    assert "log.synced#4 (workload 1): ext4 pass, tmpfs pass, overlay violation" in text
    assert "40 of 8,214" in text


def test_equal_layers_have_no_mark():
    """A mark that is always there says nothing."""
    text = compare(green())
    assert "≠" not in text.split("legend")[0]
    assert text.count("of the failure rate") == 1
    assert "40 points tried on more than one of ext4, tmpfs, overlay: 0 ended differently" in text


def test_two_runs_are_compared_point_by_point_only_if_they_are_of_the_same_seed():
    """Workload 3 of another seed is another workload."""
    broken = run_of(replaced(green_results(), point_result(9, "ext4", Word.HANG)), run="20261131-000000-0000")
    same, other = compare(green(), broken), compare(green(), dataclasses.replace(broken, seed=5))
    assert "log.synced#4 (workload 1): ext4 A pass, ext4 B hang" in same
    assert "not compared one by one" in other
    assert "ended differently" not in other


def test_two_runs_with_different_layers_say_which_is_missing():
    """Never compared silently with nothing."""
    alone = run_of(green_results()[:40], storages=("ext4",))
    assert "tmpfs: only in A" in compare(green(), alone)


def test_a_trial_whose_evidence_was_kept_is_shown_whole():
    """Phases, processes, hooks, looks, history and ledger, in the order they happened."""
    data = run_of(replaced(green_results(), point_result(9, "ext4", Word.VIOLATION)))
    text = show_trial(data, 9, evidence_of(point_result(9, "ext4")))
    order = ["provision", "process 1: kernel run", "process 2", "look killed", "look recovered", "history", "ledger, 2"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    for part in ("exit 137", "alive: psutil", "1/7   invoke  append task=2", "process 1 was killed here", "no fact"):
        assert part in text, part


def test_a_trial_in_brief_says_that_it_is_in_brief():
    """Nobody should look for evidence that was never kept."""
    text = show_trial(green(), 9)
    assert text.startswith("PASS ")
    assert "in brief" in text
    assert "killed at log.synced#4 (class pure)" in text


def test_an_unknown_and_an_unfinished_trial_are_told_apart():
    """A typo gets the range of numbers, an interrupted run gets the command that goes on."""
    data = dataclasses.replace(green(), results=tuple(green_results()[1:]))
    with pytest.raises(UnknownTrial, match="no trial 9999; its trials are 0000 to 0302"):
        show_trial(data, 9999)
    assert "lab resume" in show_trial(data, 0)


def test_a_verdict_without_a_reason_still_has_a_title():
    """The lab's own bug must not become an empty line."""
    result = dataclasses.replace(point_result(9, "ext4"), verdict=Verdict(Word.ERROR))
    assert "ERROR  no reason recorded" in text_of(run_of(replaced(green_results(), result)))


def test_text_that_would_turn_a_line_around_is_shown_as_what_it_is():
    """A name that a daemon makes up may hold a right-to-left override: the rest of the line would read backwards."""
    assert printable("c1\N{RIGHT-TO-LEFT OVERRIDE}2") == "c1\N{REPLACEMENT CHARACTER}2"
