"""`lab show RUN TRIAL`: what a person looks for is there, and a long trial does not scroll it off the screen."""

from __future__ import annotations

import dataclasses

import pytest
import report_cells_data as cells
import report_fuzz_data as clients
from report_data import DIFFERS, green, green_results, point_result, replaced, run_of
from report_evidence import by_clients, of_itself
from report_views import flat

from lab.engine.errors import UsageError
from lab.model import Evidence, Failure, Finding, Look, Process, Word
from lab.report.text import WIDTH
from lab.report.trial import HISTORY_SHOWN, LOG_LINES, show_trial
from lab.text import last_words

BROKEN = run_of(replaced(green_results(), point_result(12, "ext4", Word.VIOLATION)))
DRIVEN = clients.run_of([*clients.green(6), clients.result(7, Word.VIOLATION), clients.noted(8), clients.canary(20)])


def shown(evidence, data=DRIVEN, ident=7):
    text = show_trial(data, ident, evidence)
    assert max(map(len, text.splitlines())) <= WIDTH
    return text


def test_a_trial_whose_evidence_was_kept_is_shown_whole_and_in_order():
    """What broke, the picture, phases, processes, looks, history, ledger."""
    text = shown(of_itself(), BROKEN, 12)
    order = [
        "VIOLATION",
        "killed at",
        "operations  ",
        "look:killed",
        "process 1: kernel run",
        "look recovered (process",
        "history, 20 lines",
        "ledger, 8 records",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    for part in (
        "exit 137",
        "alive: psutil",
        "1/8   ok      append",
        "process 1 was killed here",
        "requests 41 and 58",
    ):
        assert part in text, part


def test_a_trial_in_brief_says_that_it_is_in_brief_and_how_to_keep_it():
    """Nobody should look for evidence that was never kept."""
    text = show_trial(green(), 9)
    assert text.startswith("PASS ")
    for part in ("point     log.synced#4 (workload 1)", "killed at log.synced#4 (class pure)", "--evidence all"):
        assert part in text, part
    driven = show_trial(DRIVEN, 8)
    for part in (
        "killed at chat.synced#4, then answer#7, then start + 20 ms",
        "removals-final 7",
        "lab replay",
        "308 ms",
    ):
        assert part in driven, part
    assert "note seed 7/8 step 12 chat/rename" in flat(driven)
    assert "(canary draft-before-write)" in show_trial(DRIVEN, 20)


def test_an_unknown_and_an_unfinished_trial_are_told_apart():
    """A typo gets the range of numbers, an interrupted run gets the command that goes on."""
    data = dataclasses.replace(green(), results=tuple(green_results()[1:]))
    with pytest.raises(
        UsageError, match="no trial 9999; its trials are 0000 to 0039, 0100 to 0139, 0200 to 0239, 0300"
    ):
        show_trial(data, 9999)
    assert "lab resume" in show_trial(data, 0)
    with pytest.raises(UsageError, match="no trial 0001; it has no trial yet"):
        show_trial(clients.run_of([]), 1)


def test_each_operation_of_a_client_has_its_answer_and_wait_and_the_named_one_is_marked():
    """What was sent, by whom, what came, how long it took, and where the kill fell among it."""
    lines = [flat(line) for line in shown(by_clients()).splitlines()]
    at = [lines.index(line) for line in (
        "life 1 is up",
        "36 client 1 queue/remove c1 p36 -> ok 25.0 ms",
        "> 41 client 3 queue/remove c1 p41 -> ok 25.0 ms",
        "44 client 3 queue/remove c1 p44 -> no answer: cut 25.0 ms",
        "killed at queue.removed#4",
        "life 2 is up",
    )]  # fmt: skip
    assert at == sorted(at)


ODD = [
    ({"event": "still", "ms": 1500.0, "at_ms": 7}, "the machine stood still for 1,500 ms"),
    ({"event": "settled", "idle": False}, "it never got idle"),
    ({"event": "check-failed", "life": 2, "why": "timeout"}, "what is left could not be read back: timeout"),
    ({"event": "error", "what": "no adapter"}, "the clients failed: no adapter"),
    ({"event": "check", "life": 2, "final": True, "observed": {"c1": {"queue": []}}}, 'final check {"c1": {"queue"'),
    ({"event": "invoke", "life": 2, "id": 99, "step": 77, "client": 1, "op": "status", "args": {}, "at_ms": 9.0},
     "status -> nothing was recorded"),
    ({"process": 3, "id": 1, "type": "ok", "op": "append", "task": 2}, "3/1 ok append task=2"),
]  # fmt: skip


@pytest.mark.parametrize(("record", "said"), ODD, ids=[said[:20] for _, said in ODD])
def test_each_kind_of_record_is_told(record, said):
    """Whoever reads a trial must not need the file for what happened in it."""
    assert said in flat(shown(by_clients(history=(*by_clients().history, record))))


def test_a_short_stall_of_the_machine_is_no_event():
    """There are hundreds on a busy machine."""
    still = {"event": "still", "ms": 30.0, "at_ms": 7}
    assert "stood still" not in shown(by_clients(history=(*by_clients().history, still)))


def test_a_long_history_is_cut_and_the_operation_that_a_verdict_names_is_not():
    """A life may have a thousand operations."""
    sent = [r for r in by_clients().history if r["event"] == "invoke"]
    many = [{**sent[0], "id": 100 + n, "step": 100 + n} for n in range(1000)]
    text = shown(by_clients(history=(*by_clients().history, *many)))
    history = text[text.index("history, ") :]
    assert history.count("client ") == HISTORY_SHOWN + 1
    assert ">   41  client 3" in history
    assert f"{1000 + 15 - HISTORY_SHOWN - 1:,} of them in history.jsonl only" in history


def test_a_failed_start_is_told_with_its_diagnosis_and_last_words():
    """Who holds the lock is the finding."""
    refused = Process(2, ("muxd", "serve"), None, exit_code=75, log="lock held by 1\nI give up\x1b[31m\n")
    text = shown(
        by_clients(
            processes=(by_clients().processes[0], refused),
            failure=Failure(Word.VIOLATION, "up", "it refused to start"),
            diagnosis="the lock is held by process 1 of the new container",
        )
    )
    for part in ("violation in up: it refused to start", "held by process 1 of the new", "I give up�[31m", "exit 75"):
        assert part in text, part
    assert "\x1b" not in text


def test_the_message_of_a_stack_is_among_the_last_words_wherever_it_stands():
    """Go and Java print the message first: the tail of a long stack was all frames, and said nothing."""
    frames = [f"    at frame {n}" for n in range(40)]
    words = last_words("\n".join(["starting", "panic: index out of range [5]", *frames]), LOG_LINES)
    assert words[:2] == ["panic: index out of range [5]", "…"]
    assert words[2:] == frames[-LOG_LINES:]
    python = last_words("\n".join([*frames, "ValueError: no such table"]), LOG_LINES)
    assert python == [*frames[1 - LOG_LINES :], "ValueError: no such table"]
    assert last_words("\n\n", LOG_LINES) == []


def test_a_look_says_of_each_property_how_many_facts_and_what_differs():
    """A pass of nothing must be seen to be one."""
    found = {"prefix-durable": Finding(0), "legal-state": Finding(41), "effects-exactly-once": Finding(12, DIFFERS)}
    text = flat(shown(by_clients(looks=(Look("end", 2, found),))))
    for part in ("no fact prefix-durable", "41 ok legal-state", "differs effects-exactly-once: effects"):
        assert part in text, part
    assert "the checker has not looked" in shown(by_clients(looks=()))


def test_a_racer_is_told_from_the_other_processes():
    """Who won is read from their exit codes: 0, 10, or a crash."""
    result = next(r for r in cells.green().results if r.trial.script.racers)
    processes = (Process(1, ("store", "run"), None, exit_code=0), Process(2, ("store", "race"), None, racer=1))
    evidence = Evidence(result.trial, "n", {}, (), processes, (), (), {}, "cells 1", 3, ())
    text = shown(evidence, cells.green(), result.trial.ident)
    assert "process 1: store run" in text
    assert "process 2 (racer 1): store race" in text
    assert "a race of 8" in text


def test_a_promise_is_that_of_the_leg():
    """`cell@off = []`: the cell is promised, but not in this mode."""
    data = cells.nightly()
    ident = cells.number(data, cells.CELLS[0], "off", "ext4")
    text = show_trial(cells.ended(data, ident, Word.NOTE, cells.CELLS[0], cells.DIFFERS), ident)
    for part in ("promised  prefix-durability: not promised", "in journal mode off on ext4", "arXiv 2608.03836"):
        assert part in text, part
