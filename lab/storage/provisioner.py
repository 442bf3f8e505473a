"""Makes fresh Docker volumes of a storage layer, knows them again in a container, and removes them.

It talks to the engine and to the storage agent, never to a host path: the engine may be in a VM.
"""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import docker
import docker.errors

from lab.engine.errors import LabError, ServiceFailed, StorageUnavailable
from lab.engine.removal import discard_volume
from lab.engine.services import Service
from lab.model import Json
from lab.storage import mountinfo
from lab.storage.layers import Fill, Layer


@dataclass(frozen=True)
class Backend:
    """Where volumes are made: one run's engine and agent, and who the volumes are for."""

    client: docker.DockerClient
    agent: Service
    pool: str  # the Docker volume that the agent has at /pool
    labels: Mapping[str, str]  # of every volume
    uid: int  # the subject's user and group


@dataclass(frozen=True)
class Volume:
    """A fresh Docker volume and what its line of mountinfo must say."""

    name: str
    expected: mountinfo.Expected
    layer: Layer

    def audit(self, line: str) -> str | None:
        """None if `line`, read in a container that has the volume mounted, is this volume; else why it is not."""
        return mountinfo.audit(line, self.expected)


class Provisioner:
    """Makes the volumes of one layer. Not thread-safe in `prepare`; `fresh` and `destroy` are."""

    def __init__(self, layer: Layer, backend: Backend) -> None:
        self.layer = layer
        self.backend = backend
        self._lock = threading.Lock()
        self._stuck: list[Volume] = []  # whose removal failed

    @property
    def filesystem(self) -> str:
        return self.layer.filesystem

    @property
    def fill(self) -> Fill:
        return self.layer.fill

    def probe(self) -> None:
        """Mount this layer once in the agent and write to it. Raises StorageUnavailable with the kernel's answer."""
        why = self.backend.agent.request({"do": "probe", "recipe": self.layer.recipe(), **self._owner()})["why"]
        if why is not None:
            raise StorageUnavailable(self.layer.name, why)

    def prepare(self, tar: bytes) -> None:
        """Take the prepared state, an archive relative to the volume's root. While no volume of this layer exists."""
        if self.fill == "archive":
            return
        prepared = {"recipe": self.layer.recipe(), "tar": base64.b64encode(tar).decode(), **self._owner()}
        self.backend.agent.request({"do": "prepare", "layer": self.layer.name, **prepared})

    def fresh(self, name: str) -> Volume:
        """A Docker volume `name` in the prepared state (see `Layer.fill`). Leaves nothing if it fails.

        Raises StorageUnavailable or LabError.
        """
        if self.fill == "archive":
            return self._create(name, {})
        try:
            made = self.backend.agent.request({"do": "fresh", "layer": self.layer.name, "name": name})
        except ServiceFailed as error:
            raise StorageUnavailable(self.layer.name, str(error)) from error
        try:
            return self._create(name, made)
        except BaseException:
            self._release(name)
            raise

    def destroy(self, volume: Volume) -> None:
        """Remove the volume and all that was made for it. Does not raise.

        What is still in use is left for a later call, and at last for `gc.sweep`, at the run's end.
        """
        with self._lock:
            stuck, self._stuck = self._stuck, []
        left = [old for old in stuck if not self._destroyed(old, wait=False)]
        if not self._destroyed(volume, wait=True):
            left.append(volume)
        with self._lock:
            self._stuck += left

    def _destroyed(self, volume: Volume, *, wait: bool) -> bool:
        if not discard_volume(self.backend.client, volume.name, wait=wait):
            return False
        if self.fill == "template":
            with contextlib.suppress(LabError):  # what the agent cannot free now goes with it
                self._release(volume.name)
        return True

    def _create(self, name: str, made: Json) -> Volume:
        """The Docker volume of what the agent has made. The engine mounts it when a container first starts on it."""
        device = made.get("device", self.filesystem)
        options = self.layer.options(**self._owner(), **self._paths(made.get("folders", {})))
        expected = mountinfo.Expected(self.filesystem, made.get("device"), self.layer.audited_options(options))
        mount = {"type": self.filesystem, "device": device, **({"o": options} if options else {})}
        labels = dict(self.backend.labels)
        try:
            self.backend.client.volumes.create(name, driver="local", driver_opts=mount, labels=labels)
        except docker.errors.APIError as error:
            why = f"the engine made no volume {name}: {error.explanation}"
            raise StorageUnavailable(self.layer.name, why) from error
        return Volume(name, expected, self.layer)

    def _paths(self, folders: Mapping[str, str]) -> dict[str, str]:
        """Folders in the pool, as paths on the engine's machine: handed back to the engine, never opened here."""
        if not folders:
            return {}
        pool = self.backend.client.volumes.get(self.backend.pool).attrs["Mountpoint"]
        return {name: f"{pool}/{path}" for name, path in folders.items()}

    def _owner(self) -> dict[str, int]:
        return {"uid": self.backend.uid, "gid": self.backend.uid}

    def _release(self, name: str) -> None:
        self.backend.agent.request({"do": "release", "name": name})
