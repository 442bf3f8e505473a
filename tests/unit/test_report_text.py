"""What a terminal gets at the end of a run: what it rests on, the blocks of red trials, and the verdict last."""

from __future__ import annotations

import dataclasses

import pytest
import report_cells_data as cells
import report_fuzz_data as clients
from report_data import canary_result, green, green_results, point_result, probe_result, replaced, run_of
from report_evidence import BROKEN, by_clients, of_itself
from report_views import end, flat

from lab.model import CrashPoint, CrashScript, Fact, Kind, Reproduced, Verdict, Word
from lab.report.failures import finding_line, note_line
from lab.report.render.text import FAILURES_SHOWN
from lab.report.reports import MATRIX
from lab.report.text import WIDTH
from lab.report.trial import show_run, show_trial

VIOLATION = clients.result(7, Word.VIOLATION)


def red():
    """One of each way to be red, and a missed canary."""
    words = (Word.VIOLATION, Word.HANG, Word.INVALID, Word.ERROR, Word.NOTE)
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
    script = CrashScript(1, (CrashPoint(1, long, 99_999), CrashPoint(2, long, 1)))
    result = dataclasses.replace(
        result,
        trial=dataclasses.replace(result.trial, script=script),
        verdict=dataclasses.replace(result.verdict, differs=fact, why="why " * 90),
        up_ms=(1_234_567.0,),
    )
    return run_of(replaced(green_results(), result), points_known=98_765_432)


def driven(*others, **changes):
    """A run of clients with these results in it."""
    return clients.run_of(list({r.trial.ident: r for r in (*clients.green(), *others)}.values()), **changes)


RUNS = [green, red, huge, cells.green, cells.red, cells.nightly, cells.interrupted, cells.nothing_offered,
        cells.of_a_bug, driven, lambda: driven(VIOLATION, clients.noted(3), reproducers={7: clients.short()}),
        lambda: dataclasses.replace(green(), results=())]  # fmt: skip


@pytest.mark.parametrize("make", RUNS)
def test_nothing_is_wider_than_100_columns_or_more_than_plain_text(make):
    """A narrow terminal and a CI log break a wider table; only what is to be copied whole may be longer."""
    for line in end(make()).splitlines():
        assert len(line) <= WIDTH or max(map(len, line.split())) > 60, line
        assert line == "" or line.isprintable()


def test_the_end_of_a_green_run_says_what_it_rests_on():
    """The last line is the verdict; all above it are its reasons."""
    assert end(green()) == (
        "layer    trials  pass  violation  hang  invalid  error  recovery p50/p95/max  starts  first points\n"
        "ext4         40    40          0     0        0      0       49 / 67 / 69 ms     3.2   40 of 8,214\n"
        "tmpfs        40    40          0     0        0      0       59 / 77 / 79 ms     3.2   40 of 8,214\n"
        "overlay      40    40          0     0        0      0       69 / 87 / 89 ms     3.2   40 of 8,214\n"
        "\n"
        "hooks     4 of 4 killed at on every layer\n"
        "points    40 trials a layer, struck first at 40 different points of the 8,214 that the census knows;\n"
        "          24 in all struck again in a later life\n"
        "effects   240 re-sent, 120 deduped, 120 fenced, 120 receipts found: counted by the ledger\n"
        "facts     6,360 facts compared for 2 properties\n"
        "canaries  3 of 3 caught\n"
        "bound     at most 11.4 % of the untried points fail (95 %, from 25 of 8,205 drawn at random)\n"
        "PASS      144 real kills, every promise held, in 5 min 58 s\n"
    )


def test_a_subject_without_a_ledger_has_no_line_of_effects():
    """`effects 0 re-sent, 0 deduped` was taken for something that had failed."""
    assert "effects" not in end(green(has_ledger=False))


