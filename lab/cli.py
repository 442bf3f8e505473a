"""The command line: reads options, calls one function, turns what goes wrong into one line and an exit code.

0 all passed · 1 a promise was broken · 2 not enough evidence · 3 the lab or the engine failed · 64 bad usage ·
130 interrupted
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import docker.errors
import requests
from rich.console import Console

from lab.engine.errors import Interrupted, LabError, UsageError

if TYPE_CHECKING:
    from lab.campaigns.frame import Request

USAGE_EXIT = 64
INTERRUPTED_EXIT = 130
MAX_WORKERS = 32


class Screen(Console):
    """Where progress is drawn. When its reader goes away it says so, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def say(line: str) -> None:
    """One line, at once: what is behind a pipe must see it when a person would."""
    print(line, flush=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Proves that a program keeps its promises when it dies: real containers, real SIGKILL, real filesystems."""


@cli.command()
def setup() -> None:
    """Start an engine where there is none and it may, and build the images that are not up to date."""
    from lab.doctor import set_up

    set_up(say)


@cli.group()
def engine() -> None:
    """The engine that `lab setup` started, if it did."""


@engine.command("stop")
def engine_stop() -> None:
    """Stop it; an engine that was there before is left alone."""
    from lab.engine.install import stop_engine

    stop_engine(say)


@cli.group()
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


storage_option = click.option(
    "--storage", "storages", default="ext4,tmpfs,overlay", envvar="LAB_STORAGE", show_default=True, callback=_names
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


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.option("-v", "--verbose", is_flag=True, help="One line for each trial.")
def resume(run_id: str, verbose: bool) -> None:
    """Finish a run that was stopped or killed."""
    from lab.campaigns import running

    sys.exit(running.resume(run_id, say, running.progress_maker(Screen(), verbose, say)))


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.argument("trial", type=int)
@click.option("--times", default=1, show_default=True, type=click.IntRange(1, 1000))
@click.option("--keep", is_flag=True, help="Leave its containers and volume to look into.")
def replay(run_id: str, trial: int, times: int, keep: bool) -> None:
    """Run one trial of a stored run again; 0 if it ends as recorded."""
    from lab.campaigns import running

    sys.exit(running.replay(run_id, trial, times, keep, say))


@cli.command()
@click.argument("run_id", metavar="RUN")
def verify(run_id: str) -> None:
    """Judge again, without running a trial, what was kept whole of a run."""
    from lab.rejudge import rejudge

    sys.exit(rejudge(run_id, say))


@cli.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("trial", type=int, required=False)
def show(run_id: str | None, trial: int | None) -> None:
    """List the runs, or show one, or one of its trials."""
    from lab import views

    say(views.show(run_id, trial))


@cli.command()
@click.argument("run_id", metavar="RUN")
def report(run_id: str) -> None:
    """Write the reports of a run again: HTML, JUnit XML, Markdown, summary.json."""
    from lab import reports
    from lab.record import Record

    sys.exit(reports.finish(Record.find(run_id), say))


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.argument("other", metavar="[RUN]", required=False)
def compare(run_id: str, other: str | None) -> None:
    """Layers of a run side by side, or two runs."""
    from lab import views

    say(views.compare(run_id, other))


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
def merge(out: Path, run_ids: tuple[str, ...]) -> None:
    """Merge the shards of one exhaustive run into the run OUT and judge it as a whole."""
    from lab.merge import merge_shards

    sys.exit(merge_shards(out, run_ids, say))


@cli.command()
@click.argument("subject")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
def hooks(subject: str, seed: int) -> None:
    """The hook catalogue of a subject, with hits per workload for a seed."""
    from lab.campaigns import catalogue

    sys.exit(catalogue.print_hooks(subject, seed, say))


@cli.command()
@click.argument("subject")
@click.option("--json", "as_json", is_flag=True, help="With the property that must catch each.")
def bugs(subject: str, as_json: bool) -> None:
    """The planted bugs of a subject, a name a line."""
    from lab.subject import load

    found = load(subject).bugs
    if as_json:
        say(json.dumps([{"name": b.name, "property": b.property, "meaning": b.meaning} for b in found], indent=1))
    else:
        say("\n".join(bug.name for bug in found))


@cli.command()
def doctor() -> None:
    """Look at the engine: version, rights, each storage layer mounted once, space, images."""
    from lab.doctor import examine

    sys.exit(examine(say))


@cli.command()
def gc() -> None:
    """Remove what dead runs left on the engine, and only that."""
    from lab.engine.client import connect
    from lab.engine.gc import collect

    gone = [(found.run, len(found.containers), len(found.volumes)) for found in collect(connect(), kept_too=True)]
    for run_name, containers, volumes in gone:
        say(f"gc       {run_name}: {containers} containers, {volumes} volumes removed")
    if not gone:
        say("gc       nothing of a dead run is here")


@cli.command()
@click.option("--trials", default=40, show_default=True, type=click.IntRange(4, 10_000))
@click.option("--workers", default=4, envvar="LAB_WORKERS", show_default=True, type=click.IntRange(1, MAX_WORKERS))
@click.option("--json", "as_json", is_flag=True)
def bench(trials: int, workers: int, as_json: bool) -> None:
    """The lab's trial rate against the engine's own floor for as many container starts, in one run."""
    from lab.bench import measure

    measure(trials, workers, as_json, say)


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


def main() -> None:
    """The entry point. No traceback for anything that a person can mend."""
    sys.exit(_exit_code(_invoke))


def _invoke() -> None:
    # Not click's own main: it exits with 1, a broken promise, when the reader of a pipe goes away.
    with cli.make_context("lab", sys.argv[1:]) as context:
        cli.invoke(context)


def _exit_code(command: Callable[[], Any]) -> int:
    try:
        command()
    except LabError as error:
        print(f"{_kind(error):<8} {error}", file=sys.stderr)
        return error.exit_code
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        print(f"error    the Docker engine failed: {error}\n  `lab doctor` looks at it.", file=sys.stderr)
        return LabError.exit_code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        error.show()
        return USAGE_EXIT
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("stopped", file=sys.stderr)
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        # The reader has gone. What is still buffered must go somewhere, or the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED_EXIT
    except OSError as error:
        print(f"error    {error.strerror or error}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
        return LabError.exit_code
    except Exception:  # noqa: BLE001 - Python's own exit code would be 1, which says that a promise was broken
        traceback.print_exc()
        return LabError.exit_code
    return 0


def _kind(error: LabError) -> str:
    if isinstance(error, UsageError):
        return "usage"
    return "stopped" if isinstance(error, Interrupted) else "error"
