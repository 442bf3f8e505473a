"""What a fault is: one thing that can happen to a subject at its crash point. One module per fault, found by name."""

from __future__ import annotations

from typing import ClassVar, Protocol


class Target(Protocol):
    """The subject's process, standing at its hook, as a fault may treat it."""

    def kill(self) -> None:
        """Send SIGKILL, once."""

    def wait_until_gone(self) -> None:
        """Wait until the process is really gone. Raises if it outlives its deadline."""


class Fault(Protocol):
    """A fault. `loses_page_cache` says whether what was written but not synced may be lost, too."""

    name: ClassVar[str]
    loses_page_cache: ClassVar[bool]

    def strike(self, target: Target) -> None:
        """Do it, and return once it has really happened."""
