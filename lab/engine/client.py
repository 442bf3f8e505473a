"""The connection to the Docker engine: the only place that opens one.

The engine is found as the `docker` command finds it: DOCKER_HOST, then the current context, then the default socket.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import docker

from lab.engine.errors import ENGINE_FAILURES, EngineUnavailable

CALL_TIMEOUT_S = 120  # one API call; the longest is an image build's silent step
MIN_API = (1, 41)  # Docker 20.10, the oldest that is tested


def connect() -> docker.DockerClient:
    """A client of the engine, which has answered. Raises EngineUnavailable with what a person can do."""
    try:
        client = docker.from_env(timeout=CALL_TIMEOUT_S, version="auto", max_pool_size=32)
    except (*ENGINE_FAILURES, ValueError) as error:
        raise EngineUnavailable(*_diagnose(str(error))) from error
    version = client.api.api_version
    if tuple(int(part) for part in version.split(".")) < MIN_API:
        raise EngineUnavailable(
            f"the Docker engine speaks API {version}; the lab needs {MIN_API[0]}.{MIN_API[1]} or newer",
            "Update it to Docker 20.10 or newer.",
        )
    if other := _other_engine(client.version()):
        raise EngineUnavailable(
            f"the engine at {_where()} is {other}, which the lab does not support; it needs Docker itself"
        )
    return client


def _other_engine(version: Mapping[str, Any]) -> str | None:
    """The name and version of an engine that speaks Docker's API and is none, by its own version answer."""
    parts = [(str(part.get("Name")), str(part.get("Version"))) for part in version.get("Components") or ()]
    parts.append((str((version.get("Platform") or {}).get("Name")), str(version.get("Version"))))
    return next((f"Podman {number}" for name, number in parts if "podman" in name.lower()), None)


def _where() -> str:
    return os.environ.get("DOCKER_HOST", "the default socket")


def _diagnose(error: str) -> tuple[str, str]:
    """What failed and what to do, from the SDK's nested message."""
    where = _where()
    if "Permission denied" in error or "EACCES" in error:
        return (
            f"no permission on the Docker engine's socket ({where})",
            "Add yourself to the group `docker` and log in again, or run as root.",
        )
    if "too old" in error or "too new" in error:
        return f"the Docker engine at {where} and this client do not agree on a version: {error}", "Update the engine."
    return (
        f"no Docker engine answers at {where}",
        "Start it (Docker Desktop, or `systemctl start docker`), or run `make setup` as root on a Debian machine.",
    )
