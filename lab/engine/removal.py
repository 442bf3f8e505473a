"""Removing things from the engine for good: what is gone already is gone, and what is still in use is tried again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import docker
import docker.errors

from lab.engine.errors import LabError

TIMEOUT_S = 20.0  # the engine says "in use" for a moment after a volume's last container has gone
POLL_S = 0.05
IN_USE = 409


def remove_container(client: docker.DockerClient, ident: str) -> None:
    """Kill and remove a container. Raises LabError if the engine still has it after TIMEOUT_S."""
    _until_gone(lambda: client.api.remove_container(ident, force=True, v=True), f"container {ident}")


def remove_volume(client: docker.DockerClient, name: str) -> None:
    """Remove a volume that no container needs any more. Raises LabError if it is still in use after TIMEOUT_S."""
    _until_gone(lambda: client.api.remove_volume(name, force=True), f"volume {name}")


def _until_gone(remove: Callable[[], None], what: str) -> None:
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with contextlib.suppress(docker.errors.NotFound):
                remove()
            return
        except docker.errors.APIError as error:
            if error.status_code != IN_USE or time.monotonic() > until:
                raise LabError(f"{what} cannot be removed: {error.explanation}") from error
        time.sleep(POLL_S)
