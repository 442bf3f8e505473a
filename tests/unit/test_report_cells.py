"""What a run of cells must have seen to be green, and what its reports say of legs."""

from __future__ import annotations

import dataclasses
import re

import report_cells_data as cells
from report_cells_data import CELLS, PER_LEG, REASON, STORAGES, green, number, of_a_bug, red, run_of
from report_data import green as green_matrix
from report_views import end, gaps, headline, made, md, page

from lab.model import Verdict, Word


def with_results(data, change):
    return dataclasses.replace(data, results=tuple(change(r) for r in data.results))


def test_the_reason_why_something_is_not_offered_is_said_once():
    """Six lines of the same reason hide the table that they explain."""
    for text in (end(green()), page(green()), md(green())):
        assert text.count("delete in 2 cells") == 1
    assert "not offered  delete in 2 cells: always ends in WAL (store.py, open)" in end(green())


def test_a_green_run_is_green_and_says_what_it_does_not_offer():
    """`not offered` is no evidence and not red; a hook that no cell names is not owed, and not complained of."""
    final = headline(green())
    assert (final.exit_code, final.word, gaps(green())) == (0, "PASS", ())
    assert "2 legs not offered" in final.sentence
    assert made(green()).numbers["facts"] == {
        "prefix-durability": 480, "consume-once": 240, "outbox-exactly-once": 480, "journal-mode": 180,
    }  # fmt: skip


def test_a_leg_that_was_never_killed_is_no_work():
    """Seven cells that only race, or whose every trial was invalid, would be green by doing nothing."""
    idle = {number(green(), CELLS[1], "default", "tmpfs", n) for n in (0, 1)}
    data = with_results(green(), lambda r: dataclasses.replace(r, hits=()) if r.trial.ident in idle else r)
    assert gaps(data) == ("consume-once@default was not killed on tmpfs",)
    assert headline(data).exit_code == 2


def test_a_leg_whose_cell_compared_nothing_is_no_work():
    """The other legs of the same cell compare thousands of facts: they must not count for it."""
    mine = {number(green(), CELLS[0], "wal", s, n) for s in STORAGES for n in range(PER_LEG)}
    blind = Verdict(Word.PASS, facts={CELLS[0]: 0, "journal-mode": 1})
    data = with_results(green(), lambda r: dataclasses.replace(r, verdict=blind) if r.trial.ident in mine else r)
    assert gaps(data) == ("prefix-durability@wal checked no fact on ext4, tmpfs",)


def test_an_offered_leg_without_a_trial_is_no_work():
    """A plan that forgets a leg must not be green about it."""
    leg = next(g for g in green().legs if g.name == "prefix-durability@wal")
    results = [r for r in green().results if r.trial.script.workload != leg.workload]
    assert gaps(run_of(results, green().legs)) == ("prefix-durability@wal has no trial on ext4, tmpfs",)


def test_an_audit_must_have_compared_facts():
    """A journal mode that nobody looked at may have been any."""

    def blind(result):
        facts = {name: n for name, n in result.verdict.facts.items() if name != "journal-mode"}
        return dataclasses.replace(result, verdict=Verdict(Word.PASS, facts=facts))

    assert gaps(with_results(green(), blind)) == ("journal-mode checked no fact in the whole run",)


def test_a_hook_that_a_cell_names_is_owed():
    """`cells.toml` names the places; one that nothing was killed at is missing."""
    data = green(covers=("append.durable", "park.before"))
    assert gaps(data) == ("1 of 2 hooks not killed at on ext4, tmpfs: park.before",)


def test_a_run_of_a_planted_bug_shows_its_leg_alone():
    """Nineteen legs that were never asked are noise around the one that was."""
    text, numbers = end(of_a_bug()), made(of_a_bug()).numbers
    assert (numbers["exit_code"], numbers["no_work"]) == (1, [])
    assert "not run" not in text
    assert "prefix-durability" not in text
    assert numbers["cells"] == {"ext4": {CELLS[2]: {"default": "violation"}}, "tmpfs": {CELLS[2]: {"default": "pass"}}}


def test_an_interrupted_run_says_which_legs_have_not_run():
    """A leg without a trial is neither green nor refused."""
    found = made(cells.interrupted()).numbers["cells"]
    assert found["tmpfs"][CELLS[2]] == {"default": "not run", "delete": "not offered", "wal": "not run"}
    assert "pass 2 of 3" in end(cells.interrupted())


def test_summary_json_has_every_leg_and_every_refusal():
    """Other tools read it: docs/reports.md. A matrix has none of either."""
    numbers = made(red()).numbers
    assert numbers["cells"]["tmpfs"]["outbox-exactly-once"] == {
        "default": "pass",
        "delete": "not offered",
        "wal": "violation",
    }
    assert {"cell": "prefix-durability", "journal_mode": "delete", "reason": REASON} in numbers["not_offered"]
    matrix = made(green_matrix()).numbers
    assert (matrix["cells"], matrix["not_offered"]) == ({}, [])
    assert "not offered" not in page(green_matrix())


def test_a_failure_names_its_cell_mode_layer_and_clause():
    """What is broken is a clause of a contract, in one journal mode, on one layer."""
    ident = number(red(), CELLS[2], "wal", "tmpfs")
    for text in (end(red()), page(red())):
        for part in ("outbox-exactly-once@wal", "outbox-exactly-once in journal mode wal on tmpfs", "arXiv 2608.03836"):
            assert part in text, part
        assert f"lab replay 20261130-101502-7f3a {ident:04d}" in text
        assert "request 1 (unmarked), request 3 (unmarked)" in text


def test_what_is_promised_is_said_with_the_modes_in_which_it_is_not():
    """`cell@off = []`: the cell is promised, but not in this mode; an audit is no promise."""
    assert "sigkill; nothing in off: a loss is a note" in page(cells.nightly())
    assert "no promise: a difference makes the trial invalid" in page(red())


def test_the_page_links_each_word_to_what_explains_it():
    """A violation to its trial, a note to its leg's first."""
    text = page(red())
    assert f'<a href="#trial-{number(red(), CELLS[2], "wal", "tmpfs"):04d}">violation 1 of 3</a>' in text
    assert 'href="#note-' in text
    missing = {*re.findall('href="#([^"]+)"', text)} - {*re.findall('id="([^"]+)"', text)}
    assert not missing, "Reported: notes of the judge's were told as a list, and links led nowhere"


def test_the_page_shows_hooks_and_moments():
    """A kill at an answer is no kill at a hook, and counts."""
    text = page(green())
    assert ">answer<" in text
    assert ">park.before<" in text
