"""The two commands and their CI: what they call, that they end, and that red is red."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import psutil
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PASSING = '@echo "===== 3 passed in 0.10s ====="'


def dry_run(target: str, **variables: str) -> str:
    """The commands that make would run, as the shell would see them."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LAB_", "MAKE", "MFLAGS"))} | variables
    return subprocess.run(
        ["make", "-n", target], cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=20
    ).stdout


def expand(commands: str, **variables: str) -> str:
    """What the shell makes of the last of them."""
    line = commands.strip().splitlines()[-1]
    environment = {"PATH": os.environ["PATH"]} | variables
    return subprocess.run(
        ["sh", "-c", f"echo {line}"], env=environment, capture_output=True, text=True, check=True, timeout=20
    ).stdout.strip()


def test_lab_ci_is_500_points_on_three_layers_unless_told_otherwise() -> None:
    """Planted: `$(or $(LAB_STORAGE),ext4,tmpfs,overlay)`, which is ext4 alone: a comma ends an argument in make."""
    command = ".venv/bin/lab run matrix --storage {} --points {}"
    assert expand(dry_run("lab-ci")) == command.format("ext4,tmpfs,overlay", 500)
    variables = {"LAB_STORAGE": "tmpfs", "LAB_POINTS": "7"}
    assert expand(dry_run("lab-ci", **variables), **variables) == command.format("tmpfs", 7)


def test_lab_nightly_is_exhaustive_and_takes_a_shard() -> None:
    """Planted: a shard that is not passed on: eight machines each run all of it."""
    assert last_words(dry_run("lab-nightly")) == "--exhaustive"
    assert last_words(dry_run("lab-nightly", LAB_SHARD="3/8")) == "--exhaustive --shard 3/8"


def last_words(commands: str) -> str:
    """The options of the last `lab run matrix` that are not about storage."""
    return re.findall(r"run matrix --storage \S+ (.*?) *\|\|", commands)[-1]


def test_a_night_runs_the_cells_and_the_fuzz_campaign_once_whatever_its_shards() -> None:
    """Report 20: fuzz ran in no nightly job. Planted: it runs in each of eight shards, or without a bound."""
    for shard, once in (("", True), ("1/8", True), ("2/8", False)):
        script = dry_run("lab-nightly", LAB_SHARD=shard).replace(".venv/bin/lab", "echo").splitlines()
        script = script[next(n for n, line in enumerate(script) if line.startswith("red=0")) :]
        said = subprocess.run(
            ["sh", "-c", "\n".join(script)],
            env={"PATH": os.environ["PATH"], "LAB_MINUTES": "30"},
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        ).stdout
        assert [line.split()[1] for line in said.splitlines()] == [*(["cells", "fuzz"] if once else []), "matrix"]
        assert ("fuzz --storage ext4,tmpfs,overlay --minutes 30\n" in said) is once


def test_every_target_sets_up_before_it_runs() -> None:
    """Planted: `make lab-ci` on a fresh checkout that expects `make setup` first."""
    steps = [".ci/engine start", ".ci/base", ".venv/bin/lab setup"]
    for target in ("lab-ci", "lab-nightly", "lab-fuzz", "test"):
        assert [line for line in dry_run(target).splitlines() if line in steps] == steps


