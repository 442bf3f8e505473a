"""Families of operations that clients send to a daemon: what each role of one creates, needs and is sent again.

A family is one module here and one checker in images/system/checkers/models. A daemon's plan file maps its own
operations onto roles (docs/fuzz.md); nothing else in the lab knows an operation by name.
"""

from __future__ import annotations

from lab.models import effects, members, queue, register, service
from lab.models.role import Role

ROLES: dict[str, Role] = {
    f"{family}.{name}": role
    for family, module in (
        ("register", register),
        ("set", members),
        ("queue", queue),
        ("effects", effects),
        ("service", service),
    )
    for name, role in module.ROLES.items()
}
"""As a plan file names them: `register.write`."""
