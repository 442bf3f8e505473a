"""The document of a run, whatever its campaign: its exit code and word, what it lacks, and its numbers."""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path
from typing import Any

import pytest
from report_data import (
    BUG,
    HOOKS,
    STORAGES,
    canary_result,
    green,
    green_results,
    point_result,
    probe_result,
    replaced,
    run_of,
)
from report_fuzz_data import BUG as DRAFT
from report_fuzz_data import canary, noted, result
from report_fuzz_data import green as green_clients
from report_fuzz_data import run_of as run_of_clients
from report_views import gaps, headline, made

from lab.model import Kind, LedgerCounts, Verdict, Word
from lab.report import coverage


def summary_of(data):
    """The content of summary.json, by attribute."""
    return types.SimpleNamespace(**made(data).numbers)


def with_words(*words: Word):
    """A green run of which the first trials on ext4 ended with these words."""
    return run_of(replaced(green_results(), *(point_result(9 + i, "ext4", w) for i, w in enumerate(words))))


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        ((), 0),
        ((Word.NOTE,), 0),
        ((Word.VIOLATION,), 1),
        ((Word.HANG,), 2),
        ((Word.INVALID,), 2),
        ((Word.ERROR,), 3),
        ((Word.ERROR, Word.INVALID, Word.HANG), 3),
        ((Word.ERROR, Word.VIOLATION), 1),
        ((Word.HANG, Word.NOTE), 2),
    ],
)
def test_the_exit_code_follows_from_the_worst_that_is_proven(words, exit_code):
    """A lab that calls a hang green, or lets an error hide a proven violation, is worth nothing."""
    assert headline(with_words(*words)).exit_code == exit_code


@pytest.mark.parametrize(("word", "exit_code"), [(Word.PASS, 130), (Word.ERROR, 130), (Word.VIOLATION, 1)])
def test_an_interrupted_run_says_so_unless_it_has_found_a_violation(word, exit_code):
    """A violation outweighs an interrupt: a script that saw 130 resumed, and nobody looked at what was proven."""
    final = headline(dataclasses.replace(with_words(word), interrupted=True))
    assert final.exit_code == exit_code
    assert "lab resume" in final.sentence


def test_a_missed_canary_is_not_enough_evidence():
    """A property whose check is dead passes everything: its canary is what fails."""
    summary = summary_of(run_of(replaced(green_results(), canary_result(301, "tmpfs", Word.PASS, ""))))
    assert summary.canaries == {"planted": 3, "caught": 2, "missed": ["ack-before-append on tmpfs"]}
    assert summary.exit_code == 2
    assert summary.no_work == []


def test_a_canary_caught_by_another_property_is_missed():
    """The named property may be dead although some other one happens to see the bug."""
    data = run_of(replaced(green_results(), canary_result(301, "tmpfs", Word.VIOLATION, "legal-state")))
    assert summary_of(data).canaries["caught"] == 2


def test_a_canary_that_breaks_several_properties_is_caught_if_the_named_one_is_among_them():
    """A verdict names the first that differed; which one comes first is an accident of the order of checks."""
    first = canary_result(301, "tmpfs", Word.VIOLATION, "legal-state")
    verdict = dataclasses.replace(first.verdict, broken=("legal-state", BUG.property))
    assert summary_of(run_of(replaced(green_results(), dataclasses.replace(first, verdict=verdict)))).exit_code == 0


def test_one_try_of_several_is_enough_to_catch_a_canary():
    """A bug shows only at some points, so several are tried."""
    summary = summary_of(run_of([*green_results(), canary_result(400, "ext4", Word.PASS, "")]))
    assert (summary.canaries["planted"], summary.canaries["caught"], summary.exit_code) == (3, 3, 0)


def test_a_canary_that_every_campaign_plants_and_this_one_did_not_is_missed():
    """A planner that forgets the canaries would otherwise report 0 of 0 caught."""
    summary = summary_of(run_of([r for r in green_results() if r.trial.kind is Kind.POINT]))
    assert (summary.canaries["planted"], summary.canaries["caught"], summary.exit_code) == (3, 0, 2)


def test_canaries_and_probes_count_in_no_verdict_but_a_failed_probe_is_red():
    """A planted violation is no violation of the subject; a broken enumeration is not a point either."""
    good, bad = (summary_of(run_of([*green_results(), probe_result(500, w)])) for w in (Word.PASS, Word.INVALID))
    assert good.trials == bad.trials == 120
    assert good.verdicts == bad.verdicts
    assert good.verdicts["pass"] == 120
    assert sum(good.verdicts.values()) == 120
    assert (good.exit_code, bad.exit_code) == (0, 2)


def no_trial():
    return run_of([r for r in green_results() if r.trial.kind is Kind.CANARY])


