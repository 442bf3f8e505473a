"""A fuzz run on disk: what was kept of a trial is what the oracle was told, to the last line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from fuzz_evidence import DIFFERS, UNNOTED, good, look, scenario, with_life
from fuzz_plan import plan
from run_folder import new

from lab.engine.errors import LabError
from lab.fuzz import store
from lab.fuzz.store import Bounds
from lab.fuzz.verdict import in_brief
from lab.model import Kind, Verdict, Word, from_json
from lab.run.record import Record

BROKEN = Verdict(Word.VIOLATION, "lost", "drafts-durable", ("drafts-durable",), "end", DIFFERS, {"drafts-durable": 9})


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.chdir(tmp_path)
    return new()


@pytest.mark.parametrize("bounds", [Bounds(0.3, None, 120), Bounds(None, 6, 0.0), Bounds(None, None, 1.5)])
def test_the_plan_and_the_bounds_come_back_as_they_were(record: Record, bounds: Bounds) -> None:
    """`lab resume` goes on with them, whatever has become of fuzz.toml since."""
    made = plan(kills=(1, 2))
    store.write_plan(record, made, bounds, "lab/clients:1")
    assert store.read_plan(record) == (made, bounds, "lab/clients:1")


def test_a_run_that_never_got_to_its_plan_says_so(record: Record) -> None:
    """It was killed while it started."""
    with pytest.raises(LabError, match=r"has no fuzz.json: it was stopped before it got there"):
        store.read_plan(record)


def test_evidence_comes_back_whole(record: Record) -> None:
    """Planted: a scenario without its lives, or a history cut at a line that is not text."""
    history = (*good().history, {"event": "ok", "id": 9, "result": {"draft": "a\nb\u2028ü"}})
    evidence = good(history=history, look=look(drafts_durable=DIFFERS))
    folder = store.folder_of(evidence.trial)
    store.write_evidence(record, folder, evidence, BROKEN, b"home")
    assert folder == "evidence/0412"
    assert store.read_evidence(record, folder) == evidence
    assert from_json(Verdict, record.read(f"{folder}/verdict.json")) == BROKEN


def test_a_person_finds_scenario_history_home_and_logs_in_files_of_their_own(record: Record) -> None:
    """And the diagnosis of a refused start, which is there only then."""
    evidence = dataclasses.replace(with_life(2, log="listening\n"), diagnosis="held by process 1")
    store.write_evidence(record, "evidence/0412", evidence, BROKEN, b"home")
    folder = record.path / "evidence" / "0412"
    assert (folder / "home.tgz").read_bytes() == b"home"
    assert (folder / "life-2.log").read_text() == "listening\n"
    assert (folder / "diagnosis.txt").read_text() == "held by process 1\n"
    assert len((folder / "history.jsonl").read_text().splitlines()) == len(evidence.history)
    assert len(json.loads((folder / "scenario.json").read_text())["lives"]) == 5
    store.write_evidence(record, "evidence/0413", good(), BROKEN, None)
    left = {path.name for path in (record.path / "evidence" / "0413").iterdir()}
    assert left == {"evidence.json", "scenario.json", "verdict.json", "history.jsonl"} | {
        f"life-{n}.log" for n in range(1, 6)
    }


def test_a_result_comes_back_from_the_journal_the_last_of_each_trial(record: Record) -> None:
    """With its waits and notes, and without the lives, which its seed and number draw again."""
    first = in_brief(good(), Verdict(Word.PASS), UNNOTED, None)
    last = in_brief(good(look=look(settings_kept=DIFFERS)), BROKEN, UNNOTED, "evidence/0412")
    other = dataclasses.replace(first, trial=dataclasses.replace(first.trial, ident=413, kind=Kind.CANARY, bug="torn"))
    record.begin_session()
    for result in (first, other, last):
        record.finished(result)
    record.end_session(interrupted=False)
    assert store.results(record) == (last, other)
    assert store.results(record)[0].trial.scenario == scenario(lives=())
    assert store.results(record)[0].waits_ms == {"chat/new": (3.0,), "draft/set": (10.0,), "status": (2.5,)}


def test_a_script_and_how_it_was_found_lie_side_by_side() -> None:
    """`lab replay` is given the one, the reports read the other."""
    assert (store.script_of(12), store.how_of(12)) == ("shrunk/0012.json", "shrunk/0012-how.json")
