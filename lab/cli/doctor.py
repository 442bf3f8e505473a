"""Looks at what the lab stands on, and builds the images that are missing: `lab doctor` and `lab setup`."""

from __future__ import annotations

import uuid

import docker

import faults
from lab import storage
from lab.engine import images
from lab.engine.client import connect
from lab.engine.errors import LabError, StorageUnavailable
from lab.engine.host import Say
from lab.subject.load import SUBJECTS
from lab.trial.worker import Images, open_layers, open_services

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


def set_up(chosen_base: str | None, say: Say) -> None:
    """Build the images that `make lab-ci` needs. Raises LabError with what a person can do."""
    client = connect()
    say(f"engine   {_engine_line(client)}")
    images.ensure_folders(client, NEEDED, say, chosen_base=chosen_base)


def examine(say: Say) -> int:
    """Print what there is and each problem, one line each; 0 if everything a campaign needs is there, else 3."""
    client = connect()
    say(f"engine   {_engine_line(client)}")
    tags = images.ensure_folders(client, NEEDED, say)
    problems = 0
    run = f"doctor-{uuid.uuid4().hex[:6]}"
    with open_services(client, run, Images(tags["base"], tags["storage"], tags["ledger"])) as services:
        say("agent    storage agent and ledger start, answer and end")
        offered = []
        for name in storage.names():
            try:
                open_layers(services, (name,), UID)
            except StorageUnavailable as error:
                say(f"storage  {name}: PROBLEM: {error.what}")
                problems += 1
            else:
                say(f"storage  {name}: mounted, written and unmounted")
                offered.append(storage.find(name))
        free = int(services.agent.request({"do": "space"})["pool"])
    for name in faults.names():
        reasons = {layer.name: faults.find(name).available(layer) for layer in offered}
        say(f"fault    {name}: {', '.join(layer for layer, why in reasons.items() if why is None) or 'on no layer'}")
        for layer, why in reasons.items():
            if why is not None:
                say(f"fault    {name}: not on {layer}: {why}")
    low = free < LOW_SPACE_BYTES
    wanted = f": PROBLEM: a campaign wants {LOW_SPACE_BYTES >> 30} GiB; see `docker system df`" if low else ""
    say(f"space    {free / 1024**3:.1f} GiB free on the engine's disk{wanted}")
    problems += low
    say(f"doctor   {problems} problem{'s' if problems > 1 else ''} found" if problems else "doctor   OK")
    return LabError.exit_code if problems else 0


def _engine_line(client: docker.DockerClient) -> str:
    info, version = client.info(), client.version()
    return (
        f"Docker {version['Version']} (API {version['ApiVersion']}) · {info['OSType'].capitalize()} "
        f"{version['KernelVersion']} · {info['Architecture']} · {info['NCPU']} cores · {info['Driver']}"
    )
