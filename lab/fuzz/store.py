"""A fuzz run on disk: what lab.record keeps of every run, and the evidence of its trials.

fuzz.json       how long it is to run, and the plan file as it was
journal.jsonl   one line per finished trial; a scenario in it has no lives, for its seed and number draw them again
evidence/NNNN/  a failed trial whole: evidence.json, scenario.json, verdict.json, history.jsonl, home.tgz, life-N.log
shrunk/         the short scripts that still fail
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from lab.fuzz.model import FuzzEvidence, FuzzResult, FuzzTrial, Scenario
from lab.model import Verdict, from_json, to_json
from lab.plan.plan_file import PlanFile
from lab.run.record import Record


@dataclass(frozen=True)
class Bounds:
    """When a run ends: after so many minutes or trials of its own, whichever comes first; or with its planted bug."""

    minutes: float | None
    trials: int | None
    shrink_s: float  # for each violation


def write_plan(record: Record, plan: PlanFile, bounds: Bounds, clients_image: str) -> None:
    record.write(
        "fuzz.json", {"plan": plan.model_dump(mode="json"), "bounds": to_json(bounds), "clients": clients_image}
    )


def read_plan(record: Record) -> tuple[PlanFile, Bounds, str]:
    """The plan, the bounds and the tag of the clients' image."""
    data = record.read("fuzz.json")
    plan = PlanFile.model_validate_json(json.dumps(data["plan"]), strict=True)
    return plan, from_json(Bounds, data["bounds"]), str(data["clients"])


def results(record: Record) -> tuple[FuzzResult, ...]:
    """The last result of each trial."""
    lines = (line["result"] for line in record.journal() if "result" in line)
    return tuple({r.trial.ident: r for r in (from_json(FuzzResult, line) for line in lines)}.values())


def folder_of(trial: FuzzTrial) -> str:
    return f"evidence/{trial.ident:04d}"


def script_of(ident: int) -> str:
    """The short script of a trial."""
    return f"shrunk/{ident:04d}.json"


def how_of(ident: int) -> str:
    """How that script was found."""
    return f"shrunk/{ident:04d}-how.json"


def write_evidence(record: Record, folder: str, evidence: FuzzEvidence, verdict: Verdict, home: bytes | None) -> None:
    """A trial whole. Scenario, history and logs lie in files of their own, for people."""
    trial = replace(evidence.trial, scenario=replace(evidence.trial.scenario, lives=()))
    record.write(f"{folder}/evidence.json", to_json(replace(evidence, history=(), trial=trial)))
    record.write(f"{folder}/scenario.json", to_json(evidence.trial.scenario))
    record.write(f"{folder}/verdict.json", to_json(verdict))
    history = "".join(json.dumps(line) + "\n" for line in evidence.history)
    record.write_bytes(f"{folder}/history.jsonl", history.encode())
    for process in evidence.processes:
        record.write_bytes(f"{folder}/life-{process.number}.log", process.log.encode())
    if evidence.diagnosis:
        record.write_bytes(f"{folder}/diagnosis.txt", (evidence.diagnosis + "\n").encode())
    if home is not None:
        record.write_bytes(f"{folder}/home.tgz", home)


def read_evidence(record: Record, folder: str) -> FuzzEvidence:
    evidence = from_json(FuzzEvidence, record.read(f"{folder}/evidence.json"))
    scenario = from_json(Scenario, record.read(f"{folder}/scenario.json"))
    lines = (record.path / folder / "history.jsonl").read_text("utf-8").splitlines()
    history = tuple(json.loads(line) for line in lines)
    return replace(evidence, trial=replace(evidence.trial, scenario=scenario), history=history)
