"""The command line as a person or a CI job meets it: exit codes are an interface, and no traceback is a message."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import click
import docker.errors
import pytest
from click.testing import CliRunner
from run_folder import HEADER, new

from lab.campaigns import session
from lab.campaigns.base import Inputs, Planning, Request
from lab.campaigns.fuzz import DEFAULT_MINUTES, FUZZ_CAMPAIGN
from lab.cli import main as cli
from lab.cli import run as cli_run
from lab.codec import to_json
from lab.engine.errors import EngineUnavailable, Interrupted, LabError, UsageError
from lab.model import CrashPoint, Life, Limits, Scenario
from lab.plan.points import Bounds, Plan
from lab.run.record import RUNS, Record
from lab.run.reproducer import Script
from lab.subject.load import load
from lab.trial.setting import Prepared

LAB = (sys.executable, "-c", "from lab.cli.main import main; main()")


def lab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`lab` with these arguments, as a process."""
    return subprocess.run(
        [*LAB, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run there, and no setting of the caller's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(cli.__file__).parent.parent))
    for name in ("LAB_SEED", "LAB_POINTS", "LAB_STORAGE", "LAB_WORKERS", "LAB_SHARD"):
        monkeypatch.delenv(name, raising=False)


WRONG = [
    (["dance"], "No such command 'dance'"),
    (["run", "matrix", "--points", "0"], "--points"),
    (["run", "matrix", "--points", "many"], "--points"),
    (["run", "matrix", "--seed", "-1"], "--seed"),
    (["run", "matrix", "--storage", ","], "names at least one"),
    (["run", "matrix", "--workers", "99"], "--workers"),
    (["run", "matrix", "--shard", "9/8"], "is i/n with 1 <= i <= n"),
    (["run", "matrix", "--shard", "0/8"], "is i/n"),
    (["run", "matrix", "--shard", "1"], "is i/n"),
    (["run", "matrix", "--shard", "²/3"], "is i/n"),
    (["run", "matrix", "--shard", f"1/{10**4200}"], "is i/n"),
    (["run", "matrix", "--evidence", "some"], "--evidence"),
    (["run", "matrix", "--subject", "kernal"], "no subject 'kernal'"),
    (["run", "matrix", "--subject", "./none.toml"], "cannot read none.toml: No such file or directory"),
    (["run", "matrix", "--bug", "torn"], "has no planted bug 'torn'"),
    (["run", "fuzz", "--minutes", "0"], "--minutes"),
    (["run", "fuzz", "--minutes", "nan"], "--minutes"),
    (["run", "fuzz", "--trials", "0"], "--trials"),
    (["run", "fuzz", "--shrink", "-1"], "--shrink"),
    (["run", "fuzz", "--subject", "kernel"], "kernel is driven by itself, which fuzz cannot run"),
    (["run", "matrix", "--subject", "muxd"], "muxd is driven by clients, which matrix cannot run"),
    (["run", "fuzz", "--bug", "torn"], "subject muxd has no planted bug 'torn'"),
    (["replay", "latest"], "which trial of latest?"),
    (["replay", "short.json"], "which trial of short.json?"),
    (["show", "20261130"], "no run '20261130' in .lab/runs"),
    (["show", "latest", "one"], "'one' is not a valid integer"),
    (["report", "latest"], "no run 'latest'"),
    (["compare", "latest"], "no run 'latest'"),
    (["verify", "latest"], "no run 'latest'"),
    (["resume", "latest"], "no run 'latest'"),
    (["resume"], "no run 'latest'"),
    (["verify"], "no run 'latest'"),
    (["report"], "no run 'latest'"),
    (["replay", "latest", "1"], "no run 'latest'"),
    (["merge", "out", "latest"], "no run 'latest'"),
    (["merge", "out"], "Missing argument"),
    (["bugs", "kernal"], "no subject 'kernal'"),
]


@pytest.mark.parametrize(("arguments", "why"), WRONG, ids=[" ".join(w[0])[:60] for w in WRONG])
def test_bad_usage_is_told_in_few_lines_and_exits_64(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typing error must not look like a broken promise (1), nor like a broken lab (3), nor start anything."""
    monkeypatch.setattr(sys, "argv", ["lab", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 64
    assert why in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) <= 4
    assert not Path(".lab").exists()


def test_it_is_the_same_as_a_process() -> None:
    """What the tests around this one call in this process is what the shell gets."""
    done = lab("show", "20261130")
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == "usage    no run '20261130' in .lab/runs\n  `lab show` lists the runs that are there.\n"


def raising(error: BaseException) -> Callable[[], None]:
    """A command that fails so."""

    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("wrong", "do this"), 64, "usage    wrong\n  do this\n"),
        (LabError("failed"), 3, "error    failed\n"),
        (EngineUnavailable("no engine"), 3, "error    no engine\n"),
        (Interrupted("stopped by you"), 130, "stopped  stopped by you\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
        (click.Abort(), 130, "stopped\n"),
        (docker.errors.DockerException("gone"), 3, "error    the Docker engine failed: gone\n"),
        (PermissionError(13, "Permission denied", ".lab"), 3, "error    Permission denied: .lab\n"),
        (OSError(28, "No space left on device"), 3, "error    No space left on device\n"),
        (ZeroDivisionError("a bug of ours"), 3, "Traceback"),
    ],
)
def test_what_goes_wrong_has_its_own_exit_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python exits with 1 for what nobody catches: CI would read that as a broken promise."""
    assert cli._exit_code(raising(error)) == code
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("started", [[], ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]], ids=["at a terminal", "by &"])
def test_a_reader_that_goes_away_is_no_success(started: list[str]) -> None:
    """`lab run matrix | head -1` ended the campaign and exited with 0: all passed; and so with SIGINT ignored."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(
            [*started, *LAB, "bugs", "kernel"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (130, "")


def test_a_screen_that_goes_away_is_no_broken_promise() -> None:
    """rich exits with 1 by itself, which says that a promise was broken."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        cli.Screen(file=Gone()).print("progress")


def test_the_planted_bugs_are_listed_a_name_a_line_or_as_json() -> None:
    """Other tools run each of them, and ask which property must catch it."""
    names = CliRunner().invoke(cli.cli, ["bugs", "kernel"]).output.splitlines()
    found = json.loads(CliRunner().invoke(cli.cli, ["bugs", "kernel", "--json"]).output)
    assert len(names) == len(set(names)) >= 12
    assert [bug["name"] for bug in found] == names
    assert all(set(bug) == {"name", "property", "meaning"} and bug["property"] for bug in found)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What a campaign would be asked for, if one were run."""
    got: list[Request] = []

    def run(request: Request, say: object, progress: object) -> int:
        got.append(request)
        return 2

    monkeypatch.setattr(session, "run", run)
    return got


def test_environment_variables_set_what_no_option_does(asked: list[Request], monkeypatch: pytest.MonkeyPatch) -> None:
    """`LAB_SEED=7 make lab-ci` repeats a run; an option on the command line is stronger."""
    settings = {"LAB_SEED": "7", "LAB_POINTS": "50", "LAB_STORAGE": "tmpfs, ext4", "LAB_WORKERS": "2"}
    for name, value in {**settings, "LAB_SHARD": "2/8"}.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(cli.cli, ["run", "matrix", "--points", "60"])
    assert result.exit_code == 2
    (request,) = asked
    assert (request.seed, request.storages, request.workers) == (7, ("tmpfs", "ext4"), 2)
    assert (request.options["points"], request.options["shard"]) == (60, (2, 8))
    assert "seed     7 " in result.output


def test_the_defaults_are_those_of_make_lab_ci(asked: list[Request]) -> None:
    """500 points on three layers; the seed is drawn, and told first with the line that repeats the run."""
    outputs = [CliRunner().invoke(cli.cli, ["run", "matrix"]).output for _ in range(2)]
    request = asked[-1]
    assert (request.options["points"], request.storages) == (500, ("ext4", "tmpfs", "overlay"))
    assert (request.subject, request.workers, request.keep_evidence) == ("kernel", 4, False)
    assert (request.options["exhaustive"], request.bug, request.options["shard"]) == (False, None, None)
    assert outputs[0] != outputs[1]
    assert f"LAB_SEED={request.seed} lab " in outputs[1]


@pytest.mark.parametrize(
    ("words", "bounds"),
    [
        ([], (DEFAULT_MINUTES, None, 120)),
        (["--minutes", "0.3"], (0.3, None, 120)),
        (["--trials", "6", "--shrink", "0"], (None, 6, 0)),
        (["--trials", "6", "--minutes", "1"], (1.0, 6, 120)),
        (["--bug", "draft-before-write"], (None, None, 120)),
        (["--bug", "draft-before-write", "--trials", "3"], (None, 3, 120)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_fuzz_run_has_an_end_whatever_is_asked_for(
    asked: list[Request], words: list[str], bounds: tuple[float | None, int | None, int]
) -> None:
    """Planted: `--trials 6` for two minutes, and a planted bug that is given up after two."""
    assert CliRunner().invoke(cli.cli, ["run", "fuzz", "--seed", "7", *words]).exit_code == 2
    (request,) = asked
    nothing_runs = cast(Any, None)  # its plan needs neither services nor a census
    plan, _ = FUZZ_CAMPAIGN.plan(Planning(request, Inputs(), nothing_runs, nothing_runs, print))
    assert plan.bounds == Bounds(*bounds)


def test_a_fuzz_run_takes_the_settings_of_the_environment_as_well(
    asked: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`LAB_SEED=7 make lab-fuzz` repeats a run."""
    for name, value in {"LAB_SEED": "7", "LAB_STORAGE": "tmpfs", "LAB_WORKERS": "2"}.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(cli.cli, ["run", "fuzz", "-v", "--evidence", "all"])
    (request,) = asked
    assert (request.campaign, request.subject, request.seed, request.storages) == ("fuzz", "muxd", 7, ("tmpfs",))
    assert (request.workers, request.keep_evidence, request.bug) == (2, True, None)
    assert result.output.startswith("seed     7 ")


@pytest.fixture
def fuzz_run() -> Record:
    """A fuzz run that has finished no trial."""
    record = new()
    record.write("run.json", to_json(dataclasses.replace(HEADER, campaign="fuzz", subject="muxd")))
    record.write("subject.json", to_json(load("muxd")))
    record.write_inputs((), Prepared({}, {}, b"a tar"))
    record.write_plan(Plan((), 0, (), bounds=Bounds(DEFAULT_MINUTES, None)))
    return record


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["replay", "latest"], "which trial of latest?"),
        (["replay", "latest", "3"], "has no trial 3"),
        (["replay", "latest", "--keep"], "--keep is for a trial of a run"),
        (["replay", "short.json", "--keep"], "--keep is for a trial of a run"),
        (["replay", "short.json"], "short.json is no script of a crash fuzz"),
        (["replay", "other.json"], "other.json kills at the hook 'no.such', which muxd does not have"),
        (["compare", "latest"], "has no plan of trials: its layers ran other scenarios"),
        (["merge", "out", "latest"], "has no shards: its plan has no end"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_asked_of_a_fuzz_run_is_told(
    fuzz_run: Record, words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: "it was stopped before it got there", of a run that is whole and has no plan."""
    Path("short.json").write_text('{"seed": 7}')
    lives = (Life((), CrashPoint(1, "no.such")), Life((), None))
    script = Script(Scenario(7, 1, "jsonrpc", 1, Limits(), lives), "tmpfs", "drafts-durable", None, "muxd", "of-old")
    Path("other.json").write_text(json.dumps(to_json(script)))
    monkeypatch.setattr(sys, "argv", ["lab", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 64
    assert why in capsys.readouterr().err
    assert not Path("out").exists()


def test_the_line_that_repeats_a_run_is_the_command_without_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds in one line would contradict each other."""
    monkeypatch.setattr(sys, "argv", ["lab", "run", "matrix", "--seed", "7", "--points", "5", "--seed=8", "-v"])
    assert cli_run._this_command() == "lab run matrix --points 5 -v"
    monkeypatch.setattr(sys, "argv", ["lab", "run", "matrix", "--subject", "my folder/subject.toml"])
    assert cli_run._this_command() == "lab run matrix --subject 'my folder/subject.toml'"


def test_show_without_a_run_lists_them_and_says_what_became_of_each() -> None:
    """A run that was killed before its plan must not hide the others."""
    assert CliRunner().invoke(cli.cli, ["show"]).output == f"no runs in {RUNS}\n"
    new()
    (RUNS / "20261130-101503-bad").mkdir()
    (RUNS / "20261130-101503-bad" / "run.json").write_text("{")
    lines = CliRunner().invoke(cli.cli, ["show"]).output.splitlines()
    assert len(lines) == 2
    assert "matrix of kernel" in lines[0] and lines[0].endswith(": it got no plan")
    assert "20261130-101503-bad" in lines[1]
    assert "damaged" in lines[1]


def test_help_lists_every_command_and_exits_0() -> None:
    """`lab --help` is where a person begins."""
    done = lab("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n  {name} " in done.stdout for name in cli.cli.commands)
