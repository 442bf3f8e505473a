"""What a person sees of a cells campaign: one table of legs in every report, and what it must have seen to be green."""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ET

import pytest
import run_folder
from report_cells_data import (
    CELLS,
    DIFFERS,
    PER_LEG,
    REASON,
    STORAGES,
    ended,
    green,
    interrupted,
    legs_of,
    nightly,
    nothing_offered,
    number,
    of_a_bug,
    red,
    results_of,
    run_of,
)
from report_data import green as green_matrix
from test_report_files import Elements

from lab.campaigns.cells import Leg
from lab.model import Evidence, Process, Verdict, Word
from lab.model import to_json as to_plain
from lab.plan.points import Plan
from lab.report import html, junit, legs, markdown
from lab.report.compare import compare
from lab.report.console import end_text
from lab.report.show import show_run, show_trial
from lab.report.summary import summarise, to_json
from lab.report.table import WIDTH
from lab.run.load import load
from lab.subject.load import load as load_subject
from lab.trial.worker import Prepared

ALL = [green, red, nightly, interrupted, nothing_offered, of_a_bug]


def text_of(data):
    return end_text(data, summarise(data))


def page(data):
    return html.render(data, summarise(data))


def test_one_table_says_the_word_of_each_leg():
    """A word is the worst of its trials; a pass beside a violation must not hide it. Layers that agree are one row."""
    lines = [" ".join(line.split()) for line in text_of(red()).splitlines()]
    assert lines[:6] == [
        "cell layer default delete wal",
        "prefix-durability ext4 pass 3 not offered invalid 1 of 3",
        "tmpfs pass 3 not offered pass 3",
        "consume-once each layer note 1 of 3 – –",
        "outbox-exactly-once ext4 pass 3 not offered pass 3",
        "tmpfs pass 3 not offered violation 1 of 3",
    ]


def test_the_reason_why_something_is_not_offered_is_said_once():
    """Six lines of the same reason hide the table that they explain."""
    for text in (text_of(green()), page(green()), markdown.render(green(), summarise(green()))):
        assert text.count("delete in 2 cells") == 1
    assert "not offered  delete in 2 cells: always ends in WAL (store.py, open)" in text_of(green())


@pytest.mark.parametrize("make", ALL)
def test_no_report_of_cells_is_wider_than_100_columns(make):
    """Seven journal modes do not fit beside each other: the table goes on below."""
    data = make()
    texts = [text_of(data), show_run(data), compare(data), compare(data, red())]
    texts += [show_trial(data, trial.ident) for trial in data.trials[:6]]
    for line in (line for text in texts for line in text.splitlines()):
        assert len(line) <= WIDTH or max(map(len, line.split())) > 60, line
        assert line.isprintable()


def test_a_green_run_is_green_and_says_what_it_does_not_offer():
    """`not offered` is no evidence and not red; a hook that no cell names is not owed, and not complained of."""
    summary, text = summarise(green()), text_of(green())
    assert (summary.exit_code, summary.no_work) == (0, ())
    assert "not all owed" not in text
    assert "2 legs not offered" in text.splitlines()[-1]
    assert summary.facts == {"prefix-durability": 480, "consume-once": 240, "outbox-exactly-once": 480} | {
        "journal-mode": 180
    }


def test_a_leg_that_was_never_killed_is_no_work():
    """Seven cells that only race, or whose every trial was invalid, would be green by doing nothing."""
    data = green()
    idle = {number(data, CELLS[1], "default", "tmpfs", n) for n in (0, 1)}
    results = [dataclasses.replace(r, hits=()) if r.trial.ident in idle else r for r in data.results]
    summary = summarise(dataclasses.replace(data, results=tuple(results)))
    assert summary.no_work == ("consume-once@default was not killed on tmpfs",)
    assert summary.exit_code == 2


def test_a_leg_whose_cell_compared_nothing_is_no_work():
    """The other legs of the same cell compare thousands of facts: they must not count for it."""
    data = green()
    mine = {number(data, CELLS[0], "wal", s, n) for s in STORAGES for n in range(PER_LEG)}
    blind = Verdict(Word.PASS, facts={CELLS[0]: 0, "journal-mode": 1})
    results = [dataclasses.replace(r, verdict=blind) if r.trial.ident in mine else r for r in data.results]
    summary = summarise(dataclasses.replace(data, results=tuple(results)))
    assert summary.no_work == ("prefix-durability@wal checked no fact on ext4, tmpfs",)


def test_an_offered_leg_without_a_trial_is_no_work():
    """A plan that forgets a leg must not be green about it."""
    data = green()
    leg = next(g for g in data.legs if g.name == "prefix-durability@wal")
    results = [r for r in data.results if r.trial.workload != leg.workload]
    assert summarise(run_of(results, data.legs)).no_work == ("prefix-durability@wal has no trial on ext4, tmpfs",)


