"""The workloads of the conformance cells: repeatable, valid, dense enough, and small enough to be handed over."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import checkers  # noqa: F401 - makes `verifier` below be found
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verifier.cells import CELLS as JUDGED
from verifier.cells.properties import prefix_durability, rotation_atomicity

from lab.workloads import FAMILIES
from lab.workloads.session_cells import (
    CELLS,
    JOURNAL_MODES,
    KIND,
    RACERS,
    RACES,
    TAIL,
    Cell,
    generate,
    outlasting,
    prepared,
)

ROOT = Path(__file__).resolve().parents[2]

Json = dict[str, Any]

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)
SIZES = st.sampled_from(["ci", "nightly"])
MAX_WORKLOAD_BYTES = 100 * 1024  # docs/protocol.md: LAB_WORKLOAD
MAX_RECORD_BYTES = 4096  # docs/protocol.md: one record of the history
FIELDS = {
    "create": {"session"},
    "append": {"session", "role", "content"},
    "rewind": {"session", "keep"},
    "edit": {"session", "keep", "content"},
    "rotate": {"session", "child", "summary"},
    "park": {"session", "item"},
    "claim": {"item", "by"},
    "finish": {"item", "by"},
    "record": {"delivery", "session", "content"},
    "send": {"delivery"},
    "sweep": set(),
    "race_processes": {"racers", "do"},
}


def expanded(ops: list[Json]) -> list[Json]:
    """As docs/cells.md has `repeat`."""
    found = []
    for op in ops:
        plain = {key: value for key, value in op.items() if key != "repeat"}
        for n in range(1, op.get("repeat", 1) + 1):
            texts = {
                k: v.replace("{n}", str(n)) if isinstance(v, str) and "repeat" in op else v for k, v in plain.items()
            }
            found.append(texts)
    return found


class Played:
    """A store that does each op, and refuses what makes no sense."""

    def __init__(self) -> None:
        self.messages: dict[str, list[str]] = {}  # session: the role of each message
        self.closed: set[str] = set()
        self.items: dict[str, str] = {}
        self.deliveries: dict[str, str] = {}
        self.contents: Counter[str] = Counter()

    def play(self, op: Json) -> None:
        session = op.get("session", "")
        if op["op"] == "create":
            assert session not in self.messages
            self.messages[session] = []
            return
        if session:
            assert session in self.messages and session not in self.closed, op
        self.contents.update(op[key] for key in ("content", "summary") if key in op)
        if op["op"] == "append":
            self.messages[session].append(op["role"])
        elif op["op"] in ("rewind", "edit"):
            abandoned = self.messages[session][op["keep"] :]
            assert abandoned and {abandoned[0], abandoned[-1]} == {"user"}, op
            del self.messages[session][op["keep"] :]
            self.messages[session] += ["user"] if op["op"] == "edit" else []
        elif op["op"] == "rotate":
            assert op["child"] not in self.messages
            self.closed.add(session)
            self.messages[op["child"]] = ["system"]
        else:
            self._other(op)

    def _other(self, op: Json) -> None:
        if op["op"] == "park":
            assert op["item"] not in self.items
            self.items[op["item"]] = "parked"
        elif op["op"] == "claim":
            assert self.items[op["item"]] == "parked"
            self.items[op["item"]] = "claimed"
        elif op["op"] == "finish":
            assert self.items[op["item"]] == "claimed"
            self.items[op["item"]] = "done"
        elif op["op"] == "record":
            assert op["delivery"] not in self.deliveries
            self.deliveries[op["delivery"]] = "pending"
        elif op["op"] == "send":
            assert self.deliveries[op["delivery"]] == "pending"
            self.deliveries[op["delivery"]] = "delivered"
        elif op["op"] == "sweep":
            self.deliveries = dict.fromkeys(self.deliveries, "delivered")
        elif op["op"] == "race_processes":
            assert op["racers"] == RACERS
            self.play(op["do"])


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(sorted(CELLS)), st.sampled_from(JOURNAL_MODES), SIZES)
def test_every_workload_is_valid_and_fits_what_it_is_handed_over_in(seed: int, cell: str, mode: str, size: Any) -> None:
    """docs/cells.md and docs/protocol.md: each op in order can be done, contents are unique, records are short."""
    workload = generate(seed, cell, mode, size)
    assert (workload["kind"], workload["version"], workload["cell"], workload["journal_mode"]) == (KIND, 1, cell, mode)
    assert len(json.dumps(workload)) <= MAX_WORKLOAD_BYTES
    store = Played()
    for script in (prepared(seed), workload):
        for op in expanded(script["work"]):
            assert op.keys() - {"op"} == FIELDS[op["op"]]
            assert (
                len(json.dumps({"lab": "n" * 40, "op": op["op"], "type": "invoke", "id": 99999, "do": op}))
                < MAX_RECORD_BYTES
            )
            store.play(op)
    if workload["race"] is not None:
        store.play(workload["race"])
        assert workload["racers"] == RACERS
    # A new boot may take over what a dead one had claimed.
    store.items = {item: "parked" if state == "claimed" else state for item, state in store.items.items()}
    for op in workload["resume"]:
        if op["op"] not in ("claim", "finish") or store.items[op["item"]] != "done":
            store.play(op)
    assert max(store.contents.values(), default=1) == 1
    assert set(store.items.values()) <= {"done", "parked"}
    assert set(store.deliveries.values()) <= {"delivered"}


def test_the_same_seed_gives_the_same_workload_and_another_one_another() -> None:
    """`lab replay --seed` repeats it: whoever changes what a seed gives must know that he does."""
    texts = {cell: json.dumps([generate(7, cell, "wal", size) for size in ("ci", "nightly")]) for cell in CELLS}
    assert texts == {cell: json.dumps([generate(7, cell, "wal", s) for s in ("ci", "nightly")]) for cell in CELLS}
    assert all(json.dumps(generate(8, cell, "wal")) != json.dumps(generate(7, cell, "wal")) for cell in CELLS)
    digest = hashlib.sha256("".join([*texts.values(), json.dumps(prepared(7))]).encode()).hexdigest()[:12]
    assert digest == "3e1b8901ed86"


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_there_is_enough_of_what_a_cell_counts_and_some_left_to_be_killed_at(seed: int) -> None:
    """200 appends and 50 rotations must lie before the kill; nightly 29,500 messages."""
    counts = {
        size: Counter(op["op"] for op in expanded(generate(seed, "prefix-durability", "wal", size)["work"]))
        for size in ("ci", "nightly")
    }  # type: ignore[arg-type]
    assert counts["ci"]["append"] >= prefix_durability.ENOUGH + 60
    assert counts["nightly"]["append"] >= 29_500
    rotations = Counter(op["op"] for op in generate(seed, "rotation-atomicity", "wal")["work"])
    assert rotations["rotate"] >= rotation_atomicity.ENOUGH + 10


def test_what_is_behind_a_story_is_valid_and_fits_and_changes_nothing_of_it() -> None:
    """Planted: a tail that touches the story's sessions, or one whose texts are not unique."""
    for cell in CELLS:
        story = generate(7, cell, "wal")
        longer = outlasting(story)
        assert longer["work"][: len(story["work"])] == story["work"]
        assert {**longer, "work": story["work"]} == story
        played = Played()
        ops = expanded(longer["work"])
        for op in ops:
            played.play(op)
        assert len(ops) == len(expanded(story["work"])) + TAIL + 1
        assert len(played.messages["meanwhile"]) == TAIL
        assert max(played.contents.values()) == 1
        assert len(json.dumps(longer)) < MAX_WORKLOAD_BYTES