def no_kill():
    return run_of([dataclasses.replace(r, hits=()) for r in green_results()])


def no_trial_on_a_layer():
    return run_of([r for r in green_results() if r.trial.storage != "overlay"])


def no_kill_on_a_layer():
    return run_of([dataclasses.replace(r, hits=()) if r.trial.storage == "tmpfs" else r for r in green_results()])


def a_property_without_facts():
    dead = Verdict(Word.PASS, facts={"prefix-durable": 41, "effects-exactly-once": 0})
    return run_of([dataclasses.replace(r, verdict=dead) for r in green_results()])


def a_promise_that_nobody_checks():
    return green(promises={"legal-state": ("sigkill",)})


def promises_of_nothing():
    return green(promises=dict.fromkeys(green().promises, ()))


def promises_after_another_fault():
    return green(promises=dict.fromkeys(green().promises, ("powercut",)))


def an_uncovered_hook():
    results = [dataclasses.replace(r, hits=r.hits[:1]) if r.trial.storage == "tmpfs" else r for r in green_results()]
    return run_of(results)


def a_catalogue_that_shrank():
    return green(expected_hooks=len(HOOKS) + 1)


def a_window_without_a_class():
    results = [r for r in green_results() if not any(h.tags.get("class") == "once" for h in r.hits)]
    return run_of(results)


def a_ledger_without_fences():
    return run_of([dataclasses.replace(r, counts=dataclasses.replace(r.counts, fenced=0)) for r in green_results()])


def unfinished():
    return dataclasses.replace(green(), results=tuple(green_results()[5:]))


def a_bug_that_was_not_planted():
    return green(bug="torn")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (no_trial, "the plan has no crash point"),
        (no_kill, "nothing was killed"),
        (no_trial_on_a_layer, "no trial on overlay"),
        (no_kill_on_a_layer, "no kill on tmpfs"),
        (a_property_without_facts, "effects-exactly-once checked no fact"),
        (a_promise_that_nobody_checks, "legal-state checked no fact"),
        (promises_of_nothing, "no property is promised after sigkill"),
        (promises_after_another_fault, "no property is promised after sigkill"),
        (an_uncovered_hook, "1 of 4 hooks not killed at on tmpfs: recovery.replayed"),
        (a_catalogue_that_shrank, "the catalogue lists 4 hooks, 5 are expected"),
        (a_window_without_a_class, "window intent.landed_unrecorded was never killed with class once"),
        (a_ledger_without_fences, "the effect ledger counted no fenced"),
        (unfinished, "5 of 123 trials did not run"),
        (a_bug_that_was_not_planted, "no trial is of the planted bug torn"),
    ],
)
def test_a_run_that_proves_too_little_is_no_work(make, reason):
    """Each is a way in which a campaign can be green by doing nothing."""
    summary = summary_of(make())
    assert any(reason in given for given in summary.no_work), summary.no_work
    assert summary.exit_code == 2


def test_a_trial_without_whole_evidence_covers_no_hook():
    """An invalid trial printed its hook but was not proven to be killed there."""
    results = [
        point_result(r.trial.ident, "ext4", Word.INVALID) if r.trial.storage == "ext4" and len(r.hits) == 2 else r
        for r in green_results()
    ]
    data = run_of(results)
    assert coverage.uncovered(data, "ext4") == ("recovery.replayed",)
    assert summary_of(data).hooks["covered"] == 3


def small_plan(**changes):
    """Fewer trials a layer than there are hooks, one crash each."""
    more = tuple(dataclasses.replace(HOOKS[0], name=f"h{n}") for n in range(40))
    results = [r for r in green_results(21) if len(r.hits) == 1]
    return run_of(results, **{"hooks": HOOKS + more, "expected_hooks": 44} | changes)


def test_a_plan_with_fewer_points_than_hooks_owes_only_what_it_means_to_reach():
    """50 points cannot reach 96 hooks; but what they were drawn for they must reach."""
    summary = summary_of(small_plan(covers=("log.synced",)))
    assert summary.no_work == []
    assert (summary.hooks["covered"], summary.hooks["expected"]) == (3, 44)
    missed = summary_of(small_plan(covers=("log.synced", "h7")))
    assert missed.no_work == ["1 of 44 hooks not killed at on ext4, tmpfs, overlay: h7"]


def test_a_shard_owes_no_coverage_and_no_canary_but_its_trials_must_pass():
    """The nightly shards would all be red for what only the merged run can have."""
    points = [r for r in green_results(9) if r.trial.kind is Kind.POINT and len(r.hits) == 1]
    alone = run_of(points)
    assert summary_of(alone).exit_code == 2
    shard = dataclasses.replace(alone, whole=900)
    assert (summary_of(shard).exit_code, summary_of(shard).canaries["planted"]) == (0, 0)
    assert summary_of(dataclasses.replace(shard, results=shard.results[1:])).exit_code == 2