def test_an_audit_must_have_compared_facts():
    """A journal mode that nobody looked at may have been any."""
    data = green()
    results = [
        dataclasses.replace(
            r, verdict=Verdict(Word.PASS, facts={k: v for k, v in r.verdict.facts.items() if "-m" not in k})
        )
        for r in data.results
    ]
    assert summarise(dataclasses.replace(data, results=tuple(results))).no_work == (
        "journal-mode checked no fact in the whole campaign",
    )


def test_a_hook_that_a_cell_names_is_owed():
    """`cells.toml` names the places; one that nothing was killed at is missing."""
    summary = summarise(green(covers=("append.durable", "park.before")))
    assert summary.no_work == ("1 of 2 hooks not killed at on ext4, tmpfs: park.before",)


def test_a_run_of_a_planted_bug_shows_its_leg_alone():
    """Nineteen legs that were never asked are noise around the one that was."""
    summary, text = summarise(of_a_bug()), text_of(of_a_bug())
    assert (summary.exit_code, summary.no_work) == (1, ())
    assert "not run" not in text
    assert "prefix-durability" not in text
    assert summary.cells == {"ext4": {CELLS[2]: {"default": "violation"}}, "tmpfs": {CELLS[2]: {"default": "pass"}}}


def test_an_interrupted_run_says_which_legs_have_not_run():
    """A leg without a trial is neither green nor refused."""
    summary = summarise(interrupted())
    assert summary.cells["tmpfs"][CELLS[2]] == {"default": "not run", "delete": "not offered", "wal": "not run"}
    assert "pass 2 of 3" in text_of(interrupted())


def test_summary_json_has_every_leg_and_every_refusal():
    """Other tools read it: docs/reports.md. A matrix has neither key."""
    written = json.loads(json.dumps(to_json(summarise(red()))))
    assert written["cells"]["tmpfs"]["outbox-exactly-once"] == {
        "default": "pass",
        "delete": "not offered",
        "wal": "violation",
    }
    assert {"cell": "prefix-durability", "journal_mode": "delete", "reason": REASON} in written["not_offered"]
    assert not {"cells", "not_offered"} & to_json(summarise(green_matrix())).keys()


def test_a_failure_names_its_cell_mode_layer_and_clause():
    """What is broken is a clause of a contract, in one journal mode, on one layer."""
    data = red()
    ident = number(data, CELLS[2], "wal", "tmpfs")
    for text in (text_of(data), page(data), show_trial(data, ident)):
        for part in ("outbox-exactly-once@wal", "outbox-exactly-once in journal mode wal on tmpfs", "arXiv 2608.03836"):
            assert part in text, part
        assert f"lab replay 20261130-101502-7f3a {ident:04d}" in text
        assert "request 1 (unmarked), request 3 (unmarked)" in text


def test_a_promise_is_that_of_the_leg():
    """`cell@off = []`: the cell is promised, but not in this mode."""
    data = nightly()
    ident = number(data, CELLS[0], "off", "ext4")
    text = show_trial(ended(data, ident, Word.NOTE, CELLS[0], DIFFERS), ident)
    assert "promised  prefix-durability: by nobody" in text
    assert "sigkill; nothing in off: a loss is a note" in page(data)


def test_an_audit_is_not_called_a_promise():
    """A leg that ran in another journal mode broke nothing, and counts for nothing."""
    text = text_of(red())
    assert "prefix-durability@wal: journal-mode" in text
    assert "nothing: journal-mode says whether it ran as asked" in text
    assert "no promise: a difference makes the trial invalid" in page(red())


def test_a_note_is_shown_once_for_its_leg_with_its_evidence():
    """Not red, and not silent: seven trials of the same limbo are one story."""
    data = red()
    first, second = (number(data, CELLS[1], "default", s, 2) for s in STORAGES)
    text = text_of(data)
    assert text.count("NOTE  consume-once@default") == 1
    assert f"also      {second:04d} on tmpfs" in text
    assert f"evidence/{first:04d}/" in text
    assert page(data).count("consume-once@default") == 1
    assert f"| {first:04d} | ext4 | note | a race of 8 |" in markdown.render(data, summarise(data))


def test_a_race_is_called_one_in_every_view():
    """It has no crash point, and must not look as if the lab had forgotten it."""
    data = ended(green(), number(green(), CELLS[1], "default", "tmpfs", 2), Word.VIOLATION, CELLS[1], DIFFERS)
    ident = number(data, CELLS[1], "default", "tmpfs", 2)
    texts = [text_of(data), show_run(data), show_trial(data, ident), page(data), compare(data)]
    texts += [junit.render(data, summarise(data)), markdown.render(data, summarise(data))]
    assert all("a race of 8" in text for text in texts)
    assert not any("no crash point" in text for text in texts)
    assert "a race of 8 (consume-once@default): ext4 pass, tmpfs violation" in compare(data)


def test_a_racer_is_told_from_the_other_processes():
    """Who won is read from their exit codes: 0, 10, or a crash."""
    result = next(r for r in green().results if r.trial.racers)
    processes = (Process(1, ("store", "run"), None, exit_code=0), Process(2, ("store", "race"), None, racer=1))
    evidence = Evidence(result.trial, "n", {}, (), processes, (), (), {}, "cells 1", 3, ())
    text = show_trial(green(), result.trial.ident, evidence)
    assert "process 1: store run" in text
    assert "process 2 (racer 1): store race" in text


