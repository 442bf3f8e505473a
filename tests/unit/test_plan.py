"""Plans: repeatable to the byte, complete where they say so, and with nothing in them that is not in the census."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model import CrashPoint, Hit, Kind, to_json
from lab.plan.points import (
    CANARY_TRIES,
    EXHAUSTIVE_FIRST_POINTS,
    Census,
    FirstPoint,
    Plan,
    bug_plan,
    bug_points,
    exhaustive_firsts,
    exhaustive_plan,
    random_plan,
    recovery_candidates,
    shard,
    unreached,
)
from lab.subject.load import Bug, CoverageTable, Hook

LAYERS = ("ext4", "tmpfs", "overlay")
CLASSES = ("pure", "keyed", "once")
WINDOWS = ("intent.unsent", "intent.sent")
RUN_HOOKS = tuple(Hook(name=f"step.{c}", meaning="a step", where="run") for c in "abcdefgh")
WINDOW_HOOKS = tuple(Hook(name=name, meaning="a window", where="run") for name in WINDOWS)
RECOVERY_HOOKS = tuple(
    Hook(name=f"recovery.{name}", meaning="in a recovery", where="recovery", after=("step.h",))
    for name in ("cut", "replayed", "done")
)
HOOKS = (*RUN_HOOKS, *WINDOW_HOOKS, *RECOVERY_HOOKS)
COVERAGE = CoverageTable(windows=WINDOWS, by="class", values=CLASSES)
BUGS = (
    Bug(name="torn", meaning="a bug", property="durable", points=("step.c", "step.d"), canary=True),
    Bug(name="resent", meaning="a bug", property="once", points=("intent.sent",), tags={"class": "once"}, canary=True),
    Bug(name="twice", meaning="a bug", property="once", points=("step.a > recovery.cut",), canary=True),
    Bug(name="rare", meaning="a bug", property="once", points=("step.b",)),
)


def run_hits(workload: int) -> tuple[Hit, ...]:
    """What one workload hits: every hook some times, the windows with each class."""
    names = [hook.name for hook in RUN_HOOKS for _ in range(3 + workload)]
    hits = [Hit(name, n) for name, n in numbered(names)]
    tagged = [(window, value) for window in WINDOWS for value in CLASSES for _ in range(2)]
    numbers = [n for _, n in numbered([window for window, _ in tagged])]
    return (*hits, *(Hit(w, n, {"class": v}) for (w, v), n in zip(tagged, numbers, strict=True)))


def numbered(names: list[str]) -> list[tuple[str, int]]:
    """Each name with its occurrence."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append((name, seen[name]))
    return found


RUNS = tuple(run_hits(w) for w in range(4))
RECOVERIES = (
    (FirstPoint(0, Hit("step.h", 2)), (Hit("recovery.cut", 1), Hit("step.a", 1), Hit("recovery.done", 1))),
    (FirstPoint(3, Hit("step.h", 1)), (Hit("recovery.replayed", 1), Hit("recovery.replayed", 2))),
)
CENSUS = Census(RUNS, RECOVERIES)


def planned(seed: int = 1, points: int = 60, layers: tuple[str, ...] = LAYERS) -> Plan:
    return random_plan(seed, points, layers, HOOKS, COVERAGE, BUGS, CENSUS)


def of_kind(plan: Plan, kind: Kind, layer: str = "ext4") -> list[tuple[int, tuple[CrashPoint, ...]]]:
    """Workload and points of the trials of one kind on one layer, in order."""
    return [(t.workload, t.points) for t in plan.trials if t.kind is kind and t.storage == layer]


def text(plan: Plan) -> str:
    return json.dumps(to_json(plan))