def test_the_lock_names_every_library_of_the_project_in_its_range() -> None:
    """Planted: a library added to pyproject.toml alone, which CI then takes in whatever version is the newest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["dev"]]
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = {pin.name: pin for pin in (Requirement(line) for line in lines if "==" in line)}
    for library in wanted:
        (version,) = pins[library.name].specifier
        assert library.specifier.contains(version.version), library


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script of CI alone, in a checkout whose make targets a test writes itself."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    return tmp_path


def targets(checkout: Path, test: str, lab_ci: str) -> None:
    (checkout / "Makefile").write_text(f".PHONY: test lab-ci\ntest:\n\t{test}\nlab-ci:\n\t{lab_ci}\n")


@pytest.mark.parametrize(
    ("test", "lab_ci", "green"),
    [(PASSING, "@true", True), (PASSING, "@exit 2", False), (f"{PASSING}; exit 1", "@true", False)],
)
def test_ci_is_green_only_if_both_commands_are(checkout: Path, test: str, lab_ci: str, green: bool) -> None:
    """Planted: the exit status of `tee` taken for that of the tests in front of it."""
    targets(checkout, test, lab_ci)
    done = subprocess.run(["bash", ".ci/run"], cwd=checkout, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) is green
    assert done.stdout.splitlines()[-1] == "===== 3 passed in 0.10s ====="


def test_ci_that_is_told_to_end_ends_what_it_runs(checkout: Path) -> None:
    """Planted: a plain foreground command; bash puts the signal off until it has ended by itself, up to 40 minutes."""
    targets(checkout, f"@sleep 300 & echo $$! > {checkout}/pid; wait", "@true")
    with subprocess.Popen(["bash", ".ci/run"], cwd=checkout, stdout=subprocess.DEVNULL) as ci:
        until = time.monotonic() + 10
        while not (checkout / "pid").exists() or not (checkout / "pid").read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        ci.send_signal(signal.SIGTERM)
        assert ci.wait(10) == 143
    child = int((checkout / "pid").read_text())
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until, "its child outlived it"
        time.sleep(0.02)


def run_beside(checkout: Path, before: str, during: str, other_ci: bool) -> list[str]:
    """Run CI where the record of an engine that was started says `before`, and `during` once the tests have run.

    Returns the calls of `lab` and `.ci/engine`. Scripts that note them are in their place: what is tested is when CI
    calls them.
    """
    state, calls = checkout / "state", checkout / "calls"
    state.mkdir()
    if before:
        (state / "engine").write_text(before)
    for name, program in (("lab", checkout / ".venv" / "bin" / "lab"), ("engine", checkout / ".ci" / "engine")):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho {name} "$@" >>{calls}\n')
        program.chmod(0o755)
    targets(checkout, f"@printf %s '{during}' >{state}/engine", "@true")
    with (state / "ci.lock").open("w") as lock:
        if other_ci:
            fcntl.flock(lock, fcntl.LOCK_SH)
        subprocess.run(
            ["bash", ".ci/run"],
            cwd=checkout,
            env={**os.environ, "LAB_STATE": str(state)},
            capture_output=True,
            check=True,
            timeout=60,
        )
    return calls.read_text().splitlines()


@pytest.mark.parametrize(
    ("before", "during", "other_ci", "calls"),
    [
        ("", "ours", False, ["lab gc", "engine stop"]),
        ("of a user", "of a user", False, ["lab gc"]),
        ("", "", False, ["lab gc"]),
        ("dead", "ours", False, ["lab gc", "engine stop"]),
        ("", "ours", True, ["lab gc"]),
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root is ever given an engine by the lab")
def test_ci_stops_the_engine_that_it_started_and_no_other(
    checkout: Path, before: str, during: str, other_ci: bool, calls: list[str]
) -> None:
    """Planted: the engine stopped whenever the lab had started it, under of a user lab or a second CI run."""
    assert run_beside(checkout, before, during, other_ci) == calls


def test_the_limits_of_ci_end_it_well_within_90_minutes() -> None:
    """Each step may take its limit, and the minute more that it is given to end in; there are two of cleaning up."""
    limits = re.findall(r"^\w+_LIMIT=(\d+)m$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    test, lab, clean = map(int, limits)
    assert test + lab + 2 * clean + 4 <= 75


def test_every_action_of_the_workflows_is_pinned_to_a_commit() -> None:
    """A tag can be moved to other code; a commit cannot."""
    uses = [
        line.split("uses:")[1].strip()
        for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert uses
    assert [use for use in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", use)] == []