def test_a_violation_says_everything_in_one_place():
    """Point, promise, fact, evidence and replay line: nobody should need a second command to understand it."""
    broken = dataclasses.replace(point_result(109, "tmpfs", Word.VIOLATION), reproduced=Reproduced(0, 3))
    text = end(run_of(replaced(green_results(), broken)))
    for part in (
        "VIOLATION  effects-exactly-once",
        "trial 0109 · tmpfs · sigkill",
        "log.synced#4 (workload 1; class pure)",
        "effects-exactly-once after sigkill or powercut",
        "expected   1",
        "found      2",
        "requests 41 and 58, the second after recovery",
        "reproduced 0 of 3 times",
        ".lab/runs/20261130-101502-7f3a/evidence/0109/",
        "lab replay 20261130-101502-7f3a 0109",
        "seed       814467209",
    ):
        assert part in text, part
    assert text.splitlines()[-1].startswith("VIOLATION ")


def test_a_violation_names_every_property_that_broke():
    """The first that differed is an accident of order; the others may say more."""
    result = point_result(109, "tmpfs", Word.VIOLATION)
    verdict = dataclasses.replace(result.verdict, broken=("effects-exactly-once", "legal-state"))
    assert "  also broke legal-state" in end(
        run_of(replaced(green_results(), dataclasses.replace(result, verdict=verdict)))
    )


def test_trials_that_broke_alike_are_one_block():
    """300 blocks of one fault bury the second fault."""
    alike = [point_result(n, "ext4", Word.VIOLATION) for n in (9, 12)]
    text = end(run_of(replaced(green_results(), *alike, point_result(10, "ext4", Word.VIOLATION))))
    assert text.count("VIOLATION  effects-exactly-once") == 2  # at two hooks
    assert "also      0012 on ext4" in text
    assert "3 violations of 120 trials (2 kinds of violation)" in flat(text)


def test_a_red_run_names_every_missing_link():
    """Missed canary, missing coverage and each red word have their own block; the verdict is next to the prompt."""
    text = end(red())
    for part in ("NO-WORK · CANARY MISSED", "must be caught by prefix-durable: 0301 pass", "5 are expected"):
        assert part in flat(text), part
    for word in ("VIOLATION", "ERROR", "HANG", "INVALID"):
        assert f"\n{word}  " in text, word


def test_a_column_for_notes_appears_only_when_there_are_some():
    """A rare word must not be hidden, nor cost width in every run."""
    assert "note" not in end(green()).splitlines()[0]
    assert "note" in end(red()).splitlines()[0].split()


def test_a_flood_of_failures_is_cut_and_counted():
    """A broken subject fails in twenty ways; the first failures are what is read."""
    results = [
        dataclasses.replace(r, verdict=dataclasses.replace(r.verdict, property=f"property-{n}"))
        for n, r in enumerate(point_result(i, "ext4", Word.VIOLATION) for i in range(40))
    ]
    text = end(run_of(results, storages=("ext4",)))
    assert f"and {40 - FAILURES_SHOWN} more kinds of failure" in text
    assert text.count("VIOLATION  property-") == FAILURES_SHOWN


def test_an_interrupted_run_tells_how_to_finish_it_and_does_not_complain_of_missing_work():
    """Ctrl-C is no finding."""
    data = dataclasses.replace(green(), results=tuple(green_results()[:30]), interrupted=True)
    text = end(data)
    assert "INTERRUPTED  30 of 123 trials done; `lab resume 20261130-101502-7f3a` finishes it" in text
    assert "NO-WORK" not in text
    assert "CANARY" not in text


def test_a_verdict_without_a_reason_still_has_a_title():
    """The lab's own bug must not become an empty line."""
    result = dataclasses.replace(point_result(9, "ext4"), verdict=Verdict(Word.ERROR))
    assert "ERROR  no reason recorded" in end(run_of(replaced(green_results(), result)))


# The list of trials, and one of them.