def test_the_same_seed_and_census_give_the_same_bytes_in_another_process() -> None:
    """A plan that depends on the order of a set, or on the hash seed, cannot be replayed by its seed."""
    code = (
        "import sys; sys.path.insert(0, 'tests/unit'); import test_plan as t;"
        "print(t.text(t.planned()) + t.text(t.exhaustive()))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {text(planned()) + text(exhaustive()) + "\n"}


def exhaustive(layers: tuple[str, ...] = LAYERS) -> Plan:
    return exhaustive_plan(1, layers, BUGS, CENSUS)


def test_another_seed_gives_another_plan() -> None:
    """A seed that is ignored would try the same points every night."""
    assert of_kind(planned(seed=1), Kind.POINT) != of_kind(planned(seed=2), Kind.POINT)
    assert of_kind(planned(seed=1), Kind.CANARY) != of_kind(planned(seed=2), Kind.CANARY)


def test_every_layer_gets_the_same_points_in_the_same_order() -> None:
    """Layers are compared side by side: a different sample would show as a different filesystem."""
    plan = planned()
    assert of_kind(plan, Kind.POINT, "ext4") == of_kind(plan, Kind.POINT, "overlay")
    assert len(of_kind(plan, Kind.POINT, "tmpfs")) == 60
    assert [t.ident for t in plan.trials] == list(range(1, len(plan.trials) + 1))


def killed_for_sure(plan: Plan) -> set[str]:
    """Hooks of first points, and of the second points that the census has seen behind their first."""
    seen = {
        ((first.workload, first.point), CrashPoint(2, hit.hook, hit.n))
        for first, recovery in RECOVERIES
        for hit in recovery
    }
    found = set()
    for workload, (first, *seconds) in of_kind(plan, Kind.POINT):
        found |= {first.hook, *(s.hook for s in seconds if ((workload, first), s) in seen)}
    return found


def test_every_hook_of_the_catalogue_is_killed_at() -> None:
    """A hook that chance leaves out is a place where nobody has looked."""
    for seed in range(20):
        plan = planned(seed, points=30)
        assert killed_for_sure(plan) == {hook.name for hook in HOOKS}
        assert plan.covers == tuple(sorted(hook.name for hook in HOOKS))


@pytest.mark.parametrize("points", range(1, 20))
def test_a_plan_promises_to_cover_only_what_it_is_sure_to_kill_at(points: int) -> None:
    """A second hook drawn from the catalogue may not be reached: to owe it would make a good campaign red."""
    for seed in range(20):
        plan = planned(seed, points)
        assert set(plan.covers) == killed_for_sure(plan)
        assert len(of_kind(plan, Kind.POINT)) == points


def test_with_few_points_the_windows_come_first_with_each_tag() -> None:
    """A campaign that was not killed in a window with each class of effect is NO-WORK."""
    tags = {(w, h.hook, h.n): h.tags.get("class") for w, hits in enumerate(RUNS) for h in hits}
    wanted = {(window, value) for window in WINDOWS for value in CLASSES}
    for seed in range(20):
        firsts = [(w, points[0]) for w, points in of_kind(planned(seed, points=6), Kind.POINT)]
        assert {(p.hook, tags[w, p.hook, p.occurrence]) for w, p in firsts} == wanted


@pytest.mark.parametrize("points", [5, 20, 60, 100])
def test_one_trial_in_five_is_struck_again_in_its_recovery(points: int) -> None:
    """Recovery that is not safe to kill shows only there."""
    for seed in range(10):
        twice = [p for _, p in of_kind(planned(seed, points), Kind.POINT) if len(p) == 2]
        assert len(twice) == max(points // 5, sum(1 for _ in RECOVERY_HOOKS) if points >= 10 else 0)
        assert all(second.process == 2 for _, second in twice)


names = st.sampled_from([hook.name for hook in HOOKS])
censuses = st.lists(st.lists(names, max_size=12), min_size=1, max_size=4).map(
    lambda runs: Census(tuple(tuple(Hit(name, n) for name, n in numbered(run)) for run in runs), RECOVERIES)
)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), censuses)
def test_no_trial_is_planned_twice_and_none_outside_the_census(seed: int, points: int, census: Census) -> None:
    """A point that is drawn twice counts twice and tries nothing; one that is not there ends as invalid."""
    plan = random_plan(seed, points, ("ext4",), HOOKS, COVERAGE, BUGS, census)
    trials = of_kind(plan, Kind.POINT)
    assert len(trials) == len(set(trials)) <= points
    there = {(f.workload, f.point) for f in (*census.first_points(), *(first for first, _ in RECOVERIES))}
    assert all((workload, planned_points[0]) in there for workload, planned_points in trials)


def test_a_second_crash_never_repeats_one_that_is_planned_for_coverage() -> None:
    """The first point of a recovery census may be drawn for its window as well, and then be given the same second."""
    window = Hit("intent.sent", 1, {"class": "once"})
    census = Census(((window,),), ((FirstPoint(0, window), (Hit("recovery.cut", 1), Hit("recovery.done", 1))),))
    for seed in range(20):
        plan = random_plan(seed, 15, ("ext4",), HOOKS, COVERAGE, (), census)
        trials = of_kind(plan, Kind.POINT)
        assert len(trials) == len(set(trials)) == 3


def test_a_plan_with_more_points_than_the_census_has_takes_them_all_once() -> None:
    """`--points 100000` on a small subject must not draw for ever."""
    firsts = {(w, points[0]) for w, points in of_kind(planned(points=10_000), Kind.POINT)}
    assert firsts == {(f.workload, f.point) for f in CENSUS.first_points()}


def test_a_canary_has_a_few_tries_on_each_layer_one_after_the_other() -> None:
    """A planted bug need not show at every occurrence; only at those with its tags has it a chance."""
    plan = planned()
    for bug in ("torn", "resent"):
        for layer in LAYERS:
            tries = [t for t in plan.trials if t.bug == bug and t.storage == layer]
            assert len(tries) == CANARY_TRIES
            assert all(b.ident == a.ident + 1 for a, b in pairwise(tries))
    assert plan.canaries == ("torn", "resent", "twice")
    assert not any(t.bug == "rare" for t in plan.trials)
    assert [t.points[0].hook for t in plan.trials if t.bug == "torn"][:4] == ["step.c", "step.d", "step.c", "step.d"]
    once = {(w, h.n) for w, hits in enumerate(RUNS) for h in hits if h.tags == {"class": "once"}}
    assert {(t.workload, t.points[0].occurrence) for t in plan.trials if t.bug == "resent"} <= once


