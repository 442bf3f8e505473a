"""Families of operations that clients send to a daemon: what each role of one creates, needs and is sent again.

A family is here, or is added by `add_family`, and has one checker in images/system/checkers/models. A daemon's plan
file maps its own operations onto roles (docs/fuzz.md); nothing else in the lab knows an operation by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    """What a scenario generator has to know of an operation."""

    creates: bool = False  # each call is about a new thing, unless it is sent again
    needs: bool = False  # it speaks of a thing that was created before
    effect: bool = False  # it is seen outside, whose first confirmation may be lost


ROLES: dict[str, Role] = {}
"""As a plan file names them: `register.write`."""


def add_family(family: str, roles: Mapping[str, Role]) -> None:
    """Make the roles of a family known. Raises ValueError if there is one of that name."""
    if any(known.partition(".")[0] == family for known in ROLES):
        raise ValueError(f"there is a family {family!r} already")
    ROLES.update({f"{family}.{name}": role for name, role in roles.items()})


# A register: what was acknowledged last is there.
add_family("register", {"write": Role(needs=True), "read": Role(needs=True)})
# A set: what was added is a member until it is removed.
add_family("set", {"add": Role(creates=True), "remove": Role(needs=True), "read": Role()})
# A queue whose items are worked off once each, or removed while they wait.
add_family("queue", {"send": Role(creates=True), "remove": Role(needs=True), "read": Role()})
# Effects on the outside world: each that was acknowledged happens exactly once.
add_family("effects", {"send": Role(creates=True, effect=True)})
# What a daemon says of itself: clients ask it until it is up, and in the end until it is idle.
add_family("service", {"status": Role()})
