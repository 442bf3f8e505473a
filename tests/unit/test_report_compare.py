"""`lab compare`: layers side by side, two runs, legs; what should be equal and is not has a mark."""

from __future__ import annotations

import dataclasses

import pytest
import report_cells_data as cells
from report_data import green, green_results, point_result, replaced, run_of
from report_views import headline

from lab.model import Word
from lab.report.compare import compare
from lab.report.text import WIDTH


@pytest.mark.parametrize("make", [green, cells.green, cells.red, cells.nightly, cells.interrupted, cells.of_a_bug])
def test_no_comparison_is_wider_than_100_columns(make):
    """Seven journal modes do not fit beside each other: the table goes on below."""
    for text in (compare(make()), compare(make(), cells.red())):
        for line in text.splitlines():
            assert len(line) <= WIDTH or max(map(len, line.split())) > 60, line
            assert line == "" or line.isprintable()


def test_layers_side_by_side_mark_what_differs_and_name_the_points():
    """`overlay` lost what `ext4` kept: that is what a comparison is for."""
    text = compare(run_of(replaced(green_results(), point_result(209, "overlay", Word.VIOLATION))))
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


def test_layers_and_journal_modes_stand_side_by_side_and_what_differs_is_marked():
    """One mode that loses what the others keep; a refusal is no verdict that could differ."""
    rows = [line.split() for line in compare(cells.red()).splitlines()]
    assert ["outbox-exactly-once", "wal", "pass", "≠", "violation"] in rows
    assert ["outbox-exactly-once", "tmpfs", "pass", "not", "offered", "≠", "violation"] in rows
    assert ["prefix-durability", "delete", "not", "offered", "not", "offered"] in rows
    assert "≠" not in compare(cells.green()).split("legend")[0]
    assert headline(cells.green()).exit_code == 0


def test_two_runs_are_compared_leg_by_leg():
    """Another store, or another version of the same."""
    rows = [line.split() for line in compare(cells.green(), cells.red()).splitlines()]
    assert ["outbox-exactly-once", "wal", "pass", "≠", "violation"] in rows
    assert ["consume-once", "default", "pass", "≠", "note"] in rows


def test_a_race_is_called_one():
    """It has no crash point, and must not look as if the lab had forgotten it."""
    number = cells.number(cells.green(), cells.CELLS[1], "default", "tmpfs", 2)
    text = compare(cells.ended(cells.green(), number, Word.VIOLATION, cells.CELLS[1], cells.DIFFERS))
    assert "a race of 8 (consume-once@default): ext4 pass, tmpfs violation" in text
