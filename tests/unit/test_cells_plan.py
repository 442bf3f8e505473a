"""The cells campaign before it runs: its legs, where each is killed, and what a cells.toml may not say."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from lab.codec import to_json
from lab.engine.errors import LabError, UsageError
from lab.model import ANSWER, CrashPoint, CrashScript, Hit, Kind, Trial
from lab.plan.cells import CANARY_TRIES, OCCURRENCES_NIGHTLY, Asked, Leg, legs_of, make_plan, store_cells
from lab.plan.points import Plan
from lab.subject.load import load
from lab.subject.spec import Bug, Subject
from lab.trial.setting import Setting
from lab.workloads import promises_of, rules_of
from lab.workloads.session_cells import CELLS, JOURNAL_MODES, RACERS, RACES, TAIL

LAYERS = ("ext4", "tmpfs")
CI = Asked(LAYERS, ("sigkill",), nightly=False, bug=None)
NIGHTLY = Asked(LAYERS, ("sigkill",), nightly=True, bug=None)
Census = dict[int, tuple[Hit, ...]]


def setting(subject: Subject, seed: int = 3) -> Setting:
    """What planning sees of a run: the subject and the seed."""
    nothing = cast(Any, None)
    return Setting("run", seed, subject, "s", "v", None, (), nothing)


def census_of(subject: Subject, asked: Asked, seed: int = 3) -> tuple[tuple[Leg, ...], Census]:
    """As a census would find it: of each hook of a run as many hits as the script has such ops, and every answer."""
    legs, written = legs_of(subject, seed, asked)
    found: Census = {}
    for number, told in enumerate(written):
        ops = [op["op"] for op in told["work"] for _ in range(op.get("repeat", 1))]
        counts = Counter(ops)
        sends = counts["send"]
        hits = [
            Hit(hook.name, n)
            for hook in subject.hooks
            if hook.where == "run"
            for n in range(1, (counts[hook.name.split(".")[0]] or (sends if "outbox" in hook.name else 0)) + 1)
        ]
        answers = [Hit(ANSWER, n, {"op": op}) for n, op in enumerate(["open", *ops], 1)]
        found[number] = (*hits, *answers)
    return legs, found


def planned(subject: Subject, asked: Asked = CI, seed: int = 3) -> Plan:
    legs, found = census_of(subject, asked, seed)
    return make_plan(setting(subject, seed), asked, legs, found)


def script(trial: Trial) -> CrashScript:
    assert isinstance(trial.script, CrashScript)
    return trial.script


def workload(trial: Trial) -> int:
    return script(trial).workload


def racers(trial: Trial) -> int:
    return script(trial).racers


def cell_of(legs: tuple[Leg, ...], trial: Trial) -> str:
    return next(leg.cell for leg in legs if leg.workload == workload(trial))


@pytest.fixture(scope="module", params=["sessions", "hermes"])
def store(request: pytest.FixtureRequest) -> Subject:
    """A store with hooks, and one that is killed at moments and is open in one mode only."""
    return load(request.param)


@pytest.mark.parametrize("asked", [CI, NIGHTLY], ids=["ci", "nightly"])
def test_each_cell_has_a_leg_in_each_of_its_modes_and_each_leg_its_workload(asked: Asked) -> None:
    """Planted: a mode that is left out; a workload of another leg."""
    legs, written = legs_of(load("sessions"), 3, asked)
    assert [(leg.cell, leg.journal_mode) for leg in legs] == [
        (cell.name, mode) for cell in CELLS.values() for mode in cell.modes(asked.size)
    ]
    assert [leg.workload for leg in legs] == list(range(len(written)))
    assert [(w["cell"], w["journal_mode"]) for w in written] == [(leg.cell, leg.journal_mode) for leg in legs]
    assert {leg.cell: leg.clause for leg in legs} == {
        cell.name: f"{cell.clause} ({cell.source})" for cell in CELLS.values()
    }
    appends = sum(op.get("repeat", 0) for op in written[0]["work"])
    assert appends > (10_000 if asked.nightly else 200)


def test_what_a_store_does_not_offer_is_a_leg_with_its_reason_and_no_trial(tmp_path: Path) -> None:
    """Planted: a cell or mode that is left out in silence, and a table that looks complete."""
    legs, written = legs_of(load("hermes"), 3, NIGHTLY)
    left_out = [leg for leg in legs if leg.workload is None]
    assert {leg.journal_mode for leg in left_out} == {"delete", "truncate", "persist", "memory", "off"}
    assert all("always ends in WAL" in leg.reason for leg in left_out)
    assert all(leg.reason == "" for leg in legs if leg.workload is not None)
    assert {w["journal_mode"] for w in written} == {"default", "wal"}
    no_forks = of_a_file(
        tmp_path, '[not_offered]\nfork-determinism = "it has no forks"\n' + without("fork-determinism")
    )
    bugs = tuple(bug for bug in no_forks.bugs if bug.property != "fork-determinism")
    legs, written = legs_of(no_forks.model_copy(update={"bugs": bugs}), 3, CI)
    assert {leg.reason for leg in legs if leg.cell == "fork-determinism"} == {"it has no forks"}
    assert "fork-determinism" not in {w["cell"] for w in written}


def without(cell: str) -> str:
    """The reference store's points, of every cell but this one."""
    text = (load("sessions").folder / "cells.toml").read_text()
    text = text[text.index("[points]") :]
    return re.sub(rf"(?m)^{cell}\s*=\s*\[[^\]]*\]\n", "", text)


