"""Shards of one campaign become one run; a set that is not whole, or not of one campaign, never does."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from report_data import point_result
from run_folder import HEADER, new
from trial_evidence import good

from lab.campaigns.session import finish
from lab.codec import to_json
from lab.engine.errors import LabError, UsageError
from lab.model import Hit, Kind, Verdict, Word
from lab.plan.points import Plan, shard
from lab.run.merge import merge_shards
from lab.run.record import Record
from lab.subject.load import load
from lab.trial.run import Outcome
from lab.trial.setting import Prepared

LAYERS = ("ext4", "tmpfs")
RESULTS = {
    ident: point_result(ident, LAYERS[(ident - 1) % 2], Word.HANG if ident == 8 else Word.PASS)
    for ident in range(1, 21)
}
CANARY = dataclasses.replace(RESULTS[1].trial, ident=21, kind=Kind.CANARY, bug="log-buffered")
TRIALS = (*(result.trial for result in RESULTS.values()), CANARY)
PLAN = Plan(
    TRIALS, points_known=80, population=80, covers=("log.synced",), canaries=("log-buffered",), whole=len(TRIALS)
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(run: str, plan: Plan, seed: int = HEADER.seed, census: object = None, folder: str = "/here") -> Record:
    """A finished run of this plan."""
    record = new(run)
    record.write("run.json", to_json(dataclasses.replace(HEADER, run=run, seed=seed)))
    record.write("subject.json", {**load("kernel").model_dump(mode="json"), "folder": folder})
    record.write_inputs(({"seed": 1},) * 4, Prepared({}, {}, b"tar"))
    record.write("census.json", census)
    record.write_plan(plan)
    record.begin_session()
    for trial in plan.trials:
        result = RESULTS.get(trial.ident) or dataclasses.replace(RESULTS[1], trial=trial)
        if result.evidence:
            hung = Verdict(Word.HANG)
            record.write_evidence(result.evidence, Outcome(good(trial=trial), hung, ()), hung)
        record.finished(result)
    record.end_session(interrupted=False)
    return record


def shards(of: int) -> list[str]:
    """The shards of the plan, each a run of its own."""
    for index in range(1, of + 1):
        made(f"2026113{index}-000000-aaaa", shard(PLAN, index, of), folder=f"/machine/{index}")
    return [f"2026113{index}-000000-aaaa" for index in range(1, of + 1)]


def merged(*names: str) -> tuple[Record, int, str]:
    said: list[str] = []
    record = merge_shards(Path("out/night"), names, said.append)
    return record, finish(record, said.append), "\n".join(said)


def quiet(line: str) -> None:
    """Says nothing."""


@pytest.mark.parametrize("of", [1, 3, 4])
def test_the_shards_of_a_run_merge_to_the_whole(of: int) -> None:
    """The same plan, results, evidence, counts and exit code as the campaign in one piece; in any order of shards."""
    whole = made("20261130-000000-ffff", PLAN)
    whole_code = finish(whole, quiet)
    record, code, said = merged(*reversed(shards(of)))
    assert f"{of} shards, 21 trials" in said
    assert record.plan() == PLAN
    assert sorted(record.results(), key=lambda r: r.trial.ident) == sorted(whole.results(), key=lambda r: r.trial.ident)
    assert record.header() == dataclasses.replace(whole.header(), run="night")
    assert record.evidence("evidence/0008") == whole.evidence("evidence/0008")
    assert record.inputs() == whole.inputs()
    assert code == whole_code == 2
    ours, theirs = (json.loads((r.path / "summary.json").read_text()) for r in (record, whole))
    for name in ("trials", "verdicts", "by_storage", "hooks", "canaries", "exit_code"):
        assert ours[name] == theirs[name]


def test_a_missing_shard_is_refused() -> None:
    """A night without one of its shards would be green about points that nobody tried."""
    first, _, third = shards(3)
    with pytest.raises(UsageError, match=r"6 trials are in no shard, the first is 3\n"):
        merged(first, third)
    assert not Path("out").exists()


def test_the_last_shard_missing_is_refused_as_well() -> None:
    """A hole at the end of the numbers is no hole between them: only the plan knows how many there are."""
    made("20261130-000000-aaaa", dataclasses.replace(PLAN, trials=PLAN.trials[:10]))
    with pytest.raises(UsageError, match="11 trials are in no shard, the first is 11"):
        merged("20261130")


def test_a_doubled_shard_is_refused() -> None:
    """Every trial of it would count twice."""
    first, second = shards(2)
    with pytest.raises(UsageError, match="the same trial: is one of them given twice"):
        merged(first, second, first)


def other_plan() -> Record:
    return made("20261201-000000-bbbb", dataclasses.replace(shard(PLAN, 2, 2), points_known=99))


FOREIGN: dict[str, tuple[Callable[[], Record], str]] = {
    "another seed": (lambda: made("20261201-000000-bbbb", shard(PLAN, 2, 2), seed=5), "its seed is 5"),
    "another census": (
        lambda: made("20261201-000000-bbbb", shard(PLAN, 2, 2), census=to_json(Hit("a.b", 1))),
        r"its census\.json differs",
    ),
    "another number of points": (other_plan, "different plans"),
}


@pytest.mark.parametrize(("make", "why"), FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_shard_is_refused(make: Callable[[], Record], why: str) -> None:
    """Trial numbers fit by chance; what they stand for does not."""
    make()
    first, _ = shards(2)
    with pytest.raises(UsageError, match=why):
        merged(first, "20261201")
    assert not Path("out").exists()


def test_nothing_is_ever_merged_over() -> None:
    """A folder that is there may be somebody's run."""
    names = shards(2)
    merged(*names)
    with pytest.raises(UsageError, match="already exists"):
        merged(*names)


def test_a_shard_that_never_got_to_a_plan_is_named() -> None:
    """A machine that died during its census."""
    first, second = shards(2)
    (Record.find(second).path / "plan.json").unlink()
    with pytest.raises(LabError, match=f"run {second} has no plan"):
        merged(first, second)
