"""What a storage layer is: a way to make a fresh Docker volume on one filesystem, and to know it again.

A layer talks to the engine and to the storage agent, never to a host path: the engine may be in a VM. How to add a
layer, and how xfs, btrfs and a power cut fit: docs/storage.md.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import docker
import docker.errors

from lab.engine.errors import ServiceFailed, StorageUnavailable
from lab.engine.removal import remove_volume
from lab.model import Json
from lab.storage import mountinfo

SIZE_BYTES = 64 * 1024 * 1024  # of a fresh filesystem, where it has a size


class Agent(Protocol):
    """The storage agent: one JSON answer to each JSON request."""

    def request(self, request: Mapping[str, object], timeout_s: float = ...) -> Json:
        """Raises ServiceFailed if it refuses, has ended, or says nothing in time."""


@dataclass(frozen=True)
class Site:
    """Where a layer works: one run's engine and agent, and who its volumes are for."""

    client: docker.DockerClient
    agent: Agent
    pool: str  # the Docker volume that the agent has at /pool
    labels: Mapping[str, str]  # of every volume
    uid: int  # the subject's user and group


@dataclass(frozen=True)
class Volume:
    """A fresh Docker volume and what its line of mountinfo must say."""

    name: str
    expected: mountinfo.Expected

    def audit(self, line: str) -> str | None:
        """None if `line`, read in a container that has the volume mounted, is this volume; else why it is not."""
        return mountinfo.audit(line, self.expected)


class StorageLayer(ABC):
    """One way to make fresh volumes. Not thread-safe in `prepare`; `fresh` and `destroy` are."""

    name: ClassVar[str]
    filesystem: ClassVar[str]  # the type in mountinfo
    fill: ClassVar[Literal["template", "archive"]]
    """How a fresh volume comes by the prepared state: "template", it has it; "archive", it is empty, exists only while
    a container holds it, and the trial has to put the archive into it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def probe(self) -> None:
        """Mount this layer once in the agent and write to it. Raises StorageUnavailable with the kernel's answer."""
        why = self.site.agent.request({"do": "probe", "layer": self.name})["why"]
        if why is not None:
            raise StorageUnavailable(self.name, why)

    @abstractmethod
    def prepare(self, tar: bytes) -> None:
        """Take the prepared state, an archive relative to the volume's root. While no volume of this layer exists."""

    @abstractmethod
    def fresh(self, name: str) -> Volume:
        """A Docker volume `name` in the prepared state (see `fill`). Leaves nothing if it fails.

        Raises StorageUnavailable or LabError.
        """

    def destroy(self, volume: Volume) -> None:
        """Remove the volume, which no container uses any more, and all that was made for it."""
        remove_volume(self.site.client, volume.name)

    def _create(self, name: str, options: Mapping[str, str], expected: mountinfo.Expected) -> Volume:
        """A volume that the engine mounts with these options; it does so when a container first starts on it."""
        try:
            self.site.client.volumes.create(
                name, driver="local", driver_opts=dict(options), labels=dict(self.site.labels)
            )
        except docker.errors.APIError as error:
            raise StorageUnavailable(self.name, f"the engine made no volume {name}: {error.explanation}") from error
        return Volume(name, expected)


class AgentLayer(StorageLayer):
    """A layer whose volumes the agent makes: each is a request `fresh`, a Docker volume, and a request `release`."""

    fill = "template"

    def fresh(self, name: str) -> Volume:
        try:
            made = self.site.agent.request({"do": "fresh", "layer": self.name, "name": name})
        except ServiceFailed as error:
            raise StorageUnavailable(self.name, str(error)) from error
        try:
            return self._mountable(name, made)
        except BaseException:
            self._release(name)
            raise

    def destroy(self, volume: Volume) -> None:
        super().destroy(volume)
        self._release(volume.name)

    @abstractmethod
    def _mountable(self, name: str, made: Json) -> Volume:
        """The Docker volume of what the agent has made."""

    def _hand_over(self, tar: bytes, **more: int) -> None:
        """Give the agent the prepared state."""
        owner = {"uid": self.site.uid, "gid": self.site.uid}
        content = base64.b64encode(tar).decode()
        self.site.agent.request({"do": "prepare", "layer": self.name, "tar": content, **owner, **more})

    def _release(self, name: str) -> None:
        self.site.agent.request({"do": "release", "layer": self.name, "name": name})
