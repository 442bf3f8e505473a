"""The shrinker of the crash fuzz against predicates that stand for a daemon with a fault: no daemon is run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model import ANSWER, END, PAUSE, START, CrashPoint, Life, Limits, Op, Scenario
from lab.plan.shrink import Shrunk, shrink

PLENTY = 5_000
Broken = Callable[[Scenario], bool]


def scenario(*lives: Life, clients: int = 3) -> Scenario:
    return Scenario(7, 12, "jsonrpc", clients, Limits(), lives)


def long_scenario(count: int = 60) -> Scenario:
    """Four lives of drafts by three clients in turn, in one chat that step 1 makes; three kills of different kinds."""
    kills = (CrashPoint(1, "chat.synced", 4, 10), CrashPoint(2, ANSWER, 7), CrashPoint(3, START, after_ms=120), None)
    ops = [Op(1, 1, "chat/new", {"chat": "c1"})]
    ops += [Op(n, 1 + n % 3, "draft/set", {"chat": "c1", "text": f"d{n}"}) for n in range(2, count + 1)]
    size = count // 4
    return scenario(*(Life(tuple(ops[n * size : (n + 1) * size]), kill) for n, kill in enumerate(kills)))


def steps(of: Scenario) -> list[int]:
    return [op.step for life in of.lives for op in life.ops]


def first_that(broken: Broken) -> Callable[[Sequence[Scenario]], int | None]:
    return lambda candidates: next((n for n, c in enumerate(candidates) if broken(c)), None)


def shrunk(of: Scenario, broken: Broken, budget: int = PLENTY, **more: object) -> Shrunk:
    assert broken(of)
    found = shrink(of, first_that(broken), budget, **more)
    assert broken(found.scenario)
    assert found.scenario.lives[-1].kill is None
    assert all(life.kill for life in found.scenario.lives[:-1])
    assert {op.client for life in found.scenario.lives for op in life.ops} <= set(range(1, found.scenario.clients + 1))
    return found


def test_two_operations_and_the_kill_between_them_are_what_is_left() -> None:
    """A draft that is lost by a kill needs the draft, the kill, and one operation that reads it."""

    def broken(s: Scenario) -> bool:
        where = {op.step: n for n, life in enumerate(s.lives) for op in life.ops}
        return 4 in where and 47 in where and where[4] < where[47]

    found = shrunk(long_scenario(), broken)
    assert steps(found.scenario) == [4, 47]
    assert found.scenario.lives[0].kill == CrashPoint(1, END)
    assert (found.how.before, found.how.after, len(found.scenario.lives)) == (60, 2, 2)
    assert found.how.serial and found.how.finished and not found.how.timing
    assert found.how.tried < 100


def test_a_search_that_leaves_nothing_out_says_that_it_is_no_shorter() -> None:
    """ "shrunk 160 to 160 operations" was told as a result."""
    of = long_scenario()
    found = shrink(of, lambda candidates: None, PLENTY)
    assert (found.scenario, found.how.shorter) == (of, False)
    assert shrunk(of, lambda s: 4 in steps(s)).how.shorter


def test_what_an_operation_needs_is_told_by_the_script_alone() -> None:
    """No operation is known by name: what names a thing first creates it, and who speaks of it goes with it."""
    ops = [Op(1, 1, "table", {"t": "a"}), Op(2, 1, "row", {"t": "a", "row": "r2"}), Op(3, 1, "drop", {"row": "r2"})]
    ops += [Op(4, 1, "table", {"t": "b"}), Op(5, 1, "row", {"t": "b", "row": "r5"}), Op(6, 1, "look", {})]
    offered: list[list[int]] = []

    def fails(candidates: Sequence[Scenario]) -> None:
        offered.extend(steps(candidate) for candidate in candidates)

    shrink(scenario(Life(tuple(ops), None)), fails, PLENTY, about=3)
    assert [2, 3] in offered and [1, 2, 3] in offered  # about the row, with what makes it
    assert [4, 5, 6] in offered  # without table a, and so without all that lies in it
    assert [1, 4, 5, 6] in offered  # without row r2, and so without its removal


def test_a_kill_keeps_its_hook_if_the_fault_is_there_and_its_lowest_count() -> None:
    """Planted: kills that are made simpler without asking whether it still fails."""

    def broken(s: Scenario) -> bool:
        return any(kill.hook == "chat.synced" for kill in s.kills) and 20 in steps(s)

    found = shrunk(long_scenario(), broken)
    assert found.scenario.kills == (CrashPoint(1, "chat.synced"),)
    assert steps(found.scenario) == [20]


def test_a_kill_keeps_its_fault_however_simple_it_gets() -> None:
    """Planted: a kill moved to the end that strikes with SIGKILL; what only a power cut loses is then kept."""
    of = long_scenario()
    lives = (replace(life, kill=life.kill and replace(life.kill, fault="powercut")) for life in of.lives)
    found = shrunk(replace(of, lives=tuple(lives)), lambda s: any(kill.fault == "powercut" for kill in s.kills))
    assert found.scenario.kills == (CrashPoint(1, END, fault="powercut"),)


def test_a_count_falls_with_the_operations_before_it() -> None:
    """Planted: a kill at the seventh answer, which no shorter life ever reaches, so that nothing can be left out."""

    def broken(s: Scenario) -> bool:
        struck_at = [
            life.ops[life.kill.occurrence - 1].step
            for life in s.lives
            if life.kill and life.kill.hook == ANSWER and life.kill.occurrence in range(1, 1 + len(life.ops))
        ]
        return 22 in struck_at

    found = shrunk(long_scenario(), broken)
    assert steps(found.scenario) == [22]
    assert found.scenario.kills == (CrashPoint(1, ANSWER),)


def test_what_fails_only_side_by_side_keeps_two_clients_and_says_so() -> None:
    """Planted: a script that claims to be one at a time, and does not fail when it is run."""

    def broken(s: Scenario) -> bool:
        by = {op.step: op.client for life in s.lives for op in life.ops}
        return 9 in by and 10 in by and by[9] != by[10]

    found = shrunk(long_scenario(), broken)
    assert steps(found.scenario) == [9, 10]
    assert found.scenario.clients == 2
    assert not found.how.serial and found.how.timing


def test_one_at_a_time_follows_the_recorded_order() -> None:
    """The script's order is each client's; which client was first is known only from the history."""
    of = scenario(
        Life((Op(1, 1, "status"), Op(2, 2, PAUSE, {"ms": 5}), Op(3, 2, "status"), Op(4, 1, "chat/list")), None),
        clients=2,
    )

    def broken(s: Scenario) -> bool:
        sent = [op.step for life in s.lives for op in life.ops if op.op != PAUSE]
        return s.clients == 2 or sent == [3, 1, 4]

    found = shrink(of, first_that(broken), PLENTY, order=(3, 1, 4))
    assert steps(found.scenario) == [3, 1, 4]
    assert found.how.serial


def test_a_pause_that_the_fault_needs_stays_and_counts_as_no_operation() -> None:
    """A fault of a background thread needs time, not a second client."""
    of = scenario(Life((Op(1, 1, "status"), Op(2, 2, PAUSE, {"ms": 50}), Op(3, 2, "status")), None))

    def broken(s: Scenario) -> bool:
        return steps(s)[-2:] == [2, 3]

    found = shrunk(of, broken)
    assert (steps(found.scenario), found.how.before, found.how.after) == ([2, 3], 2, 1)


def test_lives_after_the_check_that_saw_it_are_cut_off_first() -> None:
    """One candidate instead of a search: the check of life 2 cannot have seen what came after it."""
    tried: list[Scenario] = []

    def fails(candidates: Sequence[Scenario]) -> int | None:
        tried.extend(candidates)
        return 0

    shrink(long_scenario(), fails, 1, showed=2, at_once=1)
    assert [len(life.ops) for life in tried[0].lives] == [15, 0]
    assert tried[0].lives[-1].kill is None


def test_a_break_seen_by_the_final_check_keeps_the_last_life() -> None:
    """Planted: the last life's operations dropped, though its final check is what saw the break."""
    found = shrunk(long_scenario(), lambda s: 60 in steps(s), showed=4)
    assert steps(found.scenario) == [60]