def of_a_file(folder: Path, text: str) -> Subject:
    """The reference store with a cells.toml of the test's."""
    (folder / "cells.toml").write_text(text)
    return load("sessions").model_copy(update={"folder": folder})


def test_every_place_is_killed_at_on_every_layer_in_every_leg(store: Subject) -> None:
    """Planted: a place of cells.toml that no trial is about. Each counts as covered, so that a missing kill is seen."""
    legs, _ = census_of(store, CI)
    plan = planned(store)
    points = [t for t in plan.trials if t.kind is Kind.POINT and t.kills]
    for leg in legs:
        for layer in LAYERS:
            mine = [t.kills for t in points if (workload(t), t.storage) == (leg.workload, layer)]
            places = store_cells(store).points[leg.cell] if leg.workload is not None else ()
            assert Counter(" > ".join(p.hook for p in each) for each in mine) == Counter(places)
    named = {p.hook for t in points for p in t.kills} - {ANSWER}
    assert set(plan.covers) == named
    assert [t.ident for t in plan.trials] == list(range(1, len(plan.trials) + 1))
    assert plan.whole == len(plan.trials)
    tried = {(workload(t), t.kills[0]) for t in points}
    assert len(tried) <= plan.points_known


def test_a_second_crash_is_in_the_recovery_at_its_first_hit() -> None:
    """Planted: "a > b" with both in process 1, where the second is never reached."""
    seconds = [t.kills[1] for t in planned(load("sessions")).trials if len(t.kills) == 2]
    assert seconds
    assert {(p.life, p.occurrence) for p in seconds} == {(2, 1)}


def test_nightly_draws_more_points_of_each_place_and_none_twice() -> None:
    """Planted: a nightly run that is the CI's again. Where there are fewer hits than draws, all of them are taken."""
    points = [t for t in planned(load("sessions"), NIGHTLY).trials if t.kind is Kind.POINT and t.kills]
    drawn = Counter((workload(t), t.storage, tuple(p.hook for p in t.kills)) for t in points)
    assert max(drawn.values()) == OCCURRENCES_NIGHTLY
    assert max(Counter((workload(t), t.storage, t.kills) for t in points).values()) == 1
    assert {workload(t) for t in points} == set(range(sum(len(cell.modes("nightly")) for cell in CELLS.values())))
    assert len(JOURNAL_MODES) == 7


@pytest.mark.parametrize("seed", range(8))
def test_a_kill_comes_late_enough_for_what_the_cell_must_have_seen(store: Subject, seed: int) -> None:
    """Planted: the 60th answer of a rotation story, which has 25 rotations. Such a trial has checked nothing.

    Appends come before rotations and between them, so the number of an answer says nothing; its op does.
    """
    legs, found = census_of(store, CI, seed)
    seen = set()
    for trial in planned(store, CI, seed).trials:
        cell = CELLS[cell_of(legs, trial)]
        if cell.least is None or not trial.kills:
            continue
        op, least = cell.least
        first = trial.kills[0]
        answers = [h for h in found[workload(trial)] if h.hook == ANSWER][: first.occurrence if first.is_moment else 0]
        acknowledged = sum(h.tags["op"] == op for h in answers) if first.is_moment else first.occurrence - 1
        assert acknowledged >= least, trial
        seen.add((cell.name, first.is_moment))
    assert {name for name, _ in seen} == {"prefix-durability", "rotation-atomicity"}
    assert (True in {moment for _, moment in seen}) == (store.name == "hermes")


