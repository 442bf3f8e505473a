"""The `lab run` commands: a campaign each, with the options that they share."""

from __future__ import annotations

import math
import secrets
import shlex
import sys
from typing import TYPE_CHECKING

import click

from lab.cli.screen import Screen, say
from lab.storage import DEFAULT

if TYPE_CHECKING:
    from lab.campaigns.frame import Request

MAX_WORKERS = 32
DEFAULT_MINUTES = 2.0


@click.group()
def run() -> None:
    """Run a campaign."""


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise click.BadParameter("names at least one, such as ext4,tmpfs")
    return names


def _shard(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if not value:
        return None
    index, slash, of = value.partition("/")
    if not (slash and index.isdigit() and of.isdigit() and 1 <= int(index) <= int(of)):
        raise click.BadParameter("is i/n with 1 <= i <= n, such as 2/8")
    return int(index), int(of)


def _number(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and math.isnan(value):  # which no range keeps out
        raise click.BadParameter("is no number")
    return value


storage_option = click.option(
    "--storage", "storages", default=",".join(DEFAULT), envvar="LAB_STORAGE", show_default=True, callback=_names
)
seed_option = click.option("--seed", envvar="LAB_SEED", type=click.IntRange(0), help="Repeats a run.  [default: drawn]")
workers_option = click.option(
    "--workers", default=4, envvar="LAB_WORKERS", show_default=True, type=click.IntRange(1, MAX_WORKERS)
)
bug_option = click.option("--bug", help="Run the subject with this planted bug; see `lab bugs`.")
evidence_option = click.option(
    "--evidence", type=click.Choice(["failed", "all"]), default="failed", show_default=True, help="Kept whole."
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="One line for each trial.")


@run.command()
@click.option(
    "--subject", default="kernel", show_default=True, help="A built-in subject, or the path of a subject.toml."
)
@storage_option
@click.option(
    "--points", default=500, envvar="LAB_POINTS", show_default=True, type=click.IntRange(1, 100_000), help="Per layer."
)
@seed_option
@workers_option
@click.option("--exhaustive", is_flag=True, help="Every crash point of the census instead of --points of them.")
@click.option("--shard", envvar="LAB_SHARD", callback=_shard, help="Only part i of n of the plan: i/n.")
@bug_option
@evidence_option
@verbose_option
def matrix(
    subject: str,
    storages: tuple[str, ...],
    points: int,
    seed: int | None,
    workers: int,
    exhaustive: bool,
    shard: tuple[int, int] | None,
    bug: str | None,
    evidence: str,
    verbose: bool,
) -> None:
    """Kill a subject at seeded points of its census, on each storage layer."""
    from lab.campaigns import running
    from lab.campaigns.matrix import Options

    request = _request("matrix", subject, storages, seed, workers, bug, evidence)
    options = Options(storages, points, exhaustive, bug)
    progress = running.progress_maker(Screen(), verbose, say)
    sys.exit(running.run_matrix(request, options, shard, say, progress))


@run.command()
@click.option(
    "--subject", default="sessions", show_default=True, help="A built-in store, or the path of a subject.toml."
)
@storage_option
@seed_option
@workers_option
@click.option("--nightly", is_flag=True, help="All journal modes, long stories, more crash points.")
@bug_option
@evidence_option
@verbose_option
def cells(
    subject: str,
    storages: tuple[str, ...],
    seed: int | None,
    workers: int,
    nightly: bool,
    bug: str | None,
    evidence: str,
    verbose: bool,
) -> None:
    """Conformance cells: does "resume" mean resume? A session store, over journal modes and storage layers."""
    from lab.campaigns import running
    from lab.campaigns.cells import Options

    request = _request("cells", subject, storages, seed, workers, bug, evidence)
    progress = running.progress_maker(Screen(), verbose, say)
    sys.exit(running.run_cells(request, Options(storages, nightly, bug), say, progress))


@run.command()
@click.option("--subject", default="muxd", show_default=True, help="A built-in daemon, or the path of a subject.toml.")
@storage_option
@seed_option
@workers_option
@click.option(
    "--minutes",
    type=click.FloatRange(0, 10_000, min_open=True),
    callback=_number,
    help="How long.  [default: 2, or --trials]",
)
@click.option("--trials", type=click.IntRange(1, 1_000_000), help="How many, canaries and old failures not counted.")
@click.option(
    "--shrink", default=120, show_default=True, type=click.IntRange(0, 86_400), help="Seconds for each violation."
)
@bug_option
@evidence_option
@verbose_option
def fuzz(
    subject: str,
    storages: tuple[str, ...],
    seed: int | None,
    workers: int,
    minutes: float | None,
    trials: int | None,
    shrink: int,
    bug: str | None,
    evidence: str,
    verbose: bool,
) -> None:
    """Three clients against a daemon that is killed again and again, every answer held against a model."""
    from lab.campaigns import running
    from lab.fuzz.store import Bounds

    request = _request("fuzz", subject, storages, seed, workers, bug, evidence)
    if minutes is None and trials is None and bug is None:
        minutes = DEFAULT_MINUTES
    sys.exit(running.run_fuzz(request, Bounds(minutes, trials, shrink), Screen(), verbose, say))


def _request(
    campaign: str,
    subject: str,
    storages: tuple[str, ...],
    seed: int | None,
    workers: int,
    bug: str | None,
    evidence: str,
) -> Request:
    """What was asked for, with a seed, which is said before anything else."""
    from lab.campaigns.frame import Request

    if seed is None:
        seed = secrets.randbelow(10**9)
    say(f"seed     {seed:<18} repeat this run: LAB_SEED={seed} {_this_command()}")
    return Request(campaign, subject, seed, storages, workers, evidence == "all", bug)


def _this_command() -> str:
    """The command line as a person would type it again, without its seed."""
    words, skip = [], False
    for word in sys.argv[1:]:
        if skip or word.startswith("--seed="):
            skip = False
            continue
        if word == "--seed":
            skip = True
            continue
        words.append(word)
    return shlex.join(["lab", *words])