def test_what_a_chat_and_a_prompt_are_for_goes_with_them() -> None:
    """Planted: a search that never takes out a chat together with its prompts, and a script full of "no such chat"."""
    ops = (
        Op(1, 1, "chat/new", {"chat": "c1"}),
        Op(2, 1, "chat/new", {"chat": "c2"}),
        Op(3, 1, "prompt/send", {"chat": "c1", "prompt": "p3", "text": "reply 1"}),
        Op(4, 1, "draft/set", {"chat": "c2", "text": "d4"}),
        Op(5, 1, "queue/remove", {"chat": "c1", "prompt": "p3"}),
    )

    def broken(s: Scenario) -> bool:
        return {2, 4} <= set(steps(s)) and len({1, 3, 5} & set(steps(s))) in (0, 3)

    found = shrunk(scenario(Life(ops, None), clients=1), broken)
    assert steps(found.scenario) == [2, 4]


def test_a_chat_that_nobody_made_is_kept_if_the_fault_is_just_that() -> None:
    """A daemon that answers for a chat which is not there fails only without its `chat/new`."""
    ops = (Op(1, 1, "chat/new", {"chat": "c1"}), Op(2, 1, "draft/set", {"chat": "c1", "text": "d2"}))
    found = shrunk(scenario(Life(ops, None), clients=1), lambda s: 2 in steps(s))
    assert steps(found.scenario) == [2]


