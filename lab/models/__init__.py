"""Families of operations that clients send to a daemon: what each role of one creates, needs and is sent again.

A family is one module here, or is added by `add_family`, and one checker in images/system/checkers/models. A daemon's
plan file maps its own operations onto roles (docs/fuzz.md); nothing else in the lab knows an operation by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.models import effects, members, queue, register, service
from lab.models.role import Role

__all__ = ["ROLES", "Role", "add_family"]

ROLES: dict[str, Role] = {}
"""As a plan file names them: `register.write`."""


def add_family(family: str, roles: Mapping[str, Role]) -> None:
    """Make the roles of a family known. Raises ValueError if there is one of that name."""
    if any(known.partition(".")[0] == family for known in ROLES):
        raise ValueError(f"there is a family {family!r} already")
    ROLES.update({f"{family}.{name}": role for name, role in roles.items()})


add_family("register", register.ROLES)
add_family("set", members.ROLES)
add_family("queue", queue.ROLES)
add_family("effects", effects.ROLES)
add_family("service", service.ROLES)
