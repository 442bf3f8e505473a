"""What a fault is: one thing that can happen to a subject at a crash point, and what it may act on.

A fault knows storage and engine; what a trial or a campaign is, it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from lab.storage import Layer, Volume


class Process(Protocol):
    """The subject's process, which stands at its crash point."""

    def kill(self) -> None:
        """Send SIGKILL, once."""

    def wait_until_gone(self) -> None:
        """Return once it is really gone, with all its output read. Raises if it outlives its deadline."""


class Holder(Protocol):
    """Another container that has the volume mounted: the verifier, which reads it."""

    def let_go(self) -> None:
        """Stop using the volume, so that the engine unmounts it. What the holder knows, it keeps."""

    def take_again(self) -> None:
        """Use the volume as before."""


@dataclass(frozen=True)
class Site:
    """Where a fault strikes."""

    process: Process
    volume: Volume  # with its layer
    holders: Sequence[Holder] = ()  # of the volume, apart from the process


class Fault(Protocol):
    """A fault. `loses_page_cache` says whether what was written but not synced may be lost, too."""

    name: ClassVar[str]
    loses_page_cache: ClassVar[bool]

    def available(self, layer: Layer) -> str | None:
        """None if it can strike on this layer; else why not, for a person."""

    def strike(self, site: Site) -> None:
        """Do it, and return once it has really happened: the process is gone, and the volume can be mounted again."""
