"""The files that a run leaves for people and for CI: HTML, JUnit XML, Markdown."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
import report_cells_data as cells
import report_fuzz_data as clients
from report_data import (
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
from report_evidence import BROKEN, of_itself
from report_views import end, headline, md, page, xml

from lab.model import Fact, Life, Op, Word
from lab.report.render.html import decades, share_line, ticks
from lab.report.timeline import timeline
from lab.run.data import HookInfo

EVIL = '<script>alert("1")</script>|`*[x](y)&\x00\x1b]]>'
VIOLATION = clients.result(7, Word.VIOLATION)
DRIVEN = [*clients.green(6), VIOLATION, clients.result(8, Word.HANG), clients.noted(10)]


def red(**changes):
    """A violation, a note, a hang, a missed canary and a hook that nothing was killed at."""
    others = [point_result(9 + n, "ext4", w) for n, w in enumerate((Word.VIOLATION, Word.NOTE, Word.HANG, Word.ERROR))]
    results = replaced(green_results(), *others, canary_result(301, "tmpfs", Word.PASS, ""))
    hooks = (*HOOKS, HookInfo("recovery.never", "is never reached", "recovery"))
    return run_of(results, **{"hooks": hooks, "expected_hooks": 5} | changes)


def evil():
    """A subject, a hook, a fact and a reason that all try to break out of the page."""
    result = point_result(9, "ext4", Word.VIOLATION)
    verdict = dataclasses.replace(result.verdict, why=EVIL, differs=Fact(EVIL, EVIL, {EVIL: 1}, EVIL), property=EVIL)
    hooks = (*HOOKS[:3], HookInfo(EVIL, EVIL, "run"))
    bad = dataclasses.replace(result, verdict=verdict)
    return run_of(replaced(green_results(), bad), hooks=hooks, subject=EVIL, environment={EVIL: EVIL})


def evil_client():
    """A daemon, a fact, a note, an operation and a script that do."""
    verdict = dataclasses.replace(VIOLATION.verdict, why=EVIL, differs=Fact(EVIL, EVIL, {EVIL: 1}, EVIL), property=EVIL)
    bad = dataclasses.replace(
        VIOLATION, verdict=dataclasses.replace(verdict, notes=(EVIL,)), waits_ms={EVIL: (0.0, 1.0)}
    )
    life = Life((Op(1, 1, EVIL, {"chat": EVIL}),), None)
    short = dataclasses.replace(clients.short(), scenario=dataclasses.replace(clients.SCRIPT, lives=(life,)))
    promises = {EVIL: ("sigkill",)}
    return clients.run_of([*clients.green(2), bad], subject=EVIL, reproducers={7: short}, promises=promises)


def evil_cells():
    """A store that writes anything as its reason."""
    asked = tuple(leg if leg.offered else dataclasses.replace(leg, reason=EVIL) for leg in cells.legs_of())
    return cells.run_of(cells.results_of(asked), asked)


EVILS = [evil, evil_client, evil_cells]
RUNS = [
    green,
    red,
    *EVILS,
    cells.red,
    cells.nightly,
    cells.nothing_offered,
    cells.of_a_bug,
    lambda: clients.run_of([*DRIVEN, clients.canary(20)], bugs=(clients.BUG,), reproducers={7: clients.short()}),
    lambda: clients.run_of([], hooks=(), expected_hooks=0),
    lambda: dataclasses.replace(green(), results=(), trials=()),
]


class Elements(HTMLParser):
    """Which elements a page has, what they refer to, and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [v for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("make", RUNS)
def test_the_page_is_whole_fetches_nothing_and_every_link_leads_somewhere(make):
    """It must open from a CI artifact, offline, with scripts off."""
    text = page(make())
    elements = Elements(text)
    assert elements.open == []
    assert not {"script", "link", "img", "iframe"} & set(elements.tags)
    assert {f"#{anchor}" for anchor in re.findall(r' id="([^"]+)"', text)} >= set(elements.references)
    assert "url(" not in text
    assert "@import" not in text


def test_the_page_says_the_verdict_in_words_and_what_must_be_seen_first():
    """Colour alone tells some readers nothing."""
    good, bad = page(green()), page(red())
    assert '<span class="word">PASS</span>144 real kills, every promise held' in good
    assert '<span class="word">VIOLATION</span>a promise was broken: 1 violation, 1 error, 1 hang' in bad
    assert bad.index("Red trials") < bad.index("Not enough evidence") < bad.index("Storage layers")
    assert bad.index("Where it was killed") < bad.index("Environment")


def test_the_page_has_every_hook_on_every_layer():
    """A table that leaves out the empty rows hides what it is for."""
    text = page(red())
    for hook in (*HOOKS, HookInfo("recovery.never", "", "recovery")):
        assert f">{hook.name}<" in text
    assert text.split("recovery.never")[-1].count(">0<") == len(STORAGES)
    assert "✗ 1 violation</small>" in text


def test_the_page_has_each_failure_with_its_fact_replay_line_and_picture():
    """What the terminal said has scrolled away."""
    text = page(red(), pictures={9: timeline(of_itself(), BROKEN)})
    for part in (
        "trial 0009 · ext4 · sigkill",
        "lab replay 20261130-101502-7f3a 0009",
        "requests 41 and 58",
        "440 ms: sigkill of process 1 at log.synced#17",
        '<circle class="request broke"',
        '<rect class="look broke"',
        '<rect class="recovery ',
    ):
        assert part in text, part
    assert text.count('<line class="strike"') == 2
    assert "<svg class=" not in page(red())


@pytest.mark.parametrize("make", EVILS)
def test_nothing_that_a_subject_said_is_markup_or_a_control_character(make):
    """A report is opened by people who did not write the subject."""
    for text in (page(make()), md(make())):
        assert "<script" not in text
        assert "&lt;script&gt;" in text
    for text in (page(make()), md(make()), xml(make()), end(make())):
        assert "\x00" not in text
        assert "\x1b" not in text
    ET.fromstring(xml(make()))


def test_the_same_run_gives_the_same_bytes():
    """Reports of one run can be compared with diff."""
    for data in (red(), clients.run_of(DRIVEN)):
        shuffled = dataclasses.replace(data, results=tuple(reversed(data.results)))
        assert [view(data) for view in (page, xml, md, end)] == [view(shuffled) for view in (page, xml, md, end)]


def test_the_chart_tells_layers_apart_without_colour_and_follows_the_page():
    """Each line has its own dashes and label; a fixed colour would vanish in the other scheme."""
    lines = re.findall(r'<polyline class="series (s\d)" stroke-dasharray="([^"]*)"', page(green()))
    assert lines == [("s1", ""), ("s2", "7 3"), ("s3", "2 2")]
    assert "ecdf" not in page(run_of([]))
    assert "<polyline" not in page(run_of([]))


@pytest.mark.parametrize(
    ("longest", "marks"),
    [(0, [0]), (7, [0, 2, 4, 6]), (118, [0, 20, 40, 60, 80, 100]), (0.4, [0, 0.1, 0.2, 0.3, 0.4])],
)
def test_an_axis_has_round_numbers(longest, marks):
    """An axis of 0, 16.86, 33.71 is read by nobody."""
    assert ticks(longest) == pytest.approx(marks)


def test_a_logarithmic_axis_ends_at_powers_of_ten():
    """Also if all waits are alike, or none took any time."""
    assert decades(0.1, 2500) == [0.1, 1, 10, 100, 1000, 10_000]
    assert decades(0.1, 0.1) == [0.1, 1]


def test_a_staircase_begins_at_nothing_and_ends_at_all():
    """Two of four values do not exceed the second."""
    assert share_line([1, 2], 0, 10, 0, 100, 4) == "0.0,100.0 2.5,100.0 2.5,50.0 5.0,50.0 5.0,0.0 10.0,0.0"


# JUnit XML.


def suites(data):
    root = ET.fromstring(xml(data))
    return root, {suite.get("name"): suite for suite in root}


def test_junit_has_a_suite_a_layer_and_counts_that_agree():
    """A CI system believes the attributes, a person the elements."""
    root, found = suites(red())
    assert list(found) == ["matrix.ext4", "matrix.tmpfs", "matrix.overlay", "matrix.canaries", "matrix.evidence"]
    for suite in root:
        for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            assert int(suite.get(attribute)) == len(list(suite.iter(tag))), (suite.get("name"), tag)
    assert int(root.get("tests")) == 40 * 3 + 3 + 1
    assert (root.get("failures"), root.get("errors")) == ("2", "3")


def test_junit_calls_a_broken_promise_a_failure_and_a_missing_answer_an_error():
    """A hang is not a broken assertion."""
    _, found = suites(red())
    kinds = {c.get("name")[:4]: c[0].tag for c in found["matrix.ext4"] if len(c)}
    assert kinds == {"0009": "failure", "0010": "system-out", "0011": "error", "0012": "error"}
    missed = [c for c in found["matrix.canaries"] if len(c)]
    assert [c.get("name") for c in missed] == ["ack-before-append on tmpfs"]


def test_junit_has_a_case_a_trial_named_for_its_leg_and_skips_what_is_not_offered():
    """A CI system lists them beside the passes, with the reason."""
    root, found = suites(cells.red())
    cases = {case.get("name"): case for case in found["cells.tmpfs"]}
    skipped = [name for name, case in cases.items() if case.find("skipped") is not None]
    assert skipped == ["prefix-durability@delete", "outbox-exactly-once@delete"]
    assert cases[skipped[0]].find("skipped").get("message") == f"not offered: {cells.REASON}"
    assert any("consume-once@default a race of 8" in name for name in cases)
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("1", "1", "4")


def test_junit_of_a_run_of_clients_has_a_test_for_each_property_on_each_layer():
    """Trials have other names in each run: a CI system could not say that one fails again."""
    _, found = suites(clients.run_of(DRIVEN))
    names = [case.get("name").split()[0] for case in found["fuzz.tmpfs"]]
    assert names == [
        "chats-durable", "drafts-durable", "removals-final", "machine-kept-up", "work-done", "recovers", "every",
    ]  # fmt: skip
    (broken,) = found["fuzz.tmpfs"].iter("failure")
    assert broken.get("message").startswith("VIOLATION seed 7/7 step 41 queue/remove")
    assert f"replay: lab replay {clients.RUN} 0007" in broken.text
    assert found["fuzz.ext4"].get("failures") == found["fuzz.ext4"].get("errors") == "0"
    (hang,) = found["fuzz.overlay"].iter("error")
    assert hang.get("type") == "hang"


def test_junit_shows_a_note_and_is_not_red_for_it():
    """It was not promised not to happen."""
    _, found = suites(clients.run_of([*clients.green(3), clients.noted(4)]))
    assert "seed 7/4 step 12 chat/rename" in "".join(found["fuzz.tmpfs"].itertext())
    assert found["fuzz.tmpfs"].get("errors") == "0"


def with_canaries(results):
    return clients.run_of(results, bugs=(clients.BUG,) if any(r.trial.bug for r in results) else ())


@pytest.mark.parametrize(
    "make",
    [
        *RUNS,
        lambda: run_of([]),
        lambda: run_of([*green_results(), probe_result(400, Word.INVALID)]),
        lambda: run_of(replaced(green_results(), canary_result(301, "tmpfs", Word.PASS, ""))),
        lambda: green(expected_hooks=9),
        *(lambda word=word: with_canaries([*clients.green(3), clients.result(4, word)]) for word in Word),
        lambda: with_canaries([*clients.green(3), clients.canary(20)]),
        lambda: with_canaries([*clients.green(3), clients.canary(20, Word.PASS)]),
        lambda: with_canaries([clients.result(1, hits=())]),
    ],
)
def test_junit_is_red_exactly_when_lab_is(make):
    """A CI system that reads nothing but this file must come to the same end."""
    root, _ = suites(make())
    is_red = int(root.get("failures")) + int(root.get("errors")) > 0
    assert is_red == (headline(make()).exit_code != 0)


def test_junit_shows_what_did_not_run_as_skipped():
    """They are neither passed nor lost from sight; a canary that had no chance was not missed."""
    root, _ = suites(dataclasses.replace(green(), results=tuple(green_results()[7:]), interrupted=True))
    assert root.get("skipped") == "7"
    _, stopped = suites(clients.run_of([clients.result(1)], bugs=(clients.BUG,), interrupted=True))
    assert stopped["fuzz.canaries"].get("skipped") == "1"


# Markdown.


def test_markdown_has_the_verdict_the_failures_the_tables_and_the_replay_lines():
    """It is all that most people see of a CI job."""
    text = md(red())
    assert text.startswith("## ❌ VIOLATION: ")
    assert md(green()).startswith("## ✅ PASS: ")
    for part in ("| ext4 | 40 |", "`lab replay 20261130-101502-7f3a 0009`", "uncaught: ack-before-append", "- bound: "):
        assert part in text, part
    driven = md(clients.run_of(DRIVEN))
    for part in ("| queue/remove | ", f"`lab replay {clients.RUN} 0007`", "chat/rename"):
        assert part in driven, part


@pytest.mark.parametrize("make", [evil, evil_client])
def test_markdown_cells_cannot_be_broken_out_of(make):
    """A pipe in a fact shifts the columns; a tag is rendered by the forge."""
    rows = [line for line in md(make()).splitlines() if line.startswith("| violation")]
    assert rows
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [6] * len(rows)