def test_layers_and_journal_modes_stand_side_by_side_and_what_differs_is_marked():
    """One mode that loses what the others keep; a refusal is no verdict that could differ."""
    text = compare(red())
    rows = [line.split() for line in text.splitlines()]
    assert ["outbox-exactly-once", "wal", "pass", "≠", "violation"] in rows
    assert ["outbox-exactly-once", "tmpfs", "pass", "not", "offered", "≠", "violation"] in rows
    assert ["prefix-durability", "delete", "not", "offered", "not", "offered"] in rows
    assert "≠" not in compare(green()).split("legend")[0]


def test_two_runs_are_compared_leg_by_leg():
    """Another store, or another version of the same."""
    rows = [line.split() for line in compare(green(), red()).splitlines()]
    assert ["outbox-exactly-once", "wal", "pass", "≠", "violation"] in rows
    assert ["consume-once", "default", "pass", "≠", "note"] in rows


@pytest.mark.parametrize("make", ALL)
def test_every_link_of_the_page_leads_somewhere(make):
    """A word in the table leads to its failure, its note or its reason."""
    text = page(make())
    elements = Elements(text)
    assert elements.open == []
    anchors = set(re.findall(r' id="([^"]+)"', text))
    wanted = set(re.findall(r'<a href="#([^"]+)"', text))
    assert wanted <= anchors
    assert wanted


def test_the_page_shows_hooks_and_moments_without_blaming_the_others():
    """A catalogue of 41 with 30 named by the cells is not 11 faults."""
    text = page(green())
    assert "never</td>" not in text
    assert ">answer<" in text
    assert ">park.before<" in text


def test_junit_has_a_case_a_trial_named_for_its_leg_and_skips_what_is_not_offered():
    """A CI system lists them beside the passes, with the reason."""
    root = ET.fromstring(junit.render(red(), summarise(red())))
    cases = {case.get("name"): case for case in root.iter("testcase") if case.get("classname") == "cells.tmpfs"}
    skipped = [name for name, case in cases.items() if case.find("skipped") is not None]
    assert skipped == ["prefix-durability@delete", "outbox-exactly-once@delete"]
    assert cases[skipped[0]].find("skipped").get("message") == f"not offered: {REASON}"
    assert any("consume-once@default a race of 8" in name for name in cases)
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("1", "1", "4")


@pytest.mark.parametrize("make", ALL)
def test_junit_is_red_exactly_when_the_cells_are(make):
    """A refusal is not red; an unfinished run has no last word, and its trials are skipped."""
    root = ET.fromstring(junit.render(make(), summarise(make())))
    is_red = int(root.get("failures")) + int(root.get("errors")) > 0
    assert is_red == (summarise(make()).exit_code != 0)


def test_a_subject_may_write_anything_as_its_reason():
    """It stands in a page and in a table of Markdown."""
    evil = '<script>"|`*[x](y)\x00'
    asked = tuple(leg if leg.offered else dataclasses.replace(leg, reason=evil) for leg in legs_of())
    data = run_of(results_of(asked), asked)
    assert "<script" not in page(data) + markdown.render(data, summarise(data))
    assert "\x00" not in page(data) + text_of(data) + junit.render(data, summarise(data))


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A run of the reference store on disk, as the campaign writes it: one leg promised, one not, one not offered."""
    monkeypatch.chdir(tmp_path)
    record = run_folder.new()
    record.write("subject.json", load_subject("sessions").model_dump(mode="json"))
    workloads = tuple({"kind": "session-cells", "cell": CELLS[0], "journal_mode": mode} for mode in ("wal", "off"))
    record.write_inputs(workloads, Prepared({}, {}, b""))
    record.write_plan(Plan((), 0, ()))
    told = [Leg(CELLS[0], "wal", 0), Leg(CELLS[0], "off", 1), Leg(CELLS[1], "default", None, REASON)]
    record.write("legs.json", to_plain(told))
    return record


def test_a_stored_run_knows_its_legs_with_clause_and_promise(stored):
    """The file has what the plan needs; a report needs what is promised in each mode, and of what contract it is."""
    promised, not_promised, refused = load(stored).legs
    assert (promised.name, promised.promised, promised.offered) == ("prefix-durability@wal", ("sigkill",), True)
    assert (not_promised.workload, not_promised.promised) == (1, ())
    assert (refused.reason, refused.offered) == (REASON, False)
    assert promised.clause.startswith("prefix continuation (")
    assert load(stored).audits == ("journal-mode",)


def test_a_stored_run_without_legs_is_no_cells_campaign(stored):
    """A matrix writes no such file."""
    (stored.path / "legs.json").unlink()
    assert load(stored).legs == ()


def test_a_matrix_has_no_table_of_cells():
    """It has no legs."""
    assert legs.lines(green_matrix()) == []
    assert "not offered" not in page(green_matrix())
