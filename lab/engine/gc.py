"""Removes what dead runs left on the engine, and only that: containers and volumes that carry the lab's label.

A run here is one session of a lab: a run that is resumed or replayed has several, each with a label of its own. A
session is alive while its storage agent runs, for the agent ends with the lab that started it, on a remote engine too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import docker

from lab.engine.errors import ENGINE_FAILURES, LabError
from lab.engine.removal import remove_container, remove_volume
from lab.engine.services import LABEL_KEPT, LABEL_ROLE, LABEL_RUN, pool_volume

STARTING_S = 60  # an agent that was created and does not run yet may just be starting
DYING_S = 5.0  # for the agent of a lab that has just been killed to end: some ms, more on a busy machine
POLL_S = 0.1


@dataclass
class Remains:
    """What there is of one run."""

    run: str
    containers: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)  # what could not be removed, and why

    @property
    def kept(self) -> bool:
        return any(LABEL_KEPT in thing["Labels"] for thing in (*self.containers, *self.volumes))

    def alive(self, now_s: float) -> bool:
        agents = [c for c in self.containers if c["Labels"].get(LABEL_ROLE) == "agent"]
        if any(agent["State"] == "running" for agent in agents):
            return True
        ages = [now_s - agent["Created"] for agent in agents if agent["State"] == "created"]
        if not self.containers and [volume["Name"] for volume in self.volumes] == [pool_volume(self.run)]:
            # The engine makes it a moment before it lists the agent's container.
            return now_s - _seconds(self.volumes[0]["CreatedAt"]) < DYING_S
        return any(age < STARTING_S for age in ages)

    def remove(self, client: docker.DockerClient) -> None:
        """Remove all of it; what cannot be is in `stuck`."""
        # The agent goes last: until then nobody else takes this run for dead and removes the same things.
        for container in sorted(self.containers, key=lambda c: c["Labels"].get(LABEL_ROLE) == "agent"):
            self._try(remove_container, client, container["Id"])
        for volume in self.volumes:
            self._try(remove_volume, client, volume["Name"])

    def _try(self, remove: Callable[[docker.DockerClient, str], None], client: docker.DockerClient, name: str) -> None:
        try:
            remove(client, name)
        except LabError as error:
            self.stuck.append(error.what)


def remains(client: docker.DockerClient) -> list[Remains]:
    """Everything on the engine that carries the lab's label, by run."""
    by_run: dict[str, Remains] = {}
    # Volumes first: of a run that starts meanwhile, an agent without volumes is seen then, never the reverse.
    for volume in client.api.volumes(filters={"label": LABEL_RUN})["Volumes"] or []:
        run = volume["Labels"][LABEL_RUN]
        by_run.setdefault(run, Remains(run)).volumes.append(volume)
    for container in client.api.containers(all=True, filters={"label": LABEL_RUN}):
        run = container["Labels"][LABEL_RUN]
        by_run.setdefault(run, Remains(run)).containers.append(container)
    return sorted(by_run.values(), key=lambda r: r.run)


def collect(client: docker.DockerClient, *, kept_too: bool, dead_run: str | None = None) -> Iterator[Remains]:
    """Remove what dead runs left and yield each as it is gone; what a person asked to keep only if `kept_too`.

    `dead_run` is a run that the caller knows to be dead, for it holds its record. Its later sessions may yet live: a
    replay takes no lock.

    Where a person (`kept_too`) or a run (`dead_run`) waits for the remains of a lab that may just have been killed,
    what seems to live is looked at again, for DYING_S at most.
    """
    until = time.monotonic() + DYING_S
    gone: set[str] = set()
    while True:
        now_s = _seconds(client.info()["SystemTime"])  # the engine's own clock: it may be on another machine
        maybe_dying = False
        for found in remains(client):
            if found.run in gone or (found.kept and not kept_too):
                continue
            if found.run == dead_run or not found.alive(now_s):
                gone.add(found.run)
                found.remove(client)
                yield found
            elif dead_run is not None:
                maybe_dying |= found.run.startswith(f"{dead_run}-")
            else:
                maybe_dying |= kept_too
        if not maybe_dying or time.monotonic() > until:
            return
        time.sleep(POLL_S)


def sweep(client: docker.DockerClient, run: str) -> Remains:
    """Remove what the trials of our own run could not, once its services have ended; its `stuck` is for `lab gc`.

    Does not raise. What a person asked to keep is left.
    """
    left = Remains(run)
    try:
        for found in remains(client):
            if found.run == run and not found.kept:
                found.remove(client)
                left = found
    except ENGINE_FAILURES as error:
        left.stuck.append(f"the engine does not answer: {error}")
    return left


def _seconds(text: str) -> float:
    """RFC 3339 with up to nine decimals, as Go writes it, cut to whole seconds."""
    moment = datetime.fromisoformat(text).replace(microsecond=0)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