def test_a_race_is_run_often_enough_to_show_a_fault_that_one_trial_misses() -> None:
    """A race of a real store broke its promise once, and none of its three replays did. It had been planned once."""
    layers = 3
    assert (1 - 1 / 3) ** (layers * RACES["ci"]) < 0.03
    assert (1 - 1 / 10) ** (layers * RACES["nightly"]) < 0.05


def test_a_journal_mode_that_sqlite_does_not_have_is_refused() -> None:
    """A typing error must not become a leg that the store runs in its default."""
    with pytest.raises(ValueError, match="there is no journal mode 'wall'"):
        generate(7, "consume-once", "wall")


def test_it_is_a_family_whose_first_seven_workloads_are_the_cells() -> None:
    """So that other campaigns and `lab hooks` find it by its kind."""
    family = FAMILIES[KIND]
    assert [family.generate(7, index)["cell"] for index in range(7)] == list(CELLS)
    assert family.ledger_rules(family.generate(7, 4)) == {"decline": [], "lose_reply": []}


def test_the_cells_of_the_lab_the_generator_and_the_verifier_are_the_same() -> None:
    """One list in two places that may not import each other."""
    assert list(CELLS) == list(JUDGED)
    least = {cell.least for cell in CELLS.values() if cell.least}
    assert least == {("append", prefix_durability.ENOUGH), ("rotate", rotation_atomicity.ENOUGH)}
    races = {cell.name for cell in CELLS.values() if cell.races}
    assert races == {cell for cell in CELLS if generate(7, cell, "wal")["race"]}


def test_the_table_of_cells_in_the_docs_is_the_one_of_the_data() -> None:
    """A cell that is documented and not run, or run and not documented."""
    assert table() in (ROOT / "docs" / "cells.md").read_text(encoding="utf-8")


def table() -> str:
    """The cells as a Markdown table, as docs/cells.md has it."""
    lines = [
        "| cell | clause | what is checked | views | before the kill | legs in CI | legs nightly |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(cell) for cell in CELLS.values()]
    return "\n".join(lines) + "\n"


def _row(cell: Cell) -> str:
    least = f"at least {cell.least[1]} × `{cell.least[0]}` acknowledged" if cell.least else "–"
    cells = (
        f"`{cell.name}`",
        f"{cell.clause} ({cell.source})",
        cell.checked,
        _listed(cell.views),
        least,
        _legs(cell.modes("ci"), races=cell.races),
        _legs(cell.modes("nightly"), races=cell.races),
    )
    return "| " + " | ".join(cells) + " |"


def _legs(modes: tuple[str, ...], *, races: bool) -> str:
    return _listed(modes) + ("; and a race of containers" if races else "")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
