"""Plans: repeatable to the byte, complete where they say so, and with nothing in them that is not in the census."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.codec import to_json
from lab.model import CrashPoint, CrashScript, Hit, Kind, Trial
from lab.plan.census import Census, FailedRecovery, FirstPoint, Recovery
from lab.plan.exhaustive import exhaustive_plan
from lab.plan.points import CANARY_TRIES, Plan, bug_plan, bug_points, shard, with_faults
from lab.plan.sampled import random_plan, recoveries_wanted
from lab.subject.spec import Bug, CoverageTable, Hook

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
    Recovery(
        FirstPoint(0, Hit("step.h", 2)),
        (Hit("recovery.cut", 1), Hit("step.a", 1), Hit("recovery.done", 1)),
        tuple(Hit(name, n + 1) for name in ("step.a", "step.b") for n in range(1, 30)),
    ),
    Recovery(
        FirstPoint(3, Hit("step.h", 1)),
        (Hit("recovery.replayed", 1), Hit("recovery.replayed", 2), Hit("recovery.done", 1)),
        tuple(Hit(name, n) for name in ("step.c", "step.d") for n in range(1, 30)),
    ),
)
BEHIND = {(r.first.workload, r.first.point, CrashPoint(2, hit.hook, hit.n)) for r in RECOVERIES for hit in r.work}
CENSUS = Census(RUNS, RECOVERIES)


SIGKILL = ("sigkill",)


def planned(
    seed: int = 1,
    points: int = 60,
    layers: tuple[str, ...] = LAYERS,
    faults: tuple[str, ...] = SIGKILL,
    census: Census = CENSUS,
) -> Plan:
    return random_plan(seed, points, layers, faults, HOOKS, COVERAGE, BUGS, census)


def script(trial: Trial) -> CrashScript:
    assert isinstance(trial.script, CrashScript)
    return trial.script


def of_kind(plan: Plan, kind: Kind, layer: str = "ext4") -> list[tuple[int, tuple[CrashPoint, ...]]]:
    """Workload and points of the trials of one kind on one layer, in order."""
    scripts = [script(t) for t in plan.trials if t.kind is kind and t.storage == layer]
    return [(s.workload, s.points) for s in scripts]


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


def exhaustive(faults: tuple[str, ...] = SIGKILL) -> Plan:
    return exhaustive_plan(1, LAYERS, faults, BUGS, CENSUS)


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
        ((recovery.first.workload, recovery.first.point), CrashPoint(2, hit.hook, hit.n))
        for recovery in RECOVERIES
        for hit in (*recovery.hits, *recovery.work)
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
        assert set(plan.covers) <= killed_for_sure(plan)
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
        again = [(w, p) for w, p in of_kind(planned(seed, points), Kind.POINT) if len(p) > 1]
        twice = [p for w, p in again if (w, *p[:2]) not in BEHIND]
        assert len(twice) == max(points // 5, sum(1 for _ in RECOVERY_HOOKS) if points >= 10 else 0)
        assert all(len(p) == 2 and p[1].life == 2 for p in twice)


@pytest.mark.parametrize(("points", "behind", "thrice"), [(5, 0, 0), (25, 4, 1), (40, 8, 2), (100, 20, 5)])
def test_one_trial_in_five_is_struck_in_the_work_behind_a_barrier(points: int, behind: int, thrice: int) -> None:
    """A kernel that acknowledges before it writes, but only after a recovery, passed 80 trials of 80.

    Of few points, those that must be covered come first, and half of what they leave goes to first points.
    """
    for seed in range(10):
        struck = [p for w, p in of_kind(planned(seed, points), Kind.POINT) if (w, *p[:2]) in BEHIND]
        assert len(struck) == behind
        thirds = [p[2] for p in struck if len(p) == 3]
        assert len(thirds) == thrice
        assert all(third.life == 3 and (third.hook, third.occurrence) != ("step.b", 1) for third in thirds)
        assert {third.hook for third in thirds} <= {h.name for h in RECOVERY_HOOKS} | {"step.a"}


def test_every_point_behind_a_barrier_is_drawn() -> None:
    """To draw only the first hit behind it, or only behind the first recovery, would leave the rest untried."""
    drawn = {(w, *p[:2]) for seed in range(200) for w, p in of_kind(planned(seed, 100), Kind.POINT) if len(p) > 1}
    assert drawn >= BEHIND


def test_a_hook_of_recoveries_that_comes_behind_the_barrier_is_covered_there() -> None:
    """Planted: covered only by what lies before the barrier. The hook would be owed, and never killed at."""
    first = RECOVERIES[0].first
    late = Recovery(first, RECOVERIES[0].hits, (Hit("recovery.replayed", 4),))
    census = Census(RUNS, (late,))
    for seed in range(20):
        plan = planned(seed, 30, census=census)
        assert "recovery.replayed" in plan.covers
        assert (first.workload, (first.point, CrashPoint(2, "recovery.replayed", 4))) in of_kind(plan, Kind.POINT)


def test_a_recovery_that_failed_in_the_census_is_the_first_trial() -> None:
    """A recovery that exits 65 ended the run as error, with no trial, no evidence and no replay line."""
    firsts = (FirstPoint(1, Hit("step.c", 2)), FirstPoint(2, Hit("step.a", 1)))
    broken = tuple(FailedRecovery(first, "tmpfs", "exit code 65") for first in firsts)
    census = Census(RUNS, RECOVERIES, broken)
    wanted = [(f.first.workload, (f.first.point,)) for f in broken]
    for seed in range(20):
        for points in (2, 30):
            plan = planned(seed, points, census=census)
            assert of_kind(plan, Kind.POINT)[:2] == wanted
            assert Counter(of_kind(plan, Kind.POINT)).total() == points
            assert {t.drawn for t in plan.trials[: 2 * len(LAYERS)]} == {"cover"}
    whole = exhaustive_plan(1, LAYERS, SIGKILL, (), census)
    assert of_kind(whole, Kind.POINT)[:2] == wanted
    assert {t.drawn for t in whole.trials[: 2 * len(LAYERS)]} == {"cover"}
    assert Counter(of_kind(whole, Kind.POINT)) == Counter(of_kind(exhaustive(), Kind.POINT))


names = st.sampled_from([hook.name for hook in HOOKS])
censuses = st.lists(st.lists(names, max_size=12), min_size=1, max_size=4).map(
    lambda runs: Census(tuple(tuple(Hit(name, n) for name, n in numbered(run)) for run in runs), RECOVERIES)
)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), censuses)
def test_no_trial_is_planned_twice_and_none_outside_the_census(seed: int, points: int, census: Census) -> None:
    """A point that is drawn twice counts twice and tries nothing; one that is not there ends as invalid."""
    trials = of_kind(planned(seed, points, census=census), Kind.POINT)
    assert len(trials) == len(set(trials)) <= points
    there = {(f.workload, f.point) for f in (*census.first_points(), *(r.first for r in RECOVERIES))}
    assert all((workload, planned_points[0]) in there for workload, planned_points in trials)


def test_a_second_crash_never_repeats_one_that_is_planned_for_coverage() -> None:
    """The first point of a recovery census may be drawn for its window as well, and then be given the same second."""
    window = Hit("intent.sent", 1, {"class": "once"})
    recovery = Recovery(FirstPoint(0, window), (Hit("recovery.cut", 1), Hit("recovery.done", 1)))
    census = Census(((window,),), (recovery,))
    for seed in range(20):
        trials = of_kind(planned(seed, 15, census=census), Kind.POINT)
        assert len(trials) == len(set(trials)) == 3


def test_a_plan_with_more_points_than_the_census_has_takes_them_all_once() -> None:
    """`--points 100000` on a small subject must not draw for ever."""
    firsts = {(w, points[0]) for w, points in of_kind(planned(points=10_000), Kind.POINT)}
    assert firsts == {(f.workload, f.point) for f in CENSUS.first_points()}


def test_a_canary_has_a_few_tries_the_same_on_each_layer() -> None:
    """A planted bug need not show at every occurrence; only at those with its tags has it a chance."""
    plan = planned()
    for bug in ("torn", "resent"):
        for layer in LAYERS:
            tries = [t for t in plan.trials if t.bug == bug and t.storage == layer]
            assert len(tries) == CANARY_TRIES
            assert [t.script for t in tries] == [t.script for t in plan.trials if t.bug == bug and t.storage == "ext4"]
    assert plan.canaries == ("torn", "resent", "twice")
    assert not any(t.bug == "rare" for t in plan.trials)
    torn = [script(t).points[0].hook for t in plan.trials if t.bug == "torn" and t.storage == "ext4"]
    assert torn == ["step.c", "step.d", "step.c", "step.d"]
    once = {(w, h.n) for w, hits in enumerate(RUNS) for h in hits if h.tags == {"class": "once"}}
    assert {(script(t).workload, script(t).points[0].occurrence) for t in plan.trials if t.bug == "resent"} <= once


def test_a_bugs_point_may_have_a_second_crash_in_life_2() -> None:
    """Some bugs show only when the recovery, or the work behind it, is killed: "hook > hook"."""
    for crash in bug_points(1, BUGS[2], CENSUS):
        assert crash.points[0].hook == "step.a"
        assert crash.points[1:] == (CrashPoint(2, "recovery.cut", 1),)
        assert 0 <= crash.workload < 4
    assert len(list(bug_points(1, BUGS[2], CENSUS))) == sum(h.hook == "step.a" for hits in RUNS for h in hits)


def test_a_campaign_of_a_bug_tries_only_where_it_may_show() -> None:
    """`--bug`: each try is a point that counts, on every layer, at most as many as were asked for."""
    plan = bug_plan(1, 5, LAYERS, SIGKILL, BUGS[3], CENSUS)
    assert len(plan.trials) == plan.whole == 15
    assert {(t.kind, t.bug, script(t).points[0].hook) for t in plan.trials} == {(Kind.POINT, "rare", "step.b")}
    nowhere = BUGS[3].model_copy(update={"points": ("no.where",)})
    assert bug_plan(1, 5, LAYERS, SIGKILL, nowhere, CENSUS).trials == ()


def test_an_exhaustive_plan_holds_every_point_and_every_hit_of_the_recoveries() -> None:
    """Exhaustive means every one: none left out, none twice. Behind a barrier, the first hit of each hook."""
    trials = of_kind(exhaustive(), Kind.POINT, "overlay")
    firsts: list[tuple[int, tuple[CrashPoint, ...]]] = [(f.workload, (f.point,)) for f in CENSUS.first_points()]
    seconds = [
        (r.first.workload, (r.first.point, CrashPoint(2, hit.hook, hit.n)))
        for r in RECOVERIES
        for hit in (*r.hits, r.work[0], r.work[29])
    ]
    assert Counter(trials) == Counter([*firsts, *seconds])


def test_an_exhaustive_plan_proves_by_probes_that_the_census_is_complete() -> None:
    """SQLite's rule: raise N until nothing is killed any more; one probe for each hook of each workload."""
    probes = of_kind(exhaustive(), Kind.PROBE, "tmpfs")
    counts = {(w, hook): n for w, hits in enumerate(RUNS) for hook, n in Counter(h.hook for h in hits).items()}
    assert Counter(probes) == Counter((w, (CrashPoint(1, hook, n + 1),)) for (w, hook), n in counts.items())


