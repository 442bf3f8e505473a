"""Looks at what the lab stands on, and sets up what is missing. `lab setup` and `lab doctor`."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import docker

from lab.engine import images
from lab.engine.client import connect
from lab.engine.errors import LabError, StorageUnavailable
from lab.engine.install import ensure_engine
from lab.storage import names
from lab.subject.load import SUBJECTS
from lab.trial.worker import Images, open_layers, open_services

Say = Callable[[str], None]
LOW_SPACE_BYTES = 2 * 1024**3  # images and records of a campaign with all evidence fit in it
UID = 1000
# What `make lab-ci` runs. The other subjects' images are built by the command that first asks for one.
NEEDED = {
    "base": images.SYSTEM / "base",
    "ledger": images.SYSTEM / "ledger",
    "storage": images.SYSTEM / "storage",
    "kernel": SUBJECTS / "kernel",
    "kernel's checker": images.SYSTEM / "checkers" / "kernel",
    "sessions": SUBJECTS / "sessions",
    "sessions' checker": SUBJECTS / "sessions-verifier",
}


def set_up(say: Say) -> None:
    """Engine and images, as `make lab-ci` needs them. Raises LabError with what a person can do."""
    ensure_engine(say)
    client = connect()
    say(f"engine   {_engine_line(client)}")
    images.ensure_folders(client, NEEDED, say)


def examine(say: Say) -> int:
    """Print what there is, one line each; 0 if everything a campaign needs is there, else 3."""
    client = connect()
    say(f"engine   {_engine_line(client)}")
    tags = images.ensure_folders(client, NEEDED, say)
    bad = 0
    run = f"doctor-{uuid.uuid4().hex[:6]}"
    with open_services(client, run, Images(tags["base"], tags["storage"], tags["ledger"])) as services:
        say("agent    storage agent and ledger start, answer and end")
        for name in names():
            try:
                open_layers(services, (name,), UID)
                say(f"storage  {name}: mounted, written and unmounted")
            except StorageUnavailable as error:
                say(f"storage  {name}: NOT HERE: {error.what}")
                bad += 1
        free = int(services.agent.request({"do": "space"})["pool"])
    say(f"space    {free / 1024**3:.1f} GiB free on the engine's disk")
    if free < LOW_SPACE_BYTES:
        say(f"space    LOW: a campaign wants {LOW_SPACE_BYTES >> 30} GiB; see `docker system df`")
        bad += 1
    say("doctor   OK" if not bad else f"doctor   {bad} problem{'s' if bad > 1 else ''} found")
    return 0 if not bad else LabError.exit_code


def _engine_line(client: docker.DockerClient) -> str:
    info, version = client.info(), client.version()
    return (
        f"Docker {version['Version']} (API {version['ApiVersion']}) · {info['OSType'].capitalize()} "
        f"{version['KernelVersion']} · {info['Architecture']} · {info['NCPU']} cores · {info['Driver']}"
    )
