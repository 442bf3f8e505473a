"""The `lab run` commands: one for each campaign that is registered, with the options that they share."""

from __future__ import annotations

import secrets
import shlex
import sys
from typing import Any

import click

from lab.campaigns import session
from lab.campaigns.base import CAMPAIGNS, Campaign, Request
from lab.cli.screen import Screen, say
from lab.report.progress import progress_for
from lab.storage import DEFAULT

MAX_WORKERS = 32


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise click.BadParameter("names at least one")
    return names


SUBJECT_HELP = "A built-in subject, or the path of a subject.toml."
WORKERS = click.Option(["--workers"], default=4, envvar="LAB_WORKERS", type=click.IntRange(1, MAX_WORKERS))
SHARED = (
    click.Option(
        ["--storage", "storages"],
        default=",".join(DEFAULT),
        envvar="LAB_STORAGE",
        callback=_names,
        help="Storage layers.",
    ),
    click.Option(
        ["--fault", "faults"],
        default="sigkill",
        envvar="LAB_FAULT",
        callback=_names,
        help="The plan runs once for each; `first>second` is one, with a fault for each crash point.",
    ),
    click.Option(["--seed"], envvar="LAB_SEED", type=click.IntRange(0), help="Repeats a run.  [default: drawn]"),
    WORKERS,
    click.Option(["--bug"], help="Run the subject with this planted bug; see `lab bugs`."),
    click.Option(
        ["--evidence"], type=click.Choice(["failed", "all"]), default="failed", help="Of which trials it is kept whole."
    ),
    click.Option(["-v", "--verbose"], is_flag=True, help="One line for each trial."),
)


class Campaigns(click.Group):
    """A command for each registered campaign, made when it is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(CAMPAIGNS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return _command(CAMPAIGNS[name]) if name in CAMPAIGNS else None


run = Campaigns("run", help="Run a campaign.")


def _command(campaign: Campaign) -> click.Command:
    subject = click.Option(["--subject"], default=campaign.subject, help=SUBJECT_HELP)

    def start(**given: Any) -> None:
        own = {option.name: given[option.name] for option in campaign.options if option.name}
        request = Request(
            campaign=campaign.name,
            subject=given["subject"],
            seed=_said_seed(given["seed"]),
            storages=given["storages"],
            workers=given["workers"],
            keep_evidence=given["evidence"] == "all",
            bug=given["bug"],
            faults=given["faults"],
            options=own,
        )
        sys.exit(session.run(request, say, progress_for(request.storages, Screen(), given["verbose"], say)))

    params: list[click.Parameter] = [subject, *campaign.options, *SHARED]
    return click.Command(campaign.name, callback=start, params=params, help=campaign.summary)


def _said_seed(seed: int | None) -> int:
    """The seed, which is said before anything else."""
    if seed is None:
        seed = secrets.randbelow(10**9)
    say(f"seed     {seed:<18} repeat this run: LAB_SEED={seed} {_this_command()}")
    return seed


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