def test_a_run_of_a_planted_bug_is_asked_for_its_violation_and_not_for_coverage():
    """`lab run --bug` tries a handful of points; a NO-WORK block would hide what it found."""
    found = point_result(1, "ext4", Word.VIOLATION)
    of_a_bug = dataclasses.replace(found, trial=dataclasses.replace(found.trial, bug=BUG.name))
    summary = summary_of(run_of([of_a_bug], storages=("ext4",), bug=BUG.name))
    assert (summary.no_work, summary.canaries["planted"], summary.exit_code) == ([], 0, 1)


def test_further_tries_of_a_canary_that_was_caught_are_not_missing():
    """The campaign stops at the first try that catches it; the plan holds four."""
    further = tuple(canary_result(400 + n, s).trial for n, s in enumerate(STORAGES))
    caught = dataclasses.replace(green(), trials=green().trials + further)
    assert summary_of(caught).exit_code == 0
    results = replaced(green_results(), canary_result(300, "ext4", Word.PASS, ""))
    missed = dataclasses.replace(run_of(results), trials=green().trials + further)
    assert summary_of(missed).no_work == ["1 of 124 trials did not run"]


def test_the_bound_rests_only_on_what_was_drawn_at_random_and_struck_alone():
    """Points chosen to cover a hook are no sample; three layers of the same points are no larger sample."""
    found = summary_of(with_words(Word.VIOLATION)).bound
    assert (found["tmpfs"]["drawn"], found["tmpfs"]["failed"], found["tmpfs"]["population"]) == (25, 0, 8205)
    assert (found["ext4"]["drawn"], found["ext4"]["failed"]) == (25, 1)
    assert coverage.highest_bound(with_words(Word.VIOLATION)).failed == 1


@pytest.mark.parametrize("word", [Word.INVALID, Word.ERROR])
def test_a_draw_that_proved_nothing_leaves_no_bound(word):
    """With half of the random points hanging, the old bound still promised that fewer than 7 % fail."""
    assert summary_of(with_words(Word.PASS, Word.PASS, word)).bound["ext4"] is None
    assert coverage.highest_bound(with_words(Word.PASS, Word.PASS, word)) is None
    assert summary_of(with_words(Word.PASS, Word.PASS, Word.HANG)).bound["ext4"]["failed"] == 1


def test_summary_json_has_the_keys_that_other_tools_read():
    """Its shape is an interface: docs/reports.md. One schema for all campaigns."""
    written = json.loads(json.dumps(made(green()).numbers))
    by_clients = json.loads(json.dumps(made(run_of_clients(green_clients())).numbers))
    assert list(written) == list(by_clients)
    assert written["format"] == 1
    assert written["by_storage"]["overlay"] == {word.value: 40 if word is Word.PASS else 0 for word in Word}
    assert (written["hooks"]["expected"], written["hooks"]["covered"], written["hooks"]["never"]) == (4, 4, [])
    assert written["canaries"] == {"planted": 3, "caught": 3, "missed": []}
    assert written["container_starts_per_trial"] == 3.2
    assert written["trials_per_second"] == round(123 / 358, 3)
    assert written["ledger"]["resent"] == 240
    assert written["second_crashes"] == 24


def test_every_key_of_summary_json_is_documented():
    """An interface that the docs do not name is none."""
    docs = (Path(__file__).parents[2] / "docs/reports.md").read_text("utf-8")
    assert [key for key in made(green()).numbers if f"`{key}`" not in docs] == []


def test_the_order_in_which_trials_finished_changes_nothing():
    """Four workers finish in any order; a report of the same run must be the same bytes."""
    assert made(green()) == made(dataclasses.replace(green(), results=tuple(reversed(green_results()))))


def test_a_run_that_has_not_begun_has_a_summary():
    """`lab show` of a run that was killed at once must not divide by zero."""
    summary = summary_of(dataclasses.replace(green(), results=(), took_s=0.0))
    assert (summary.trials, summary.trials_per_second, summary.bound["ext4"]) == (0, 0.0, None)
    assert summary.exit_code == 2


def test_ledger_counts_of_canaries_do_not_count_as_coverage():
    """Only the good subject's fences prove that fences were tried."""
    results = [
        dataclasses.replace(r, counts=LedgerCounts(fenced=9) if r.trial.bug == BUG.name else LedgerCounts(resent=1))
        for r in green_results()
    ]
    assert coverage.ledger_totals(run_of(results))["fenced"] == 0
    assert [c.storage for c in coverage.canaries(run_of(results))] == list(STORAGES)