def test_a_run_lists_its_trials_red_ones_first_and_says_how_to_see_the_others():
    """`lab replay latest 9999` says that `lab show` lists them, and it began with 22 lines of environment."""
    text = show_run(red(), MATRIX)
    lines = text.splitlines()
    assert lines[0] == "run 20261130-101502-7f3a  matrix of kernel, seed 814467209"
    assert [line.split()[2] for line in lines[2:8]] == ["violation", "error", "hang", "hang", "invalid", "pass"]
    assert "124 trials run, 5 red; 104 more: lab show 20261130-101502-7f3a --all" in flat(text)
    assert "lab show 20261130-101502-7f3a 0009" in flat(text)
    assert "storage_driver" not in text
    everything = show_run(red(), MATRIX, everything=True)
    assert "storage_driver" in everything
    assert "0302  overlay  violation  canary ack-before-append: log.synced#2 (workload 0)" in everything
    assert lines[-1] in everything


@pytest.mark.parametrize("evidence", [of_itself, by_clients])
def test_one_trial_fits_the_screen(evidence):
    """With its picture, its phases and its history."""
    data = run_of([point_result(12, "ext4", Word.VIOLATION)]) if evidence is of_itself else driven(VIOLATION)
    text = show_trial(data, 12 if evidence is of_itself else 7, evidence())
    assert max(map(len, text.splitlines())) <= WIDTH
    assert BROKEN.property in text or "removals-final" in text


# Cells.


def test_one_table_says_the_word_of_each_leg():
    """A word is the worst of its trials; a pass beside a violation must not hide it. Layers that agree are one row."""
    lines = [flat(line) for line in end(cells.red()).splitlines()]
    assert lines[:6] == [
        "cell layer default delete wal",
        "prefix-durability ext4 pass 3 not offered invalid 1 of 3",
        "tmpfs pass 3 not offered pass 3",
        "consume-once each layer note 1 of 3 – –",
        "outbox-exactly-once ext4 pass 3 not offered pass 3",
        "tmpfs pass 3 not offered violation 1 of 3",
    ]


def test_an_audit_is_not_called_a_promise():
    """A leg that ran in another journal mode broke nothing, and counts for nothing."""
    text = end(cells.red())
    assert "prefix-durability@wal: journal-mode" in text
    assert "nothing: journal-mode says whether it ran as asked" in text


def test_a_note_is_shown_once_for_its_leg_with_its_evidence():
    """Not red, and not silent: seven trials of the same limbo are one story."""
    text = end(cells.red())
    first, second = (cells.number(cells.red(), cells.CELLS[1], "default", s, 2) for s in cells.STORAGES)
    assert text.count("NOTE  consume-once@default") == 1
    assert f"also      {second:04d} on tmpfs" in text
    assert f"evidence/{first:04d}/" in text


# Runs of clients.


def test_a_violation_is_one_line_that_names_trial_step_and_operation():
    """The line that a person searches a log for."""
    assert finding_line(VIOLATION) == (
        "VIOLATION seed 7/7 step 41 queue/remove: removals-final: p38 of c1: it was removed, and waits again"
    )


def test_a_daemon_that_does_not_come_back_names_no_operation():
    """`recovers` is the lab's own: it has no fact of a checker's."""
    verdict = dataclasses.replace(VIOLATION.verdict, property="recovers", differs=None, why="restart: exit\ncode 75")
    line = finding_line(dataclasses.replace(VIOLATION, verdict=verdict))
    assert line == "VIOLATION seed 7/7: recovers: restart: exit code 75"
    assert "it starts again after each kill" in end(driven(dataclasses.replace(VIOLATION, verdict=verdict)))


