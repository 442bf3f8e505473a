"""Which trials a fuzz run consists of: canaries first, then seeds that once failed, then scenario after scenario."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

from fuzz_plan import bug, draw, plan

from lab.model import Kind, Scenario, Trial
from lab.plan.plan_file import Seed
from lab.plan.scenarios import scenario
from lab.plan.schedule import groups

CANARY, OTHER, QUIET = bug("listed-twice", 3, canary=True), bug("lock-file", 2, canary=True), bug("draft-late")
CORPUS = (Seed(seed=3, number=9, found="a draft that was lost"), Seed(seed=7, number=2, found="a lock"))


def script(trial: Trial) -> Scenario:
    assert isinstance(trial.script, Scenario)
    return trial.script


def brief(trial: Trial) -> tuple[int, str, str, str | None]:
    return trial.ident, script(trial).name, trial.storage, trial.bug


def test_canaries_come_first_each_with_as_many_tries_as_it_may_take() -> None:
    """A group is tried until it is caught; a bug that is no canary is planted only when asked for."""
    first, second, *rest = list(groups(draw(), (CANARY, QUIET, OTHER), (), None, 2))
    assert [brief(t) for t in first] == [
        (1, "7/1", "tmpfs", "listed-twice"),
        (2, "7/2", "overlay", "listed-twice"),
        (3, "7/3", "ext4", "listed-twice"),
    ]
    assert [brief(t) for t in second] == [(4, "7/1", "tmpfs", "lock-file"), (5, "7/2", "overlay", "lock-file")]
    assert {t.kind for t in (*first, *second)} == {Kind.CANARY}
    assert [[brief(t) for t in group] for group in rest] == [[(6, "7/1", "tmpfs", None)], [(7, "7/2", "overlay", None)]]
    assert {t.kind for group in rest for t in group} == {Kind.POINT}


def test_what_once_failed_is_run_on_every_layer_before_anything_new() -> None:
    """On which layer it failed may have been chance; and it does not count as one of --trials."""
    found = [brief(t) for group in groups(draw(), (), CORPUS, None, 1) for t in group]
    assert found == [
        (1, "3/9", "ext4", None),
        (2, "3/9", "tmpfs", None),
        (3, "3/9", "overlay", None),
        (4, "7/2", "ext4", None),
        (5, "7/2", "tmpfs", None),
        (6, "7/2", "overlay", None),
        (7, "7/1", "tmpfs", None),
    ]


def test_the_scenarios_are_those_of_their_seed_and_number() -> None:
    """`lab replay` draws them again from these two alone."""
    of = draw()
    for group in groups(of, (CANARY,), CORPUS, None, 4):
        for trial in group:
            name = script(trial)
            assert name == scenario(of.plan, of.hooks, name.seed, name.number)


def test_a_seed_that_once_failed_is_told_from_one_that_was_drawn() -> None:
    """Reported: the report counted trials of the corpus by a word that nobody wrote, so there were none."""
    drawn = [trial.drawn for group in groups(draw(), (CANARY,), CORPUS, None, 2) for trial in group]
    assert Counter(drawn) == {"corpus": len(CORPUS) * len(draw().storages), "random": 3 + 2}


def test_a_run_without_a_number_of_trials_never_ends_by_itself_and_takes_the_layers_in_turn() -> None:
    """It is bounded by time. Each trial is a group of its own: no worker waits for another's."""
    found = list(islice(groups(draw(), (), (), None, None), 200))
    assert {len(group) for group in found} == {1}
    trials = [group[0] for group in found]
    assert [t.ident for t in trials] == [script(t).number for t in trials] == list(range(1, 201))
    assert [t.storage for t in trials[:4]] == ["tmpfs", "overlay", "ext4", "tmpfs"]


def test_idents_are_the_same_each_time_a_run_is_scheduled() -> None:
    """`lab resume` asks the journal by them what is done."""
    once, again = (list(groups(draw(), (CANARY,), CORPUS, None, 9)) for _ in range(2))
    assert once == again
    idents = [t.ident for group in once for t in group]
    assert idents == list(range(1, len(idents) + 1))


def test_with_a_planted_bug_there_is_nothing_but_its_trials() -> None:
    """As many as it may take, or as were asked for; they count, and no canary and no corpus is in the way."""
    found = list(groups(draw(storages=("ext4",)), (CANARY, QUIET), CORPUS, QUIET, None))
    assert [[brief(t) for t in group] for group in found] == [[(n, f"7/{n}", "ext4", "draft-late")] for n in (1, 2, 3)]
    assert {t.kind for group in found for t in group} == {Kind.POINT}
    assert len(list(groups(draw(), (CANARY,), (), QUIET, 30))) == 30


def test_each_scenario_is_struck_by_each_spelling_of_faults_in_turn() -> None:
    """`first>second`: the last one is that of every further kill. The operations are the same under each."""
    of = replace(draw(storages=("ext4",)), plan=plan(kills=(3, 3), ops=(3, 5)), faults=("sigkill", "sigkill>powercut"))
    found = [t for group in groups(of, (OTHER,), (), None, 2) for t in group]
    assert [(t.kind, script(t).number, t.faults) for t in found] == [
        (Kind.CANARY, 1, "sigkill"),
        (Kind.CANARY, 2, "sigkill"),
        (Kind.CANARY, 1, "sigkill>powercut"),
        (Kind.CANARY, 2, "sigkill>powercut"),
        (Kind.POINT, 1, "sigkill"),
        (Kind.POINT, 1, "sigkill>powercut"),
        (Kind.POINT, 2, "sigkill"),
        (Kind.POINT, 2, "sigkill>powercut"),
    ]
    one, other = found[4:6]
    assert [kill.fault for kill in one.kills] == ["sigkill"] * 3
    assert [kill.fault for kill in other.kills] == ["sigkill", "powercut", "powercut"]
    assert script(one).operations == script(other).operations