def test_a_spent_budget_keeps_the_best_so_far_and_claims_no_fault_of_timing() -> None:
    """Planted: a search that is cut short and calls what is left the shortest there is."""
    found = shrunk(long_scenario(), lambda s: {4, 17, 33, 58} <= set(steps(s)), budget=40)
    assert found.how.tried == 40
    assert 4 < found.how.after < 60
    assert not found.how.finished and not found.how.timing


def test_a_passed_deadline_ends_the_search_between_two_batches() -> None:
    """A campaign of ten minutes must not end with an hour of shrinking."""
    calls = iter([False, False])
    found = shrunk(long_scenario(), lambda s: 4 in steps(s), expired=lambda: next(calls, True))
    assert found.how.tried <= 8
    assert not found.how.finished


def test_no_candidate_is_tried_twice() -> None:
    """Each costs seconds. What held is known to hold; the callback has the retries."""
    seen: list[Scenario] = []

    def broken(s: Scenario) -> bool:
        return {4, 17} <= set(steps(s))

    def fails(candidates: Sequence[Scenario]) -> int | None:
        found = first_that(broken)(candidates)
        seen.extend(candidates if found is None else candidates[: found + 1])
        return found

    shrink(long_scenario(), fails, PLENTY)
    assert len(seen) == len({repr(s) for s in seen})


def test_a_fault_that_comes_every_third_time_is_never_lost() -> None:
    """What did not fail when it was tried is no reproduction, whatever it would do the next time."""
    turn = 0
    failed: list[Scenario] = [long_scenario()]

    def fails(candidates: Sequence[Scenario]) -> int | None:
        nonlocal turn
        for n, candidate in enumerate(candidates):
            turn += 1
            if {4, 17} <= set(steps(candidate)) and turn % 3 == 0:
                failed.append(candidate)
                return n
        return None

    found = shrink(long_scenario(), fails, PLENTY)
    assert found.scenario == failed[-1]


@settings(max_examples=60, deadline=None)
@given(
    needed=st.sets(st.integers(1, 24), min_size=1, max_size=5),
    kills=st.integers(0, 3),
    at_once=st.integers(1, 6),
)
def test_the_result_fails_and_nothing_more_can_be_left_out(needed: set[int], kills: int, at_once: int) -> None:
    """1-minimal, for every fault that more operations and more kills never hide."""

    def broken(s: Scenario) -> bool:
        return needed <= set(steps(s)) and len(s.kills) >= kills

    found = shrunk(long_scenario(24), broken, at_once=at_once)
    assert set(steps(found.scenario)) == needed
    assert found.scenario.kills == tuple(CrashPoint(life, END) for life in range(1, kills + 1))
    assert found.scenario.clients == 1


@settings(max_examples=30, deadline=None)
@given(budget=st.integers(0, 60), salt=st.integers(0, 1_000))
def test_whatever_the_budget_the_result_is_one_that_failed(budget: int, salt: int) -> None:
    """A predicate without any order in it: a hash of the steps decides."""
    start = long_scenario(24)

    def broken(s: Scenario) -> bool:
        return s == start or hash((salt, tuple(steps(s)))) % 3 == 0

    found = shrunk(start, broken, budget)
    assert found.how.tried <= budget


@pytest.mark.parametrize("budget", [0, 1])
def test_an_empty_budget_gives_back_the_scenario(budget: int) -> None:
    """Planted: an index into an empty batch."""
    found = shrink(long_scenario(), lambda _: None, budget)
    assert found.scenario == long_scenario()
    assert not found.how.finished
