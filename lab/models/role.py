"""What an operation is in its family."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    """What a scenario generator has to know of an operation."""

    creates: bool = False  # each call is about a new thing, unless it is sent again
    needs: bool = False  # it speaks of a thing that was created before
    effect: bool = False  # it is seen outside, whose first confirmation may be lost