def test_a_bugs_point_may_have_a_second_crash_in_the_recovery() -> None:
    """Some bugs show only when the recovery itself is killed: "hook > hook"."""
    for workload, points in bug_points(1, BUGS[2], CENSUS):
        assert points[0].hook == "step.a"
        assert points[1:] == (CrashPoint(2, "recovery.cut", 1),)
        assert 0 <= workload < 4
    assert len(list(bug_points(1, BUGS[2], CENSUS))) == sum(h.hook == "step.a" for hits in RUNS for h in hits)


def test_a_campaign_of_a_bug_tries_only_where_it_may_show() -> None:
    """`--bug`: each try is a point that counts, on every layer, at most as many as were asked for."""
    plan = bug_plan(1, 5, LAYERS, BUGS[3], CENSUS)
    assert len(plan.trials) == plan.whole == 15
    assert {(t.kind, t.bug, t.points[0].hook) for t in plan.trials} == {(Kind.POINT, "rare", "step.b")}
    assert bug_plan(1, 5, LAYERS, BUGS[3].model_copy(update={"points": ("no.where",)}), CENSUS).trials == ()


def test_an_exhaustive_plan_holds_every_point_and_every_hit_of_the_recoveries() -> None:
    """Exhaustive means every one: none left out, none twice."""
    trials = of_kind(exhaustive(), Kind.POINT, "overlay")
    firsts = [(f.workload, (f.point,)) for f in CENSUS.first_points()]
    seconds = [
        (f.workload, (f.point, CrashPoint(2, hit.hook, hit.n))) for f, recovery in RECOVERIES for hit in recovery
    ]
    assert Counter(trials) == Counter(firsts + seconds)


def test_an_exhaustive_plan_proves_by_probes_that_the_census_is_complete() -> None:
    """SQLite's rule: raise N until nothing is killed any more; one probe for each hook of each workload."""
    probes = of_kind(exhaustive(), Kind.PROBE, "tmpfs")
    counts = {(w, hook): n for w, hits in enumerate(RUNS) for hook, n in Counter(h.hook for h in hits).items()}
    assert Counter(probes) == Counter((w, (CrashPoint(1, hook, n + 1),)) for (w, hook), n in counts.items())


@pytest.mark.parametrize("of", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("make", [planned, exhaustive])
def test_shards_are_a_partition_and_only_the_first_has_canaries(make: type[Plan], of: int) -> None:
    """A trial in no shard is never run, one in two counts twice; a point keeps all its layers together."""
    plan = make()
    shards = [shard(plan, index, of) for index in range(1, of + 1)]
    idents = [t.ident for part in shards for t in part.trials]
    assert sorted(idents) == [t.ident for t in plan.trials]
    assert plan.whole == len(plan.trials)
    for number, part in enumerate(shards, 1):
        assert any(t.kind is Kind.CANARY for t in part.trials) == (number == 1)
        assert (part.whole, part.covers, part.canaries) == (plan.whole, plan.covers, plan.canaries)
        layers = [of_kind(part, kind, layer) for kind in (Kind.POINT, Kind.PROBE) for layer in LAYERS]
        assert layers[0] == layers[1] == layers[2]
        assert layers[3] == layers[4] == layers[5]
    sizes = [sum(t.kind is not Kind.CANARY for t in part.trials) for part in shards]
    assert max(sizes) - min(sizes) <= len(LAYERS)


def test_recoveries_are_looked_at_where_the_catalogue_says_first() -> None:
    """`after` is a hint that saves censuses: each kind of hit once, the hinted ones before all others."""
    found = list(recovery_candidates(1, HOOKS, CENSUS))
    assert [f.hit.hook == "step.h" for f in found] == [True] + [False] * (len(found) - 1)
    kinds = [(f.hit.hook, tuple(f.hit.tags.items())) for f in found]
    assert len(kinds) == len(set(kinds)) == len(RUN_HOOKS) + len(WINDOWS) * len(CLASSES)
    assert found == list(recovery_candidates(1, HOOKS, CENSUS)) != list(recovery_candidates(2, HOOKS, CENSUS))
    assert exhaustive_firsts(1, HOOKS, CENSUS) == found[:EXHAUSTIVE_FIRST_POINTS]


def test_a_hook_that_nothing_reaches_is_named() -> None:
    """A hook of the catalogue that the code has lost must not be covered by silence."""
    assert unreached(HOOKS, CENSUS) == {}
    assert unreached(HOOKS, Census(RUNS)) == {hook.name: hook.meaning for hook in RECOVERY_HOOKS}
