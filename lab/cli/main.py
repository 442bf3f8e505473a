"""The command line: reads options, calls one function, turns what goes wrong into one line and an exit code.

0 all passed · 1 a promise was broken · 2 not enough evidence · 3 the lab or the engine failed · 64 bad usage ·
130 interrupted
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lab.campaigns import session
from lab.campaigns.bench import measure
from lab.campaigns.hooks import print_hooks
from lab.campaigns.replay import replay_script, replay_trial
from lab.cli import show as views
from lab.cli.doctor import examine, set_up
from lab.cli.run import WORKERS, run
from lab.cli.screen import Screen, complain, say
from lab.engine.client import connect
from lab.engine.errors import ENGINE_FAILURES, Interrupted, LabError, UsageError
from lab.engine.gc import collect
from lab.report.progress import progress_for
from lab.run.merge import merge_shards
from lab.run.record import Record
from lab.run.rejudge import rejudge
from lab.subject.load import load

newest_run = click.argument("run_id", metavar="[RUN]", default="latest")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
def cli() -> None:
    """Proves that a program keeps its promises when it dies: real containers, real SIGKILL, real filesystems."""


@cli.command()
@click.option("--base", envvar="LAB_BASE", help="What the lab's base image is built FROM.  [default: a pinned Debian]")
def setup(base: str | None) -> None:
    """Build the images that are not up to date."""
    set_up(base, say)


cli.add_command(run)


@cli.command()
@newest_run
@click.option("-v", "--verbose", is_flag=True, help="One line for each trial.")
def resume(run_id: str, verbose: bool) -> None:
    """Finish a run that was stopped or killed; without RUN the newest."""
    record = Record.find(run_id)
    sys.exit(session.resume(record, say, progress_for(record.header().storages, Screen(), verbose, say)))


@cli.command()
@click.argument("run_id", metavar="RUN|SCRIPT")
@click.argument("trial", type=int, required=False)
@click.option("--times", default=1, type=click.IntRange(1, 1000))
@click.option("--keep", is_flag=True, help="Leave its containers and volume to look into.")
def replay(run_id: str, trial: int | None, times: int, keep: bool) -> None:
    """Run one trial of a stored run again, or a script that a fuzz run has made; 0 if it ends as recorded."""
    if trial is not None:
        sys.exit(replay_trial(Record.find(run_id), trial, times, keep, say))
    script = Path(run_id)
    if keep:
        raise UsageError(
            "--keep is for a trial of a run", "`lab replay RUN TRIAL --keep`; a reproducer leaves nothing."
        )
    if not script.is_file():
        raise UsageError(f"which trial of {run_id}?", "`lab replay RUN TRIAL`, or `lab replay SCRIPT` of a fuzz run.")
    sys.exit(replay_script(script, times, say))


@cli.command()
@newest_run
def verify(run_id: str) -> None:
    """Judge again, without running a trial, what was kept whole of a run; without RUN the newest."""
    sys.exit(rejudge(run_id, say))


@cli.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("trial", type=int, required=False)
@click.option("--all", "everything", is_flag=True, help="Every trial of the run, and what it stood on.")
def show(run_id: str | None, trial: int | None, everything: bool) -> None:
    """List the runs, or show one, or one of its trials."""
    say(views.show(run_id, trial, everything=everything))


@cli.command()
@newest_run
def report(run_id: str) -> None:
    """Write the reports of a run again, without RUN the newest: HTML, JUnit XML, Markdown, summary.json."""
    sys.exit(session.finish(Record.find(run_id), say))


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.argument("other", metavar="[RUN]", required=False)
def compare(run_id: str, other: str | None) -> None:
    """Layers of a run side by side, or two runs."""
    say(views.compare(run_id, other))


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
def merge(out: Path, run_ids: tuple[str, ...]) -> None:
    """Merge the shards of one exhaustive run into the run OUT and judge it as a whole."""
    sys.exit(session.finish(merge_shards(out, run_ids, say), say))


@cli.command()
@click.argument("subject")
@click.option("--seed", default=1, type=click.IntRange(0))
def hooks(subject: str, seed: int) -> None:
    """The hook catalogue of a subject, with hits per workload for a seed."""
    sys.exit(print_hooks(subject, seed, say))


@cli.command()
@click.argument("subject")
@click.option("--json", "as_json", is_flag=True, help="With the property that must catch each.")
def bugs(subject: str, as_json: bool) -> None:
    """The planted bugs of a subject, a name a line."""
    found = load(subject).bugs
    if as_json:
        say(json.dumps([{"name": b.name, "property": b.property, "meaning": b.meaning} for b in found], indent=1))
    else:
        say("\n".join(bug.name for bug in found))


@cli.command()
def doctor() -> None:
    """Look at the engine: version, rights, each storage layer mounted once, space, images."""
    sys.exit(examine(say))


@cli.command()
def gc() -> None:
    """Remove what dead runs left on the engine, and only that."""
    gone = collect(connect(), kept_too=True)
    for found in gone:
        say(f"gc       {found.run}: {len(found.containers)} containers, {len(found.volumes)} volumes removed")
        for why in found.stuck:
            say(f"gc       {found.run}: {why}")
    if not gone:
        say("gc       nothing to remove")
    if any(found.stuck for found in gone):
        sys.exit(LabError.exit_code)


@cli.command()
@click.option("--trials", default=40, type=click.IntRange(4, 10_000))
@click.option("--json", "as_json", is_flag=True)
def bench(trials: int, workers: int, as_json: bool) -> None:
    """The lab's trial rate against the engine's own floor for as many container starts, in one run."""
    measure(trials, workers, as_json, say)


bench.params.append(WORKERS)


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
        return _failed(type(error), str(error))
    except ENGINE_FAILURES as error:
        return _failed(LabError, f"the Docker engine failed: {error}\n`lab doctor` looks at it.")
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        usage = error.ctx.get_usage() if isinstance(error, click.UsageError) and error.ctx is not None else ""
        return _failed(UsageError, "\n".join(filter(None, (error.format_message(), usage))))
    except (KeyboardInterrupt, click.Abort):
        return _failed(Interrupted, "")
    except BrokenPipeError:
        # The reader has gone. What is still buffered must go somewhere, or the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Interrupted.exit_code
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _failed(LabError, f"{error.strerror or error}{where}")
    except Exception:  # noqa: BLE001 - Python's own exit code would be 1, which says that a promise was broken
        complain(traceback.format_exc())
        return LabError.exit_code
    return 0


def _failed(error: type[LabError], what: str) -> int:
    """Say what went wrong, in a line that begins with its kind; more are indented, so that none passes for our own."""
    first, *more = what.split("\n")
    complain("\n".join([f"{error.kind:<8} {first}".rstrip(), *(f"  {line.strip()}" for line in more)]))
    return error.exit_code