@pytest.mark.parametrize("seed", range(8))
def test_a_moment_leaves_the_writer_work_to_outlive_the_kills_delay(seed: int) -> None:
    """Found: 45 answers of hermes-agent's store were over before the kill came, and the trial was invalid."""
    store = load("hermes")
    legs, found = census_of(store, CI, seed)
    moments = [t for t in planned(store, CI, seed).trials if t.kills and t.kills[0].is_moment]
    assert {cell_of(legs, t) for t in moments} == {c for c, p in store_cells(store).points.items() if ANSWER in p}
    for trial in moments:
        answers = [h for h in found[workload(trial)] if h.hook == ANSWER]
        behind = answers[trial.kills[0].occurrence :]
        assert len(behind) >= TAIL, trial
        assert trial.kills[0].occurrence > (len(answers) - TAIL) // 5, "what is hardly begun has little to lose"
        assert {h.tags["op"] for h in behind[-TAIL:]} == {"append"}
    hooked = legs_of(load("sessions"), seed, CI)[1]
    assert all("meanwhile" not in json.dumps(workload) for workload in hooked), "a hook stands still: it needs no tail"


def test_a_place_that_no_run_reaches_is_an_error_and_no_smaller_plan() -> None:
    """Planted: a place that silently has no trial, and a green table."""
    store = load("sessions")
    legs, found = census_of(store, CI)
    poor = {number: tuple(hit for hit in hits if hit.hook != "edit.written") for number, hits in found.items()}
    with pytest.raises(LabError, match=r"cell fork-determinism: no run of sessions reaches edit\.written"):
        make_plan(setting(store), CI, legs, poor)
    early = {number: tuple(h for h in hits if h.n <= 200) for number, hits in found.items()}
    with pytest.raises(LabError, match=r"cell prefix-durability: .* where it must be killed"):
        make_plan(setting(store), CI, legs, early)


def test_a_hook_of_another_op_does_not_say_how_much_was_acknowledged(tmp_path: Path) -> None:
    """Planted: the 51st append of a rotation story, which comes before its 40th rotation, counts as late enough."""
    store = of_a_file(tmp_path, re.sub(r"(?m)^(rotation-atomicity\s*=).*$", r"\1 ['append.durable']", POINTS))
    legs, found = census_of(store, CI)
    with pytest.raises(LabError, match=r"cell rotation-atomicity: no run of sessions reaches append\.durable where"):
        make_plan(setting(store), CI, legs, found)


def test_a_race_is_planned_where_the_cell_races_and_the_store_has_a_command_for_it(store: Subject) -> None:
    """Planted: no race at all; a race of a store that has none, which would be eight crashes."""
    legs, _ = census_of(store, CI)
    races = [t for t in planned(store).trials if racers(t)]
    assert {(cell_of(legs, t), t.storage) for t in races} == {
        (cell, layer) for cell in ("consume-once", "outbox-exactly-once") for layer in LAYERS
    }
    assert set(Counter((workload(t), t.storage) for t in races).values()) == {RACES["ci"]}, "of each leg"
    assert all(t.kills == () and racers(t) == RACERS and t.kind is Kind.POINT for t in races)
    alone = store.model_copy(update={"subject": store.subject.model_copy(update={"race": None})})
    assert [t for t in planned(alone).trials if racers(t)] == []


def test_each_canary_is_tried_on_each_layer_in_the_leg_that_it_is_about() -> None:
    """Planted: a canary in a leg where its bug cannot show."""
    store = load("sessions")
    legs, _ = census_of(store, CI)
    plan = planned(store)
    canaries = {bug.name: bug for bug in store.bugs if bug.canary}
    assert set(plan.canaries) == set(canaries)
    assert {canaries[name].property for name in plan.canaries} == set(CELLS)
    tries = Counter((t.bug, t.storage) for t in plan.trials if t.kind is Kind.CANARY)
    assert tries == {(name, layer): CANARY_TRIES for name in canaries for layer in LAYERS}
    for trial in plan.trials:
        if trial.kind is Kind.CANARY:
            bug = canaries[trial.bug or ""]
            leg = next(leg for leg in legs if leg.workload == workload(trial))
            assert (leg.cell, leg.journal_mode) == (bug.property, "default")
            assert trial.kills[0].hook in bug.points


def test_a_run_of_one_bug_is_of_that_bug_alone_in_the_workload_that_it_names() -> None:
    """Planted: a bug of a journal mode in the default leg, where it is none. `workload` of the catalogue says which."""
    store = load("sessions")
    asked = dataclasses.replace(CI, bug="journal-mode-changed-back")
    legs, _ = census_of(store, CI)
    trials = planned(store, asked).trials
    assert len(trials) == CANARY_TRIES * len(LAYERS)
    (number,) = {workload(t) for t in trials}
    assert (legs[number].cell, legs[number].journal_mode) == ("prefix-durability", "delete")
    assert all(t.kind is Kind.POINT and t.bug == asked.bug for t in trials)


