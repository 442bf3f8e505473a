"""Removes things from the engine: what is gone already is gone, and what is still in use is tried again.

A trial discards: it never fails because something of it is still in use. What it leaves carries its run's label, and
is removed at the run's end (`lab.engine.gc.sweep`) or by `lab gc`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import docker
import docker.errors

from lab.engine.errors import ENGINE_FAILURES, LabError

TIMEOUT_S = 20.0  # the engine says "in use" for a moment after a volume's last container has gone
DISCARD_S = 5.0  # in a trial, whose worker waits
POLL_S = 0.05
IN_USE = 409


def remove_container(client: docker.DockerClient, ident: str, timeout_s: float = TIMEOUT_S) -> None:
    """Kill and remove a container. Raises LabError if the engine still has it after `timeout_s`."""
    _until_gone(lambda: client.api.remove_container(ident, force=True, v=True), f"container {ident}", timeout_s)


def remove_volume(client: docker.DockerClient, name: str, timeout_s: float = TIMEOUT_S) -> None:
    """Remove a volume that no container needs any more. Raises LabError if it is still in use after `timeout_s`."""
    _until_gone(lambda: client.api.remove_volume(name, force=True), f"volume {name}", timeout_s)


def discard_container(client: docker.DockerClient, ident: str) -> bool:
    """Kill and remove a container; False if that has failed. Does not raise."""
    return _discarded(lambda: remove_container(client, ident, DISCARD_S))


def discard_volume(client: docker.DockerClient, name: str, *, wait: bool = True) -> bool:
    """Remove a volume; False if that has failed, with `wait` for as long as DISCARD_S. Does not raise."""
    return _discarded(lambda: remove_volume(client, name, DISCARD_S if wait else 0.0))


def _discarded(remove: Callable[[], None]) -> bool:
    try:
        remove()
    except (LabError, *ENGINE_FAILURES):
        return False  # an engine that is lost fails the next call that matters, with a better message
    return True


def _until_gone(remove: Callable[[], None], what: str, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while True:
        try:
            with contextlib.suppress(docker.errors.NotFound):
                remove()
            return
        except docker.errors.APIError as error:
            if error.status_code != IN_USE or time.monotonic() > until:
                raise LabError(f"{what} cannot be removed: {error.explanation}") from error
        time.sleep(POLL_S)
