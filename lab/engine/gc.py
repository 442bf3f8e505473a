"""Removes what dead runs left on the engine, and only that: containers and volumes that carry the lab's label.

A run is alive while its storage agent runs, for the agent ends with the lab that started it, on a remote engine too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import docker

from lab.engine.removal import remove_container, remove_volume
from lab.engine.services import LABEL_KEPT, LABEL_ROLE, LABEL_RUN

STARTING_S = 60  # a run that has a volume or a created agent but none that runs yet may just be starting


@dataclass
class Remains:
    """What there is of one run."""

    run: str
    containers: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        return any(LABEL_KEPT in thing["Labels"] for thing in (*self.containers, *self.volumes))

    def alive(self, now_s: float) -> bool:
        agents = [c for c in self.containers if c["Labels"].get(LABEL_ROLE) == "agent"]
        if any(agent["State"] == "running" for agent in agents):
            return True
        ages = [now_s - agent["Created"] for agent in agents if agent["State"] == "created"]
        if not self.containers:
            ages += [now_s - _created_s(volume) for volume in self.volumes]
        return any(age < STARTING_S for age in ages)


def remains(client: docker.DockerClient) -> list[Remains]:
    """Everything on the engine that carries the lab's label, by run."""
    by_run: dict[str, Remains] = {}
    for container in client.api.containers(all=True, filters={"label": LABEL_RUN}):
        run = container["Labels"][LABEL_RUN]
        by_run.setdefault(run, Remains(run)).containers.append(container)
    for volume in client.api.volumes(filters={"label": LABEL_RUN})["Volumes"] or []:
        run = volume["Labels"][LABEL_RUN]
        by_run.setdefault(run, Remains(run)).volumes.append(volume)
    return sorted(by_run.values(), key=lambda r: r.run)


def collect(client: docker.DockerClient, *, kept_too: bool, dead_run: str | None = None) -> Iterator[Remains]:
    """Remove what dead runs left and yield each as it is gone; what a person asked to keep only if `kept_too`.

    `dead_run` is a run that the caller knows to be dead, for it holds its record: all of its sessions are taken, too.
    """
    now_s = _engine_time_s(client)
    for found in remains(client):
        if found.kept and not kept_too:
            continue
        known_dead = dead_run is not None and (found.run == dead_run or found.run.startswith(f"{dead_run}-"))
        if known_dead or not found.alive(now_s):
            _remove(client, found)
            yield found


def _remove(client: docker.DockerClient, found: Remains) -> None:
    # The agent goes last: until then nobody else takes this run for dead and removes the same things.
    for container in sorted(found.containers, key=lambda c: c["Labels"].get(LABEL_ROLE) == "agent"):
        remove_container(client, container["Id"])
    for volume in found.volumes:
        remove_volume(client, volume["Name"])


def _engine_time_s(client: docker.DockerClient) -> float:
    """The engine's own clock: it may be on another machine."""
    return _seconds(client.info()["SystemTime"])


def _created_s(volume: dict[str, Any]) -> float:
    return _seconds(volume["CreatedAt"])


def _seconds(text: str) -> float:
    """RFC 3339 with up to nine decimals, as Go writes it."""
    head, _, rest = text.partition(".")
    zone = rest.lstrip("0123456789") if rest else ""
    moment = datetime.fromisoformat((head + zone).replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
