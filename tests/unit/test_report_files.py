"""The files that a run leaves for people and for CI: HTML, JUnit XML, Markdown."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
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

from lab.model import Fact, Word
from lab.report import html, junit, markdown
from lab.report.charts import recovery_chart
from lab.report.data import HookInfo
from lab.report.summary import summarise

EVIL = '<script>alert("1")</script>|`*[x](y)&\x00\x1b]]>'


def red(**changes):
    """A violation, a note, a hang, a missed canary and a hook that nobody reached."""
    others = [point_result(9 + n, "ext4", w) for n, w in enumerate((Word.VIOLATION, Word.NOTE, Word.HANG, Word.ERROR))]
    results = replaced(green_results(), *others, canary_result(301, "tmpfs", Word.PASS, ""))
    hooks = (*HOOKS, HookInfo("recovery.never", "is never reached", "recovery"))
    return run_of(results, **{"hooks": hooks, "expected_hooks": 5} | changes)


def evil():
    """A subject, a hook, a fact and a reason that all try to break out of the page."""
    result = point_result(9, "ext4", Word.VIOLATION)
    verdict = dataclasses.replace(result.verdict, why=EVIL, differs=Fact(EVIL, EVIL, {EVIL: 1}, EVIL), property=EVIL)
    hooks = (*HOOKS[:3], HookInfo(EVIL, EVIL, "run"))
    return run_of(
        replaced(green_results(), dataclasses.replace(result, verdict=verdict)),
        hooks=hooks,
        subject=EVIL,
        environment={EVIL: EVIL},
    )


def page(data):
    return html.render(data, summarise(data))


class Elements(HTMLParser):
    """Which elements a page has, what they refer to, and whether they are closed in order."""

    VOID = ("meta", "link", "br", "img", "use", "path", "clippath")

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
        self.references += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("make", [green, red, evil, lambda: dataclasses.replace(green(), results=(), trials=())])
def test_the_page_is_whole_and_fetches_nothing(make):
    """It must open from a CI artifact, offline, with scripts off."""
    text = page(make())
    elements = Elements(text)
    assert elements.open == []
    assert "script" not in elements.tags
    assert "link" not in elements.tags
    assert all(reference.startswith("#") for reference in elements.references)
    assert "url(" not in re.sub(r"url\(#\w+\)", "", text)
    assert "@import" not in text


def test_the_page_says_the_verdict_in_words_first():
    """Colour alone tells some readers nothing."""
    good, bad = page(green()), page(red())
    assert '<span class="word">PASS</span>144 real kills, every promise held' in good
    assert '<span class="word">VIOLATION</span>a promise was broken: 1 violation, 1 error, 1 hang' in bad
    assert bad.index("Not enough evidence") < bad.index("Red trials") < bad.index("Storage layers")


def test_the_page_has_every_hook_on_every_layer_and_marks_those_never_reached():
    """A table that leaves out the empty rows hides what it is for."""
    text = page(red())
    for hook in (*HOOKS, HookInfo("recovery.never", "", "recovery")):
        assert f">{hook.name}<" in text
    assert text.count("0 – never") == len(STORAGES)
    assert "1 violation</small>" in text


def test_the_page_has_each_failure_with_its_fact_and_replay_line():
    """What the terminal said has scrolled away."""
    text = page(red())
    for part in ("trial 0009 · ext4 · sigkill", "lab replay 20261130-101502-7f3a 0009", "requests 41 and 58", "missed"):
        assert part in text, part


def test_the_page_escapes_whatever_a_subject_said():
    """A report is opened by people who did not write the subject."""
    text = page(evil())
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "\x00" not in text


def test_the_same_run_gives_the_same_bytes():
    """Reports of one run can be compared with diff; matplotlib salts its names and writes the date by itself."""
    shuffled = dataclasses.replace(red(), results=tuple(reversed(red().results)))
    for render in (html.render, junit.render, markdown.render):
        assert render(red(), summarise(red())) == render(shuffled, summarise(shuffled))


def test_the_chart_tells_layers_apart_without_colour_and_follows_the_page():
    """Each line has its own dashes and label; a fixed colour would vanish in the other scheme."""
    chart = recovery_chart({"ext4": [30.0, 40.0], "tmpfs": [20.0, 25.0], "<b>": [50.0, 70.0], "none": []})
    assert ">ext4</text>" in chart
    assert "<b>" not in chart
    assert len(set(re.findall(r"stroke-dasharray: ([\d.,]+)", chart))) == 2
    assert {"var(--series-1)", "var(--series-2)", "var(--series-3)"} <= set(re.findall(r"var\([\w-]+\)", chart))
    assert not re.search(r"#[0-9a-f]{6}\b", chart)
    assert recovery_chart({"ext4": []}) == ""


def suites(data):
    root = ET.fromstring(junit.render(data, summarise(data)))
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


@pytest.mark.parametrize(
    "make",
    [
        green,
        red,
        lambda: run_of([]),
        lambda: run_of([*green_results(), probe_result(400, Word.INVALID)]),
        lambda: run_of(replaced(green_results(), canary_result(301, "tmpfs", Word.PASS, ""))),
        lambda: green(expected_hooks=9),
    ],
)
def test_junit_is_red_exactly_when_lab_is(make):
    """A CI system that reads nothing but this file must come to the same end."""
    root, _ = suites(make())
    is_red = int(root.get("failures")) + int(root.get("errors")) > 0
    assert is_red == (summarise(make()).exit_code != 0)


def test_junit_survives_whatever_a_subject_said():
    """XML forbids most control characters even escaped; one would lose the whole file."""
    _, found = suites(evil())
    failure = found["matrix.ext4"].find("testcase/failure")
    assert "<script>" in failure.text


def test_junit_shows_trials_that_did_not_run_as_skipped():
    """They are neither passed nor lost from sight."""
    root, _ = suites(dataclasses.replace(green(), results=tuple(green_results()[7:]), interrupted=True))
    assert root.get("skipped") == "7"


def test_markdown_has_the_table_the_failures_and_the_replay_lines():
    """It is all that most people see of a CI job."""
    text = markdown.render(red(), summarise(red()))
    assert text.startswith("## ❌ VIOLATION: ")
    assert markdown.render(green(), summarise(green())).startswith("## ✅ PASS: ")
    for part in (
        "| ext4 | 40 |",
        "`lab replay 20261130-101502-7f3a 0009`",
        "planted bug not caught",
        "bound: fewer than",
    ):
        assert part in text, part


def test_markdown_cells_cannot_be_broken_out_of():
    """A pipe in a fact shifts the columns; a tag is rendered by the forge."""
    text = markdown.render(evil(), summarise(evil()))
    assert "<script" not in text
    rows = [line for line in text.splitlines() if line.startswith("| 0009")]
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 7