def test_losses_are_told_once_for_each_kind():
    """A run of two minutes wrote two hundred NOTE lines, and whoever read it missed the violation between them."""
    mode = clients.NOTE.replace("chat/rename", "chat/set_mode")
    results = [clients.noted(n, clients.NOTE, mode) for n in range(1, 5)]
    text = end(clients.run_of(results))
    assert flat(text).count("note seed 7/") == 2
    assert note_line(results[0], clients.NOTE) in flat(text)
    assert "(and 3 more of chat/rename)" in flat(text)
    many = [clients.noted(n, clients.NOTE.replace("chat/rename", f"chat/op{n}")) for n in range(1, 31)]
    assert "and 10 more kinds of loss" in end(clients.run_of(many))


def test_a_reproducer_is_printed_if_it_is_short_and_named_if_it_is_not():
    """A search cut short left 272 operations, and forty lines of them buried the verdict."""
    for after, printed in ((40, True), (41, False)):
        text = end(driven(VIOLATION, reproducers={7: clients.short(after)}))
        assert ("sigkill   at queue.removed#1" in text) is printed
        assert f"from 61 to {after} operations" in text
        assert f"lab replay {clients.short().path}" in text


def test_a_reproducer_that_is_not_shorter_is_no_result():
    """ "shrunk 160 to 160" was announced as if it helped."""
    text = end(driven(VIOLATION, reproducers={7: clients.short(61)}))
    assert "shrunk" not in text
    assert "0007.json" not in text


def test_a_fault_of_timing_and_a_search_cut_short_are_told_apart():
    """Planted: "a fault of timing" said of a search that had no time."""
    timing, cut = (clients.short(30, serial=False, finished=finished) for finished in (True, False))
    assert "a fault of timing, it does not shrink further" in flat(end(driven(VIOLATION, reproducers={7: timing})))
    text = flat(end(driven(VIOLATION, reproducers={7: cut})))
    assert "side by side, after 140 candidates; out of time, a shorter one may exist: give --shrink more" in text
    assert "fault of timing" not in text
    assert "it does not fail one at a time" not in text


def test_a_run_of_a_planted_bug_says_which_trial_caught_it():
    """ "canaries 1 of 1 caught" was read as a second thing beside the bug that was asked for."""
    asked = {"bugs": (clients.BUG,), "bug": clients.BUG.name}
    tries = [clients.canary(1, Word.PASS, kind=Kind.POINT), clients.canary(2, kind=Kind.POINT)]
    text = end(clients.run_of(tries, **asked))
    assert "planted   draft-before-write: caught by trial 0002" in text
    assert "VIOLATION  the planted bug was caught by trial 0002: 1 violation of 2 trials" in text
    assert "canaries" not in text
    assert "draft-before-write: not caught in 1 trial" in end(clients.run_of(tries[:1], **asked))


def test_hooks_that_were_never_killed_at_are_named():
    """A hook that no seed reaches is a hole in the campaign."""
    hooks = [dataclasses.replace(clients.run_of([]).hooks[0], name=f"hook-{n}") for n in range(26)]
    text = flat(end(driven(hooks=tuple(hooks), expected_hooks=26)))
    assert "0 of 26 killed at; never: hook-0" in text
    assert "hook-5 and 20 more" in text
    assert "it has no hooks" in end(driven(hooks=(), expected_hooks=0))


def test_a_run_of_clients_says_how_it_was_driven_and_how_long_requests_waited():
    """Rates, kinds of kills, where it was asked to end."""
    corpus = dataclasses.replace(clients.result(1), trial=dataclasses.replace(clients.result(1).trial, drawn="corpus"))
    text = flat(end(driven(corpus, clients.canary(20), bugs=(clients.BUG,))))
    for part in (
        "rate 21.7 operations and 1.44 kills a second in all trials, for 36.0 s, asked for 10 min",
        "kills 12 at hooks, 12 at an answer, 12 in a start, 12 after the operations",
        "corpus 1 seed that once failed, run first",
        "canaries 1 of 1 caught",
        "queue/remove 120 5.0 10.0 10.0 10.0",
        "PASS 720 operations and 48 real kills, every promise held",
    ):
        assert part in text, part