def test_a_bug_that_no_leg_is_about_is_said() -> None:
    """Planted: a bug in a mode that CI does not run: no trial, and nothing that could miss it.

    It is said before anything runs, of a canary and of `--bug`; and nightly, which has that leg, does not say it.
    """
    store = load("sessions")
    rare = Bug(
        name="rare", meaning="m", property="prefix-durability", points=("append.before",),
        workload={"journal_mode": "persist"}, canary=True,
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"planted bug rare shows in: .* persist"):
        legs_of(store.model_copy(update={"bugs": (rare,)}), 3, CI)
    unsaid = store.model_copy(update={"bugs": (rare.model_copy(update={"canary": False}),)})
    legs_of(unsaid, 3, CI)
    with pytest.raises(UsageError, match="no leg"):
        legs_of(unsaid, 3, dataclasses.replace(CI, bug="rare"))
    legs_of(unsaid, 3, dataclasses.replace(NIGHTLY, bug="rare"))


def test_a_long_story_is_first_tried_at_its_end() -> None:
    """Planted: `both-gateways-send` shows behind the last record only, and three draws may miss it."""
    store = load("sessions")
    _, found = census_of(store, CI)
    for bug in store.bugs:
        trials = planned(store, dataclasses.replace(CI, bug=bug.name)).trials
        hook = bug.points[-1]
        last = max(hit.n for hit in found[workload(trials[0])] if hit.hook == hook)
        assert trials[0].kills == (CrashPoint(1, hook, last),)


def test_the_same_seed_gives_the_same_plan_and_another_seed_another(store: Subject) -> None:
    """A replay by seed is nothing else."""
    once, again, other = planned(store), planned(store), planned(store, seed=4)
    assert json.dumps(to_json(once)) == json.dumps(to_json(again))
    assert json.dumps(to_json(once)) != json.dumps(to_json(other))


POINTS = without("no-such-cell")
WRONG = [
    (POINTS.replace("consume-once ", "consume-twice "), "[points] there is no cell 'consume-twice'"),
    (POINTS + 'wal = ["append.before"]\n', "[points] there is no cell 'wal'"),
    ('[not_offered]\nwall = "why"\n' + POINTS, "there is no cell and no journal mode 'wall'"),
    (POINTS.replace('"claim.before"', '"claim.befor"'), "consume-once names the hook 'claim.befor', which is not in"),
    (POINTS.replace("> recovery.reaping", "> recovery.reapt", 1), "names the hook 'recovery.reapt'"),
    (without("fork-determinism"), "nothing is said of fork-determinism"),
    (POINTS + "[more]\n", "more: unknown key"),
    ("[points", "is not TOML"),
    ("", "points: missing"),
    (re.sub(r"(?m)^(prefix-durability\s*=).*$", r"\1 []", POINTS), "nothing is said of prefix-durability"),
    (re.sub(r"(?m)^(prefix-durability\s*=).*$", r"\1 ['append.before > answer']", POINTS), "has no such second crash"),
    (re.sub(r"(?m)^(prefix-durability\s*=).*$", r"\1 ['answer > answer > answer']", POINTS), "no such second crash"),
]


@pytest.mark.parametrize(("text", "why"), WRONG, ids=[why[:40] for _, why in WRONG])
def test_what_is_wrong_with_a_cells_file_is_told_with_file_and_reason(tmp_path: Path, text: str, why: str) -> None:
    """Each would else be a cell that is never killed, or an error in the middle of a campaign."""
    with pytest.raises(UsageError) as caught:
        store_cells(of_a_file(tmp_path, text))
    assert why in str(caught.value)
    assert str(tmp_path / "cells.toml") in str(caught.value)
    assert caught.value.exit_code == 64


def test_a_subject_without_cells_is_told_so() -> None:
    """`lab run cells --subject kernel`: it is no session store."""
    with pytest.raises(UsageError, match=r"cannot read .*kernel/cells\.toml"):
        legs_of(load("kernel"), 3, CI)


def test_a_trial_is_judged_by_its_cells_promise_in_its_mode() -> None:
    """Planted: a file that a crash in OFF has spoilt breaks what WAL promises; other cells' promises unchecked."""
    store = load("sessions")
    _, written = legs_of(store, 3, NIGHTLY)
    for workload in written:
        kept = () if workload["journal_mode"] in ("memory", "off") else ("sigkill",)
        assert promises_of(workload, store.promises) == {workload["cell"]: kept}
        assert rules_of(workload) == {"decline": [], "lose_reply": []}
    unsaid = store.model_copy(update={"promises": {"other": ("sigkill",)}})
    assert promises_of(written[0], unsaid.promises) == {"prefix-durability": ()}


def test_another_familys_workload_is_judged_by_every_promise() -> None:
    """A subject's own files, and the kernel's scripts, have no cell to choose by."""
    kernel = load("kernel")
    assert promises_of({"kind": "agent-tasks"}, kernel.promises) == kernel.promises
    assert promises_of({"notes": []}, kernel.promises) == kernel.promises
    assert rules_of({"ledger": {"decline": ["a"]}}) == {"decline": ["a"], "lose_reply": []}
