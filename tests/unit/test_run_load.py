"""A run on disk as reports see it, what is written of it, and what `lab show` makes of its files alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import report_cells_data as cells
import report_fuzz_data as clients
from report_data import point_result
from report_evidence import BROKEN, REMOVED, by_clients, of_itself
from report_views import REPORTS, flat

from lab.cli import show as views
from lab.codec import to_json
from lab.engine.errors import LabError, UsageError
from lab.model import Verdict, Word
from lab.plan.points import Bounds, Plan
from lab.report import write
from lab.report.progress import Goal
from lab.run import reproducer
from lab.run.data import LegInfo
from lab.run.load import load
from lab.run.record import Header, Record, took_s
from lab.subject.load import load as load_subject
from lab.trial.run import Outcome
from lab.trial.setting import Prepared

HEADER = Header(
    run="20261130-101502-7f3a",
    campaign="matrix",
    subject="kernel",
    seed=814467209,
    storages=("ext4", "tmpfs"),
    workers=4,
    keep_all_evidence=False,
    bug=None,
    faults=("sigkill",),
    options={},
    subject_image="lab/kernel:1",
    verifier_image="lab/verifier:1",
    clients_image=None,
    environment={"kernel": "6.18"},
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new(plan: Plan, workloads=({},), **changes) -> Record:
    record = Record.create(dataclasses.replace(HEADER, **changes))
    record.write("subject.json", load_subject(changes.get("subject", "kernel")).model_dump(mode="json"))
    record.write_inputs(workloads, Prepared({}, {}, b""))
    record.write_plan(plan)
    return record


def filled(record: Record, *results, evidence=None, verdict: Verdict = BROKEN) -> Record:
    """Its trials have run, and the evidence of the first was kept."""
    if evidence is not None:
        record.write_evidence(results[0].evidence, Outcome(evidence, verdict, ()), verdict)
    record.begin_session()
    for result in results:
        record.finished(result)
    record.end_session(interrupted=False)
    return record


def of_a_plan() -> Record:
    broken, passed = point_result(12, "ext4", Word.VIOLATION), point_result(13, "tmpfs")
    record = new(Plan((broken.trial, passed.trial), 192, (), whole=2, population=190), workloads=({},) * 4)
    return filled(record, broken, passed, evidence=of_itself())


FUZZ = {"campaign": "fuzz", "subject": "muxd", "bug": "lost-draft"}


def of_clients() -> Record:
    record = new(Plan((), 0, (), bounds=Bounds(None, 2)), run="20261130-101503-0000", **FUZZ)
    return filled(record, clients.result(7, Word.VIOLATION), clients.result(8), evidence=by_clients(), verdict=REMOVED)


def test_a_run_of_a_plan_and_one_of_clients_are_the_same_kind_of_data():
    """One reader for all: a campaign of its own kind needs none."""
    plan = load(of_a_plan())
    assert (len(plan.trials), plan.points_known, plan.population, plan.bounds) == (2, 192, 190, None)
    assert [r.trial.ident for r in plan.failures] == [12]
    driven = load(of_clients())
    assert (driven.trials, driven.bounds, driven.bug) == ((), Bounds(None, 2), "lost-draft")
    assert not driven.interrupted


def test_a_session_that_did_not_end_was_interrupted():
    """The lab was killed: its journal just ends."""
    record = of_a_plan()
    record.begin_session()
    assert load(record).interrupted


def test_time_is_that_of_trials_over_all_sessions():
    """Neither the pause between two sessions nor the shrinking after the last trial counts."""
    lines = [{"session": "began", "at_s": 0.0}, {"result": {}, "at_s": 5.0}, {"session": "began", "at_s": 0.0}]
    assert took_s([*lines, {"result": {}, "at_s": 2.0}, {"session": "ended", "at_s": 90.0}], "result") == 7.0
    assert took_s([], "result") == 0.0


def test_a_reproducer_is_found_with_its_scenario():
    """The report prints it, and says how it was found."""
    record, found = of_clients(), clients.short()
    script = reproducer.Script(found.scenario, "tmpfs", "removals-final", None, "muxd", HEADER.run)
    record.write(reproducer.path_of(7), script)
    record.write(reproducer.how_path_of(7), to_json(found.how))
    (made,) = load(record).reproducers.values()
    assert (made.how, made.is_shorter) == (found.how, True)
    assert len(made.scenario.operations) == 2


def test_a_stored_run_knows_its_legs_with_clause_and_promise():
    """The file has what the plan needs; a report needs what is promised in each mode, and of what contract it is."""
    workloads = tuple(
        {"kind": "session-cells", "cell": cells.CELLS[0], "journal_mode": mode} for mode in ("wal", "off")
    )
    record = new(Plan((), 0, ()), workloads, campaign="cells", subject="sessions")
    assert load(record).legs == ()
    told = [
        LegInfo(cells.CELLS[0], "wal", 0, clause=cells.CLAUSE),
        LegInfo(cells.CELLS[0], "off", 1),
        LegInfo(cells.CELLS[1], "default", None, cells.REASON),
    ]
    record.write("legs.json", to_json(told))
    promised, not_promised, refused = load(record).legs
    assert (promised.name, promised.promised, promised.offered) == ("prefix-durability@wal", ("sigkill",), True)
    assert promised.clause == cells.CLAUSE
    assert (not_promised.workload, not_promised.promised) == (1, ())
    assert (refused.reason, refused.offered) == (cells.REASON, False)
    assert load(record).audits == ("journal-mode",)


def test_the_end_of_a_run_is_written_in_four_files_and_said():
    """With the picture of what broke; the code is that of the document."""
    record, said = of_a_plan(), []
    assert write.finish(record, REPORTS["matrix"], said.append) == 1
    assert said[0].splitlines()[-1].startswith("VIOLATION")
    assert f"report    {record.path / 'report.html'}" in said[0]
    assert json.loads((record.path / "summary.json").read_text())["exit_code"] == 1
    assert '<line class="strike"' in (record.path / "report.html").read_text()
    assert (record.path / "junit.xml").is_file()
    assert (record.path / "summary.md").read_text().startswith("## ❌ VIOLATION")


def test_a_report_survives_evidence_that_is_damaged():
    """One torn file of one trial must not cost the report of a night."""
    record = of_a_plan()
    (record.path / "evidence/0012/evidence.json").write_text("{")
    assert write.finish(record, REPORTS["matrix"], lambda _: None) == 1
    assert '<line class="strike"' not in (record.path / "report.html").read_text()


def shown(run: str | None, trial: int | None = None) -> str:
    return views.show(run, trial)


@pytest.mark.parametrize(("make", "marked"), [(of_a_plan, "request 58"), (of_clients, ">   41  client 3")])
def test_show_finds_a_run_its_trials_and_their_evidence(make, marked):
    """From the files of the run alone."""
    record = make()
    first, second = (r.trial.ident for r in record.results())
    assert shown("latest").startswith(f"run {record.path.name}  ")
    assert marked in shown("latest", first)
    assert "in brief: the journal's line alone" in shown("latest", second)
    with pytest.raises(UsageError, match=rf"has no trial 0099; its trials are {first:04d} to {second:04d}"):
        shown("latest", 99)


def test_the_list_of_runs_says_what_became_of_each_and_a_damaged_one_hides_none():
    """One run folder with `null` for a header made `lab show` a traceback for all."""
    assert shown(None).startswith("no runs in")
    record = of_a_plan()
    assert shown(None) == f"{record.path.name}  matrix of kernel, seed 814467209: 2 trials run, not finished"
    record.write("summary.json", {"exit_code": 1})
    assert shown(None).endswith("2 trials run, a promise was broken")
    (record.path / "plan.json").unlink()
    assert shown(None).endswith("it got no plan")
    for name, content in (("20261130-101502-0000", "null"), ("20261130-101502-0001", "[1]\x1b]0;x")):
        folder = record.path.parent / name
        folder.mkdir()
        (folder / "run.json").write_text(content)
    lines = shown(None).splitlines()
    assert [line.split()[1] for line in lines] == ["cannot", "cannot", "matrix"]
    assert all(line.isprintable() for line in lines)


def test_a_run_without_a_plan_of_trials_is_not_compared():
    """Its layers ran other scenarios: any difference would be said to be the layer's."""
    of_clients()
    for names in (("latest", None), ("latest", "latest")):
        with pytest.raises(UsageError, match="its layers ran other scenarios"):
            views.compare(*names)


def test_layers_of_a_stored_run_are_compared():
    """By `lab compare` as by the function."""
    of_a_plan()
    assert "trials 1 1" in flat(views.compare("latest", None))


def test_a_run_that_was_stopped_before_its_plan_says_so():
    """Not a traceback, and not a run of nothing."""
    record = new(Plan((), 0, ()))
    (record.path / "plan.json").unlink()
    with pytest.raises(LabError, match=r"has no plan.json: it was stopped before it got there"):
        shown("latest")


def test_the_goal_of_a_run_is_that_of_its_plan():
    """Of a plan all trials, the tries of one canary as one; of bounds trials of its own, or minutes."""
    assert Goal.of(Plan(tuple(r.trial for r in (point_result(1, "ext4"), point_result(2, "ext4"))), 9, ())) == Goal(2)
    assert Goal.of(Plan((), 0, (), bounds=Bounds(1.5, None))) == Goal(None, 90.0, canaries=False)
    assert Goal.of(Plan((), 0, (), bounds=Bounds(None, 30))) == Goal(30, None, canaries=False)