def test_a_small_run_is_said_to_be_partial_and_only_that():
    """13 of 85 hooks and a plain PASS were read as all that there is to try."""
    final = headline(small_plan(covers=("log.synced",)))
    assert (final.word, final.exit_code) == ("PASS (partial: 3 of 44 hooks)", 0)
    assert headline(green()).word == "PASS"
    assert headline(dataclasses.replace(small_plan(), whole=900)).word == "PASS"  # a shard says so itself


# Runs of clients.

OF_A_BUG = {"bugs": (DRAFT,), "bug": DRAFT.name}


def replaced_clients(*others):
    return list({r.trial.ident: r for r in (*green_clients(), *others)}.values())


@pytest.mark.parametrize(
    ("results", "changes", "code", "word"),
    [
        (replaced_clients(result(7, Word.VIOLATION), result(8, Word.ERROR)), {}, 1, "VIOLATION"),
        (replaced_clients(result(8, Word.ERROR), result(9, Word.HANG)), {}, 3, "ERROR"),
        (replaced_clients(result(8, Word.HANG)), {}, 2, "UNPROVEN"),
        (replaced_clients(result(8, Word.INVALID)), {}, 2, "UNPROVEN"),
        (replaced_clients(noted(8)), {}, 0, "PASS"),
        (green_clients(), {"bugs": (DRAFT,)}, 2, "UNPROVEN"),
        ([*green_clients(), canary(20, Word.PASS)], {"bugs": (DRAFT,)}, 2, "UNPROVEN"),
        ([*green_clients(), canary(20, prop="chats-durable")], {"bugs": (DRAFT,)}, 2, "UNPROVEN"),
        ([*green_clients(), canary(20)], {"bugs": (DRAFT,)}, 0, "PASS"),
        ([canary(1, Word.PASS, kind=Kind.POINT), canary(2, kind=Kind.POINT)], OF_A_BUG, 1, "VIOLATION"),
        ([canary(1, Word.PASS, kind=Kind.POINT)], OF_A_BUG, 2, "UNPROVEN"),
        (replaced_clients(result(7, Word.VIOLATION)), {"interrupted": True}, 1, "VIOLATION"),
        (green_clients(3), {"interrupted": True, "bugs": (DRAFT,)}, 130, "INTERRUPTED"),
        ([], {}, 2, "NO-WORK"),
        ([result(1, operations=0)], {}, 2, "NO-WORK"),
        ([result(1, hits=())], {}, 2, "NO-WORK"),
        (green_clients(), {"promises": {"outbox-once": ("sigkill",)}}, 2, "NO-WORK"),
        (green_clients(), {"promises": {"outbox-once": ()}}, 2, "NO-WORK"),
    ],
)  # fmt: skip
def test_the_exit_code_and_the_word_of_a_run_of_clients_agree(results, changes: dict[str, Any], code, word):
    """Planted: each of them green, or each named for another reason than its own."""
    final = headline(run_of_clients(results, **changes))
    assert (final.exit_code, final.word) == (code, word)


def test_the_numbers_of_a_run_of_clients():
    """Counted by hand: 12 trials of 60 operations and 4 kills in 36 s, in turn on three layers."""
    found = summary_of(run_of_clients([*green_clients(), canary(20)], bugs=(DRAFT,)))
    assert (found.trials, found.operations, found.kills, found.restarts) == (12, 720, 48, 48)
    assert (found.operations_per_second, found.kills_per_second) == (round(780 / 36, 3), round(52 / 36, 3))
    assert found.kills_by_kind == {"hook": 12, "answer": 12, "start": 12, "end": 12}
    assert found.hooks["killed_at"] == {"chat.synced": 6, "queue.removed": 6}
    assert found.facts["removals-final"] == 84
    assert found.waits_ms["queue/remove"] == {"count": 120, "p50": 5.0, "p95": 10.0, "p99": 10.0, "max": 10.0}
    assert {key: found.up_ms["ext4"][key] for key in ("p50", "p95", "max")} == {
        "p50": 212.0,
        "p95": 312.0,
        "max": 312.0,
    }
    assert found.canaries == {"planted": 1, "caught": 1, "missed": []}
    assert found.verdicts["violation"] == 0  # a planted one is no violation of the daemon


def test_what_a_run_of_clients_lacks_is_said_once():
    """NO-WORK without a reason sends a person to the source code; ten reasons for one cause are no better."""
    nothing = run_of_clients([result(1, operations=0, hits=())], promises={"outbox-once": ("sigkill",)})
    assert gaps(nothing) == ("nothing was killed: no trial has a whole chain of evidence", "no operation was sent")
    blind = run_of_clients(green_clients(), promises={"outbox-once": ("sigkill",)})
    assert gaps(blind) == ("outbox-once checked no fact in the whole run",)
