"""The scripts that a campaign throws: valid, repeatable, and such that every hook of the catalogue can be reached."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.workloads import FAMILIES
from lab.workloads.agent_tasks import effect, generate, ledger_rules, prepared

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)
INDEXES = st.integers(min_value=0, max_value=40)
STEP_KEYS = {
    "say": {"do", "text", "ticks"},
    "call": {"do", "tool", "class", "args", "outcome", "lose_reply", "ticks"},
    "finish": {"do", "ticks"},
    "fail": {"do", "ticks"},
    "cancel": {"do", "ticks"},
}
Json = dict[str, Any]


class Played:
    """A workload played by docs/workload.md and counted by docs/format.md, apart from the code that made it."""

    def __init__(self, workload: Json) -> None:
        self.transitions: Counter[tuple[str | None, str]] = Counter()
        self.intents: Counter[tuple[str | None, str]] = Counter()
        self.sent: Counter[tuple[str, str, bool]] = Counter()  # class, outcome, lose_reply
        self.cursors = self.reused = 0
        for task in workload["tasks"]:
            self._task(task)

    @property
    def records(self) -> int:
        return self.transitions.total() + self.intents.total() + self.cursors

    def _task(self, task: Json) -> None:
        known: set[str] = set()
        for steps in task["tries"]:
            self._go(None, "created")
            if task["cancelled_before_admission"]:
                return self._go("created", "cancelled")
            self._go("created", "admitted", "running")
            if self._try(task, steps, known) != "failed":
                return None
        return None

    def _try(self, task: Json, steps: list[Json], known: set[str]) -> str:
        clock = 0
        for number, step in enumerate(steps):
            if clock + step["ticks"] > task["deadline"]:
                end = "timed_out"
                break
            clock += step["ticks"]
            if step["do"] in ("finish", "fail", "cancel"):
                end = {"finish": "succeeded", "fail": "failed", "cancel": "cancelled"}[step["do"]]
                break
            if step["do"] == "call":
                self._call(effect(task["task"], number, step), step, known)
            self.cursors += 1
        self._go("running", end)
        return end

    def _call(self, identity: str, step: Json, known: set[str]) -> None:
        if identity in known:
            self.reused += 1
            return
        known.add(identity)
        self.sent[step["class"], step["outcome"], step["lose_reply"]] += 1
        self._go("running", "waiting", "running")
        ways = {"ok": (None, "proposed", "dispatched", "applied", "resolved_ok"),
                "declined": (None, "proposed", "dispatched", "resolved_failed")}  # fmt: skip
        way = ways[step["outcome"]]
        self.intents.update(pairwise(way))

    def _go(self, *states: str | None) -> None:
        self.transitions.update(pairwise(states))


def valid(workload: Json) -> None:
    """By docs/workload.md, as written in this test."""
    assert set(workload) == {"kind", "version", "seed", "slots", "checkpoint_every", "segment_bytes", "tasks"}
    assert (workload["kind"], workload["version"]) == ("agent-tasks", 1)
    assert workload["slots"] >= 1 and workload["checkpoint_every"] >= 1 and workload["segment_bytes"] >= 1024
    numbers = [task["task"] for task in workload["tasks"]]
    assert len(set(numbers)) == len(numbers)
    for task in workload["tasks"]:
        assert set(task) == {"task", "deadline", "cancelled_before_admission", "tries"}
        assert task["tries"] and task["deadline"] > 0
        fates: dict[str, tuple[Any, ...]] = {}
        for steps in task["tries"]:
            assert [step["do"] in ("finish", "fail", "cancel") for step in steps] == [False] * (len(steps) - 1) + [True]
            for number, step in enumerate(steps):
                assert set(step) == STEP_KEYS[step["do"]] and step["ticks"] >= 1
                if step["do"] == "call":
                    assert step["class"] in ("pure", "keyed", "once") and step["outcome"] in ("ok", "declined")
                    assert not (step["lose_reply"] and step["outcome"] == "declined")
                    fate = (step["class"], step["outcome"], step["lose_reply"])
                    assert fates.setdefault(effect(task["task"], number, step), fate) == fate
        assert all(steps[-1]["do"] == "fail" for steps in task["tries"][:-1]), "a try behind an end is never reached"
    assert len(json.dumps(workload)) <= 100 * 1024


@given(SEEDS, INDEXES)
def test_every_workload_is_valid_and_of_the_size_that_a_campaign_can_afford(seed: int, index: int) -> None:
    """Planted while writing: equal effects of two tries with different fates, which no ledger rule can express."""
    workload = generate(seed, index)
    valid(workload)
    played = Played(workload)
    assert (90 if index == 0 else 40) <= played.records <= (140 if index == 0 else 90)
    assert played.records > 4 * workload["checkpoint_every"]
    assert min(task["task"] for task in workload["tasks"]) > max(task["task"] for task in prepared(seed)["tasks"])


@given(SEEDS, INDEXES)
def test_every_workload_meets_an_effect_again_and_calls_of_different_fates(seed: int, index: int) -> None:
    """Planted while writing: a short workload all of whose calls are plain kills at nothing that is not in each."""
    played = Played(generate(seed, index))
    assert played.reused >= 2 and len(played.sent) >= 4
    assert played.transitions["running", "failed"] and played.transitions["running", "succeeded"]


@given(SEEDS)
def test_the_first_workload_of_a_seed_meets_every_fate_of_a_call(seed: int) -> None:
    """Without a lost reply of each class, a kernel that forgets to ask for a receipt is clean."""
    played = Played(generate(seed, 0))
    kinds = (("ok", False), ("ok", True), ("declined", False))
    assert set(played.sent) == {(klass, *kind) for klass in ("pure", "keyed", "once") for kind in kinds}
    assert all(sum(n for (c, _, _), n in played.sent.items() if c == klass) >= 3 for klass in ("pure", "keyed", "once"))


@given(SEEDS)
def test_the_first_workload_of_a_seed_reaches_every_transition_that_a_run_can(seed: int) -> None:
    """A hook that no census reaches is one that no campaign kills at."""
    played = Played(generate(seed, 0))
    assert set(played.transitions) == {
        (None, "created"), ("created", "admitted"), ("created", "cancelled"), ("admitted", "running"),
        ("running", "waiting"), ("waiting", "running"), ("running", "succeeded"), ("running", "failed"),
        ("running", "cancelled"), ("running", "timed_out"),
    }  # fmt: skip
    assert set(played.intents) == {
        (None, "proposed"), ("proposed", "dispatched"), ("dispatched", "applied"), ("applied", "resolved_ok"),
        ("dispatched", "resolved_failed"),
    }  # fmt: skip


@given(SEEDS)
def test_the_rare_ends_are_not_in_the_first_workload_of_a_seed_alone(seed: int) -> None:
    """500 points are drawn from all ten."""
    ends = [("created", "cancelled"), ("running", "cancelled"), ("running", "timed_out")]
    others = [Played(generate(seed, index)).transitions for index in range(1, 10)]
    assert all(any(end in transitions for transitions in others) for end in ends)
    assert all(any(end in transitions for end in ends) for transitions in others)


@given(SEEDS)
def test_the_prepared_state_is_short_and_sealed_in_more_than_one_segment(seed: int) -> None:
    """On overlay, sealed segments in the lower layer are what a rotation has to live with."""
    workload = prepared(seed)
    valid(workload)
    played = Played(workload)
    assert 25 <= played.records <= 50
    assert played.records * 60 > workload["segment_bytes"]  # no frame is shorter than 60 bytes


def test_a_seed_gives_the_same_workloads_on_every_machine_and_in_every_version() -> None:
    """`lab replay --seed` repeats what another version has reported. A deliberate change changes this number."""
    text = json.dumps([prepared(7), *(generate(7, index) for index in range(10))], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "22881e983330bb3a"


def test_seeds_and_indexes_give_different_workloads() -> None:
    """Planted: a generator that forgot its index makes one workload ten times."""
    texts = {json.dumps(generate(seed, index)["tasks"]) for seed in range(20) for index in range(10)}
    assert len(texts) == 200


def test_the_ledgers_rules_name_exactly_the_declined_and_the_lost() -> None:
    """An identity that is spelt otherwise than in docs/format.md declines nothing."""
    call = {"do": "call", "tool": "t", "class": "once", "args": {"b": "é", "a": 1}, "outcome": "declined",
            "lose_reply": False, "ticks": 1}  # fmt: skip
    lost = {**call, "outcome": "ok", "lose_reply": True}
    steps = [{"do": "say", "text": "x", "ticks": 1}, call, lost, {"do": "finish", "ticks": 1}]
    workload = {"tasks": [{"task": 3, "tries": [steps]}]}
    assert ledger_rules(workload) == {
        "decline": ['3/1/t/{"a":1,"b":"\\u00e9"}'],
        "lose_reply": ['3/2/t/{"a":1,"b":"\\u00e9"}'],
    }


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_family_is_found_by_the_kind_that_its_workloads_carry(name: str) -> None:
    """subject.toml says `kind`, the workload says it again."""
    assert FAMILIES[name].generate(1, 0)["kind"] == FAMILIES[name].prepared(1)["kind"] == name
