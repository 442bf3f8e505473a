"""500 malformed inputs, drawn from a seed: none ends in a traceback, in the wrong exit code, or without an end.

Found by trying it: records of the wrong shape gave tracebacks in 110 of 780 tries; one broke `lab show` for all runs.
"""

from __future__ import annotations

import importlib.util
import json
import random
import resource
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from malformed import in_place_of, json_text, toml_text
from run_folder import HEADER

from lab import codec
from lab.engine.errors import UsageError
from lab.engine.stream import LineParser, RecordParser
from lab.model import (
    CrashPoint,
    CrashScript,
    Evidence,
    Finding,
    Hit,
    Kind,
    LedgerCounts,
    Look,
    Phase,
    Process,
    Result,
    Trial,
    Verdict,
    Word,
)
from lab.report.trial import show_trial
from lab.run.load import load as load_run
from lab.run.record import Record
from lab.subject.load import IMAGES, SUBJECTS, load
from lab.trial.judge import in_brief

SEED = 8
RECORDS, TOMLS, OUTPUTS, REQUESTS, WORKLOADS = 240, 110, 60, 50, 40  # 500
MAX_GROWTH_KB = 300 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024
pytestmark = pytest.mark.timeout(10)


def seeded(kind: str, number: int) -> random.Random:
    return random.Random(f"{SEED}/{kind}/{number}")


@pytest.fixture(scope="module", autouse=True)
def _in_bounded_memory_and_disk() -> Iterator[None]:
    """They share this process. What reads or copies an endless device ends with an error, not with the machine."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bounds = {
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_AS: psutil.Process().memory_info().vms + 2 * MAX_GROWTH_KB * 1024,
    }
    limits = {kind: resource.getrlimit(kind) for kind in bounds}
    for kind, bound in bounds.items():
        resource.setrlimit(kind, (bound, limits[kind][1]))
    yield
    for kind, limit in limits.items():
        resource.setrlimit(kind, limit)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_KB


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")  # what would start a trial ends there, with 3


def lab(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """A command in this process: its exit code, and all that it printed."""
    from lab.cli import main as cli

    monkeypatch.setattr(sys, "argv", ["lab", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said, said[-2000:]
    assert len(said) < 20_000
    assert all(char.isprintable() or char in "\n\t" for char in said)
    assert isinstance(ended.value.code, int)
    return ended.value.code, said


# Records.


def trial(ident: int) -> Trial:
    return Trial(ident, Kind.POINT, "ext4", CrashScript(0, (CrashPoint(1, "log.synced", ident),)))


def evidence(ident: int) -> Evidence:
    process = Process(
        1, ("kernel", "run"), "log.synced#1", Hit("log.synced", ident), "psutil", True, 137, False, "psutil"
    )
    look = Look("killed", 1, {"legal-state": Finding(3)}, "mount", 1, {"requests": [], "effects": []})
    return Evidence(
        trial(ident), "c0ffee", {"fstype": "ext4"}, (Phase("start", 0.0, 9.5),), (process,), (look,),
        ({"op": "append", "type": "ok", "id": 1, "process": 1},), {"requests": [], "effects": []}, "kernel 1", 3,
        (40.0,),
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder as the lab writes it: two trials, one of them red and kept."""
    from lab.run.record import Plan, Prepared
    from lab.trial.run import Outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("whole"))
        record = Record.create(HEADER)
        record.write("subject.json", codec.to_json(load("kernel")))
        record.write_inputs(({"seed": 1, "tasks": []},), Prepared({"seed": 0}, {"requests": []}, b"a tar"))
        record.write("census.json", [])
        record.write_plan(Plan((trial(1), trial(2)), points_known=2, covers=("log.synced",), whole=2, population=2))
        record.begin_session()
        for ident, word in ((1, Word.PASS), (2, Word.VIOLATION)):
            verdict = Verdict(word, "why", "legal-state" if word is Word.VIOLATION else "", facts={"legal-state": 3})
            seen = evidence(ident)
            if word is Word.VIOLATION:
                record.write_evidence(f"evidence/{ident:04d}", Outcome(seen, verdict, (b"tgz",)), verdict)
            kept = f"evidence/{ident:04d}" if word is Word.VIOLATION else None
            hits = (Hit("log.synced", ident),)
            record.finished(Result(trial(ident), verdict, hits, (40.0,), 3, 1.5, LedgerCounts(), evidence=kept))
        record.end_session(interrupted=False)
        return record.path.resolve()