@pytest.mark.parametrize("of", [2, 5])
@pytest.mark.parametrize("make", [planned, exhaustive])
def test_a_shard_has_every_fault_of_its_points(make: Callable[..., Plan], of: int) -> None:
    """Planted: shards cut between the faults of a point, which could then not be compared in one of them."""
    plan = make(faults=("sigkill", "powercut"))
    parts = [shard(plan, index, of) for index in range(1, of + 1)]
    assert sorted(t.ident for part in parts for t in part.trials) == [t.ident for t in plan.trials]
    for part in parts:
        by_fault = {
            fault: [(script(t).workload, [str(p) for p in t.kills], t.storage) for t in part.trials
                    if t.faults == fault and t.kind is Kind.POINT]
            for fault in ("sigkill", "powercut")
        }  # fmt: skip
        assert by_fault["sigkill"] == by_fault["powercut"]


def test_each_point_behind_a_barrier_may_have_a_recovery_of_its_own() -> None:
    """A census costs about a trial: no more than there are workloads, and none that no trial needs."""
    assert [recoveries_wanted(points, 10) for points in (4, 5, 20, 500)] == [0, 1, 4, 10]


@pytest.mark.parametrize("of", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("make", [planned, exhaustive])
def test_shards_are_a_partition_and_only_the_first_has_canaries(make: Callable[[], Plan], of: int) -> None:
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


def test_each_point_has_its_own_fault_and_the_last_one_goes_on() -> None:
    """`sigkill>powercut`: one for each life, and a third crash is like the second."""
    points = (CrashPoint(1, "a"), CrashPoint(2, "b", 3), CrashPoint(3, "c"))
    assert [p.fault for p in with_faults(points, "x>y")] == ["x", "y", "y"]
    assert [p.fault for p in with_faults(points[:1], "x>y")] == ["x"]
    assert [str(p) for p in with_faults(points, "x")] == [str(p) for p in points]


@pytest.mark.parametrize("make", [planned, exhaustive])
def test_with_several_faults_the_same_plan_is_run_once_for_each(make: Callable[..., Plan]) -> None:
    """Interleaved, so that a run that is stopped has tried all alike; a probe strikes nothing, and is planned once."""
    alone, both = make(), make(faults=("sigkill", "powercut>sigkill"))
    assert [t.ident for t in both.trials] == list(range(1, len(both.trials) + 1))
    by_fault = {
        spelled: [t for t in both.trials if t.faults == spelled and t.kind is not Kind.PROBE]
        for spelled in ("sigkill", "powercut>sigkill")
    }
    unstruck = [(t.kind, t.storage, t.bug, t.script) for t in alone.trials if t.kind is not Kind.PROBE]
    assert [(t.kind, t.storage, t.bug, t.script) for t in by_fault["sigkill"]] == unstruck
    for trial, (kind, storage, bug, crash) in zip(by_fault["powercut>sigkill"], unstruck, strict=True):
        assert (trial.kind, trial.storage, trial.bug) == (kind, storage, bug)
        assert isinstance(crash, CrashScript)
        assert script(trial).points == with_faults(crash.points, "powercut>sigkill")
    points = [t.faults for t in both.trials if t.kind is Kind.POINT]
    assert points == [*["sigkill"] * 3, *["powercut>sigkill"] * 3] * (len(points) // 6)
    assert {t.faults for t in both.trials if t.kind is Kind.PROBE} <= {"sigkill"}
    assert both.population == alone.population
