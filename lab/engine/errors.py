"""What can go wrong on the lab's side, as exceptions that already say what a person needs.

The command line turns each into one line and its exit code; nothing else is printed for them.
"""

from __future__ import annotations

import docker.errors
import requests

ENGINE_FAILURES = (docker.errors.DockerException, requests.exceptions.RequestException)  # as the SDK raises them


class LabError(Exception):
    """Something failed: on what, and what to do about it."""

    exit_code = 3  # of the command
    kind = "error"  # the first word of the command's line

    def __init__(self, what: str, todo: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.todo = todo

    def __str__(self) -> str:
        return f"{self.what}\n  {self.todo}" if self.todo else self.what


class UsageError(LabError):
    """The command, its options or a file of the user's are wrong."""

    exit_code = 64
    kind = "usage"


class EngineUnavailable(LabError):
    """No engine, no permission on its socket, or one that is too old."""


class ImageMissing(LabError):
    """An image is not there; nothing is ever pulled in its place."""


class ImageBuildFailed(LabError):
    """A Dockerfile did not build."""


class StorageUnavailable(LabError):
    """A storage layer that was asked for cannot be had on this engine."""

    def __init__(self, layer: str, why: str) -> None:
        super().__init__(f"storage layer {layer} cannot be had on this engine: {why}", "`lab doctor` tries each layer.")
        self.layer = layer


class ServiceFailed(LabError):
    """A service of the lab (storage agent, ledger, verifier) ended, said nothing in time, or refused."""


class DeadlinePassed(LabError):
    """A wait outlived its deadline; the message says what was waited for."""


class Interrupted(LabError):
    """The user asked to stop now."""

    exit_code = 130
    kind = "stopped"