GOOD = "20261130-101503-good"  # the same run, left as it is
COMMANDS = (
    ["show", HEADER.run], ["show", HEADER.run, "2"], ["report", HEADER.run], ["compare", HEADER.run],
    ["verify", HEADER.run], ["resume", HEADER.run], ["replay", HEADER.run, "2"], ["merge", "out", HEADER.run],
)  # fmt: skip


@pytest.mark.parametrize("number", range(RECORDS))
def test_a_damaged_record_is_told_in_a_line_and_hides_no_other(
    number: int, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was sent by mail must not break `lab show` for all runs."""
    rng = seeded("record", number)
    runs = Path(".lab/runs")
    for name in (HEADER.run, GOOD):
        shutil.copytree(whole, runs / name, symlinks=True)
    path = rng.choice(sorted(p for p in (runs / HEADER.run).rglob("*") if p.is_file()))
    if rng.random() < 0.25 or not path.name.endswith((".json", ".jsonl")):
        in_place_of(rng, path)
    else:
        path.write_bytes(json_text(rng, path.read_bytes()))
    code, said = lab(["show"], monkeypatch, capsys)
    assert code == 0
    assert f"{GOOD}  matrix of kernel, seed 814467209: 2 trials run, not finished\n" in said
    assert len(said.splitlines()) == (2 if (runs / HEADER.run / "run.json").exists() else 1), said
    code, said = lab(rng.choice(COMMANDS), monkeypatch, capsys)
    assert code in (0, 1, 2, 3, 64), said


@pytest.mark.parametrize(
    ("name", "words", "wrong", "why"),
    [
        ("plan.json", ["report", HEADER.run], ('"workload": 0', '"workload": 7'), "workload 7 of 1"),
        ("plan.json", ["show", HEADER.run], ('"population": 2', '"population": 1'), "2 draws from 1 points"),
        ("plan.json", ["show", HEADER.run], ('"occurrence": 1', '"occurrence": -7'), "is not that of plan.json"),
        ("plan.json", ["report", HEADER.run], ('"ident": 2', '"ident": 3'), "is not that of plan.json"),
        ("evidence/0002/evidence.json", ["show", HEADER.run, "2"], ('"history": 1', '"history": 2'), "1 lines, of 2"),
        ("evidence/0002/ledger.json", ["show", HEADER.run, "2"], ('"effects": []', '"effects": 3'), "ledger.json"),
        ("evidence/0002/evidence.json", ["show", HEADER.run, "2"], ('"effects": []', '"effects": ["a"]'), "effects.0"),
    ],
)
def test_what_has_the_right_types_and_makes_no_sense_is_damage(
    name: str, words: list[str], wrong: tuple[str, str], why: str, whole: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Found with other seeds: each was a traceback."""
    shutil.copytree(whole, Path(".lab/runs") / HEADER.run)
    path = Path(".lab/runs") / HEADER.run / name
    assert wrong[0] in path.read_text()
    path.write_text(path.read_text().replace(*wrong))
    code, said = lab(words, monkeypatch, capsys)
    assert code == 3
    assert "is damaged" in said and why in said


# What a user writes.


@pytest.mark.parametrize("number", range(TOMLS))
def test_a_damaged_subject_is_bad_usage(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own file or one of its catalogues; a damage that changes nothing that matters is none."""
    rng = seeded("toml", number)
    folder = tmp_path / "subject"
    folder.mkdir()
    for file in (SUBJECTS / rng.choice(("kernel", "muxd", "notes", "sessions"))).glob("*.toml"):
        shutil.copy(file, folder)
    path = rng.choice(sorted(folder.glob("*.toml")))
    if rng.random() < 0.1:
        in_place_of(rng, path)
    else:
        path.write_bytes(toml_text(rng, path.read_bytes()))
    code, said = lab(["bugs", str(folder)], monkeypatch, capsys)
    assert code in (0, 64), said
    assert code == 0 or str(folder) in said


@pytest.mark.parametrize("number", range(WORKLOADS))
def test_a_damaged_workload_is_bad_usage(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nested 9,000 deep, endless, or no object: told before anything is started."""
    rng = seeded("workload", number)
    shutil.copytree(SUBJECTS / "notes", tmp_path / "notes")
    text = (tmp_path / "notes" / "subject.toml").read_text()
    (tmp_path / "notes" / "subject.toml").write_text(
        "\n".join(
            'files = ["a.json", "b.json"]' if line.startswith(("kind", "files")) else line for line in text.split("\n")
        )
    )
    for name in ("a.json", "b.json"):
        (tmp_path / "notes" / name).write_text('{"notes": [{"id": 1, "text": "one"}], "seed": 3}')
    path = tmp_path / "notes" / rng.choice(("a.json", "b.json"))
    if rng.random() < 0.3:
        in_place_of(rng, path)
    else:
        path.write_bytes(json_text(rng, path.read_bytes()))
    code, said = lab(["run", "matrix", "--subject", str(tmp_path / "notes"), "--seed", "1"], monkeypatch, capsys)
    assert code in (3, 64), said
    assert code == 64 or "no Docker engine" in said


# What a subject and a verifier say.


@pytest.mark.parametrize("number", range(OUTPUTS))
def test_whatever_a_subject_says_can_be_written_down_and_read_again(number: int) -> None:
    """940 levels deep it could not, and the run could never be finished."""
    rng = seeded("output", number)
    parser, answers = RecordParser("c0ffee"), LineParser()
    for _ in range(20):
        good = rng.choice(
            (
                {"lab": "c0ffee", "hit": "a.b", "n": 3, "tags": {"class": "once"}},
                {"lab": "c0ffee", "op": "append", "type": "ok", "id": 4, "args": {"a": [1, {"b": None}]}},
            )
        )
        text = json_text(rng, json.dumps(good).encode())
        parser.stdout(b"\x1e" + text + b"\n")
        answers.stdout(text.replace(b"\n", b" ") + b"\n")
    parser.ended()
    seen = Process(1, (), None, hit=parser.hits[-1] if parser.hits else None, log=parser.log.text())
    assert codec.parse(codec.dump(seen), Process) == seen
    for record in (*parser.history, *answers.answers):
        assert codec.parse(codec.dump(record)) == record


@pytest.mark.parametrize(
    "said", [{"event": "invoke"}, {"event": "ok", "at_ms": "x"}, {"id": [1]}, {"event": ["ledger"]}]
)
def test_the_words_of_the_clients_mean_nothing_when_a_subject_says_them(said: dict[str, Any], whole: Path) -> None:
    """A subject that drives itself may put anything into its records; taken for a client's, it ended the run."""
    record = Record(whole)
    history = ({"op": "append", "type": "ok", "id": 1, "process": 1, **said},)
    seen = replace(evidence(2), history=history)
    verdict = Verdict(Word.PASS)
    assert (in_brief(seen, verdict, None).operations, in_brief(seen, verdict, None).waits_ms) == (0, {})
    assert "append" in show_trial(load_run(record), 2, seen)


@pytest.fixture(scope="module")
def ledger() -> ModuleType:
    """The part of the ledger that reads requests; it runs in a container and is no part of the package."""
    path = IMAGES / "system" / "ledger" / "ledger" / "request.py"
    spec = importlib.util.spec_from_file_location("ledger_request", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(REQUESTS))
def test_whatever_is_asked_of_the_ledger_can_be_in_its_snapshot(number: int, ledger: ModuleType) -> None:
    """A request that was taken comes back to the lab in a snapshot, which must be in bounds."""
    rng = seeded("request", number)
    good = {"do": "send", "effect": "e1", "class": "once", "key": None, "token": 3, "tool": "t", "args": {"a": [1]}}
    text = json_text(rng, json.dumps(good).encode())
    try:
        request = ledger.parse(text)
    except ledger.Malformed:
        return
    parser = LineParser()
    parser.stdout(json.dumps({"ledger": {"effects": [{"args": getattr(request, "args", None)}]}}).encode() + b"\n")
    assert [list(answer) for answer in parser.answers] == [["ledger"]]


def test_half_a_surrogate_pair_is_refused_by_the_ledger(ledger: ModuleType) -> None:
    """It was taken, and then no snapshot of that trial could be read."""
    with pytest.raises(ledger.Malformed, match="`args` is not valid Unicode"):
        ledger.parse(b'{"do": "send", "effect": "e1", "class": "once", "token": 3, "args": {"a": ["\\ud800"]}}')


def test_the_generator_damages_most_of_what_it_is_given() -> None:
    """A generator that leaves its input as it is would make all of the above green."""
    refused = 0
    for number in range(100):
        try:
            codec.parse(json_text(seeded("own", number), codec.dump(HEADER)), type(HEADER))
        except (ValueError, UsageError):
            refused += 1
    assert refused > 60
