"""The files that a fuzz run leaves for people and for CI: HTML, JUnit XML, Markdown."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest
from report_fuzz_data import BUG, NOTE, RUN, SHORT, canary, data, green, result
from test_report_files import EVIL, Elements

from lab.fuzz.model import FuzzResult
from lab.model import Fact, Word
from lab.report import fuzz_html
from lab.report.charts import waits_chart
from lab.report.fuzz_data import FuzzData
from lab.report.fuzz_files import junit, markdown
from lab.report.fuzz_summary import summarise

VIOLATION = result(7, Word.VIOLATION)
RED = [*green(6), VIOLATION, result(8, Word.HANG), result(9, Word.UNREPRODUCED), result(10, notes=(NOTE,))]


def page(results: Sequence[FuzzResult], of: FuzzData) -> str:
    return fuzz_html.render(results, of, summarise(results, of))


def suites(results: Sequence[FuzzResult], of: FuzzData) -> dict[str, ET.Element]:
    return {str(s.get("name")): s for s in ET.fromstring(junit(results, of, summarise(results, of)))}


def evil() -> tuple[list[FuzzResult], FuzzData]:
    """A daemon, a fact, a hook and a script that all try to break out of the page."""
    verdict = dataclasses.replace(VIOLATION.verdict, why=EVIL, differs=Fact(EVIL, EVIL, {EVIL: 1}, EVIL), property=EVIL)
    bad = dataclasses.replace(
        VIOLATION, verdict=verdict, kills=(f"hook {EVIL}",), notes=(EVIL,), waits_ms={EVIL: (1.0, 0.0)}
    )
    short = dataclasses.replace(SHORT, lines=(EVIL,))
    of = data(subject=EVIL, hooks=(EVIL,), environment={EVIL: EVIL}, shrunk={7: short}, promises={EVIL: ("sigkill",)})
    return [*green(2), bad], of


def test_the_page_is_well_formed_fetches_nothing_and_shows_what_a_run_was() -> None:
    """It is mailed about and opened offline."""
    results = [*RED, canary(20)]
    text = page(results, data(bugs=(BUG,), shrunk={7: SHORT}))
    elements = Elements(text)
    assert elements.open == []
    assert "script" not in elements.tags
    assert [r for r in elements.references if not r.startswith("#")] == []
    for part in (
        "VIOLATION",
        "a promise was broken: 1 distinct violation",
        f"lab replay {RUN} 7",
        "kill -9   at queue.removed#1",
        "61 to 5 operations, one at a time",
        "NOTE seed=7/10 step=12 op=chat/rename",
        "✓ caught",
        "queue/remove",
        "asked for 10 min",
    ):
        assert part in text, part


def test_the_page_of_a_run_without_anything_says_so() -> None:
    """An interrupted run has a report, too."""
    text = page([], data(hooks=()))
    assert Elements(text).open == []
    for part in ("NO-WORK", "no operation was sent", "Nothing: nothing was asked", "No request was sent"):
        assert part in text


def test_a_hook_that_no_seed_reached_is_said_and_is_not_red() -> None:
    """A run of a minute reaches a third of them: a column of red buried what was broken."""
    text = page(green(), data(hooks=("chat.synced", "recovery.locked")))
    assert "0 – never</td>" in text
    assert 'class="n never"' not in text


def test_same_run_same_bytes() -> None:
    """A report that differs by itself cannot be compared."""
    assert page(RED, data()) == page(list(reversed(RED)), data())


@pytest.mark.parametrize("view", [page, lambda r, d: markdown(r, d, summarise(r, d))])
def test_a_daemon_cannot_write_markup_into_a_report(view: object) -> None:
    """What it prints, and how it names things, is its own."""
    assert callable(view)
    text = view(*evil())
    assert "<script>" not in text.replace("&lt;", "")
    assert "\x1b" not in text and "\x00" not in text


def test_what_a_daemon_says_leaves_the_xml_whole() -> None:
    """A CI system that cannot parse the file shows nothing at all."""
    assert "fuzz.ext4" in suites(*evil())


def test_junit_has_a_test_for_each_property_on_each_layer() -> None:
    """A CI system that reads nothing else must see what broke, and where."""
    found = suites(RED, data())
    assert set(found) == {"fuzz.ext4", "fuzz.tmpfs", "fuzz.overlay", "fuzz.canaries", "fuzz.evidence"}
    names = [str(case.get("name")) for case in found["fuzz.tmpfs"]]
    assert [name.split()[0] for name in names] == [
        "chats-durable", "drafts-durable", "removals-final", "machine-kept-up", "work-done", "recovers", "every",
    ]  # fmt: skip
    (broken,) = found["fuzz.tmpfs"].iter("failure")
    assert str(broken.get("message")).startswith("VIOLATION seed=7/7 step=41 op=queue/remove")
    assert f"replay: lab replay {RUN} 7" in str(broken.text)
    assert found["fuzz.ext4"].get("failures") == "0"
    assert found["fuzz.ext4"].get("errors") == "1"  # unreproduced: never green, never called proven
    (hang,) = found["fuzz.overlay"].iter("error")
    assert hang.get("type") == "hang"


def test_junit_shows_a_note_and_is_not_red_for_it() -> None:
    """Nobody promised to prevent it."""
    found = suites([*green(3), result(4, Word.NOTE, notes=(NOTE,))], data())
    assert "NOTE seed=7/4" in "".join(found["fuzz.tmpfs"].itertext())
    assert found["fuzz.tmpfs"].get("errors") == "0"


def test_junit_is_red_for_a_missed_bug_and_for_no_work() -> None:
    """`lab` exits with 2 then; a file that is all green would say the opposite."""
    found = suites([result(1, operations=0)], data(bugs=(BUG,)))
    assert found["fuzz.canaries"].get("failures") == "1"
    assert found["fuzz.evidence"].get("errors") == "1"
    stopped = suites([result(1)], data(bugs=(BUG,), interrupted=True))
    assert stopped["fuzz.canaries"].get("skipped") == "1"


@pytest.mark.parametrize(
    "results",
    [
        *([*green(3), result(4, word)] for word in Word),
        [*green(3), canary(20)],
        [*green(3), canary(20, Word.PASS)],
        [result(1, kills=())],
        [],
    ],
)
def test_junit_is_red_exactly_when_the_exit_code_is_not_0(results: list[FuzzResult]) -> None:
    """Planted: a word that no test of the file stands for."""
    of = data(bugs=(BUG,) if any(r.trial.bug for r in results) else ())
    root = ET.fromstring(junit(results, of, summarise(results, of)))
    red = root.get("failures") != "0" or root.get("errors") != "0"
    assert red == (summarise(results, of).exit_code != 0)


def test_the_markdown_has_tables_failures_and_notes() -> None:
    """The step summary of a CI job is what most people see."""
    results = [*RED, canary(20, Word.PASS)]
    text = markdown(results, data(bugs=(BUG,)), summarise(results, data(bugs=(BUG,))))
    assert text.startswith("## ❌ VIOLATION: a promise was broken")
    for part in (
        "| queue/remove | 100 | 5.0 | 10.0 | 10.0 | 10.0 |",
        f"`lab replay {RUN} 7`",
        "planted bug not caught: draft-before-write",
        "op=chat/rename",
    ):
        assert part in text, text


def test_a_green_markdown_says_so() -> None:
    """Planted: a red cross that is always there."""
    assert markdown(green(), data(), summarise(green(), data())).startswith("## ✅ PASS: 720 operations")


def test_a_chart_of_waits_takes_a_zero_and_no_waits() -> None:
    """A logarithmic scale has no zero; a run may have no answer."""
    chart = waits_chart({"status": (0.0, 0.0, 1.0, 2500.0)}, 2000)
    assert chart.startswith("<svg") and "status" in chart and 'aria-labelledby="waits"' in chart
    assert waits_chart({}, 2000) == ""
