"""A fuzz run on disk: what was kept of a trial is what the verifier was told, to the last line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from fuzz_evidence import DIFFERS, good, look, scenario, with_life
from fuzz_plan import HOOKS, draw, plan
from run_folder import HEADER, new

from lab.campaigns.fuzz import FUZZ_CAMPAIGN, SCENARIOS
from lab.codec import dump, parse, to_json
from lab.engine.errors import LabError
from lab.model import Evidence, Kind, Trial, Verdict, Word
from lab.plan.plan_file import PlanFile
from lab.plan.points import Bounds, Plan
from lab.run import reproducer
from lab.run.record import Record, evidence_folder
from lab.subject.load import load
from lab.trial import Outcome
from lab.trial.judge import in_brief

BROKEN = Verdict(Word.VIOLATION, "lost", "drafts-durable", ("drafts-durable",), "end", DIFFERS, {"drafts-durable": 9})
PASS = Verdict(Word.PASS)
# As a run's own file has it, with its keys in order: every scenario is drawn from there.
PLAN = parse(dump(plan(kills=(1, 2), ops=(3, 5)).model_dump(mode="json"), pretty=True), PlanFile)
DRAW = dataclasses.replace(draw(seed=HEADER.seed), plan=PLAN)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.chdir(tmp_path)
    return new()


def begun(record: Record) -> Record:
    """With all that its scenarios are drawn from."""
    subject = load("muxd").model_copy(update={"hooks": HOOKS})
    record.write("subject.json", subject.model_dump(mode="json"))
    record.write(SCENARIOS, {"plan": PLAN.model_dump(mode="json"), "corpus": []})
    return record


def kept(evidence: Evidence, home: bytes | None = b"home") -> Outcome:
    return Outcome(evidence, BROKEN, (home,) if home is not None else ())


@pytest.mark.parametrize("bounds", [Bounds(0.3, None, 120), Bounds(None, 6, 0.0), Bounds(None, None, 1.5)])
def test_the_bounds_come_back_as_they_were(record: Record, bounds: Bounds) -> None:
    """`lab resume` goes on with them."""
    record.write_plan(Plan((), 0, (), bounds=bounds))
    assert record.plan().bounds == bounds


@pytest.mark.parametrize(
    "trial",
    [
        DRAW.trial(1, Kind.POINT, 12, "ext4"),
        DRAW.trial(2, Kind.CANARY, 3, "tmpfs", bug="draft-late"),
        DRAW.trial(3, Kind.POINT, 9, "overlay", seed=3),
        DRAW.trial(4, Kind.POINT, 5, "ext4", faults="sigkill>powercut"),
    ],
    ids=["its own seed", "a canary", "a seed that once failed", "two faults"],
)
def test_a_trial_that_was_not_kept_is_drawn_again_as_it_was(record: Record, trial: Trial) -> None:
    """`lab replay` runs it, whatever has become of fuzz.toml and the hooks since."""
    begun(record).finished(in_brief(good(trial=trial), PASS, None))
    assert FUZZ_CAMPAIGN.trial(record, trial.ident) == trial
    assert FUZZ_CAMPAIGN.trial(record, 5) is None


def test_a_trial_that_was_kept_is_the_one_that_ran(record: Record) -> None:
    """A lab that draws otherwise must not replay something else in its name."""
    trial = good().trial
    begun(record).write_evidence(evidence_folder(trial), kept(good()), BROKEN)
    record.finished(in_brief(good(), BROKEN, evidence_folder(trial)))
    assert FUZZ_CAMPAIGN.trial(record, trial.ident) == trial


def test_a_run_that_never_got_to_its_plan_says_so(record: Record) -> None:
    """It was killed while it started."""
    with pytest.raises(LabError, match=r"has no plan.json: it was stopped before it got there"):
        record.plan()
    record.finished(in_brief(good(), PASS, None))
    with pytest.raises(LabError, match=r"has no scenarios.json: it was stopped before it got there"):
        FUZZ_CAMPAIGN.trial(record, 412)


def test_a_stored_history_that_is_none_is_one_clear_error(record: Record) -> None:
    """Reported: whoever edits a record by hand got a KeyError of `lab show`."""
    folder = evidence_folder(good().trial)
    record.write_evidence(folder, kept(good()), BROKEN)
    (record.path / folder / "history.jsonl").write_text('{"event": "ok", "id": 7, "result": {}, "at_ms": 1}\n')
    with pytest.raises(LabError, match=r"history\.jsonl is damaged: line 1: `ok` of request 7, which is not open"):
        record.evidence(folder)


def test_evidence_comes_back_whole(record: Record) -> None:
    """Planted: a scenario without its lives, or a history cut at a line that is not text."""
    history = (*good().history, {"event": "check", "life": 9, "final": False, "observed": "a\nb\u2028ü"})
    ledger = {"requests": [], "effects": [{"seq": 2, "effect": "run:p5", "request": 1}]}
    refused = "held by process 1"
    evidence = good(history=history, ledger=ledger, looks=(look(drafts_durable=DIFFERS),), diagnosis=refused)
    folder = evidence_folder(evidence.trial)
    record.write_evidence(folder, kept(evidence), BROKEN)
    assert folder == "evidence/0412"
    assert record.evidence(folder) == (evidence, (b"home",))
    assert record.read(f"{folder}/verdict.json", Verdict) == BROKEN


def test_a_person_finds_scenario_history_home_and_logs_in_files_of_their_own(record: Record) -> None:
    """And no home that nobody kept."""
    evidence = with_life(2, log="listening\n")
    record.write_evidence("evidence/0412", kept(evidence), BROKEN)
    folder = record.path / "evidence" / "0412"
    assert (folder / "look-1-end.tgz").read_bytes() == b"home"
    assert (folder / "process-2.log").read_text() == "listening\n"
    assert len((folder / "history.jsonl").read_text().splitlines()) == len(evidence.history)
    assert json.loads((folder / "scenario.json").read_text()) == to_json(scenario())
    record.write_evidence("evidence/0413", kept(good(), None), BROKEN)
    left = {path.name for path in (record.path / "evidence" / "0413").iterdir()}
    named = {"evidence.json", "scenario.json", "verdict.json", "history.jsonl", "ledger.json"}
    assert left == named | {f"process-{n}.log" for n in range(1, 6)}


def test_a_result_comes_back_from_the_journal_the_last_of_each_trial(record: Record) -> None:
    """With its waits and notes, and without the lives, which its seed and number draw again."""
    first = in_brief(good(), PASS, None)
    noted = dataclasses.replace(BROKEN, notes=("settings-kept: step=9 op=chat/set_mode: a mode is lost",))
    last = in_brief(good(), noted, "evidence/0412")
    other = dataclasses.replace(first, trial=dataclasses.replace(first.trial, ident=413, kind=Kind.CANARY, bug="torn"))
    record.begin_session()
    for result in (first, other, last):
        record.finished(result)
    record.end_session(interrupted=False)
    found = record.results()
    assert [result.trial.script for result in found] == [scenario(lives=())] * 2
    whole = tuple(dataclasses.replace(r, trial=dataclasses.replace(r.trial, script=scenario())) for r in found)
    assert whole == (last, other)
    assert found[0].waits_ms == {"chat/new": (3.0,), "draft/set": (10.0,), "status": (2.5,)}


def test_a_script_and_how_it_was_found_lie_side_by_side() -> None:
    """`lab replay` is given the one, the reports read the other."""
    assert (reproducer.path_of(12), reproducer.how_path_of(12)) == ("shrunk/0012.json", "shrunk/0012-how.json")
