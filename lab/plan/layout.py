"""Lays drawn crash points out as trials: one for each storage layer and each spelling of faults, side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lab.model import CrashPoint, CrashScript, Kind, Trial


@dataclass(frozen=True)
class Drawn:
    """What a plan has drawn: a script, and why."""

    script: CrashScript
    drawn: str  # as in Trial
    kind: Kind = Kind.POINT
    bug: str | None = None


def with_faults(points: Sequence[CrashPoint], spelled: str) -> tuple[CrashPoint, ...]:
    """Each point with its fault of `first>second`; the last fault is that of every further point."""
    faults = spelled.split(">")
    return tuple(replace(point, fault=faults[min(n, len(faults) - 1)]) for n, point in enumerate(points))


def laid_out(draws: Iterable[Drawn], storages: Sequence[str], faults: Sequence[str], start: int = 1) -> Iterator[Trial]:
    """The trials, numbered from `start`; a draw's own lie side by side, so that a stopped run has tried all alike."""
    ident = start
    for draw in draws:
        for spelled in faults:
            script = replace(draw.script, points=with_faults(draw.script.points, spelled))
            for storage in storages:
                yield Trial(ident, draw.kind, storage, script, draw.bug, draw.drawn, spelled)
                ident += 1
