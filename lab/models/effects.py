"""Effects on the outside world: each that was acknowledged happens exactly once."""

from lab.models.role import Role

ROLES = {"send": Role(creates=True, effect=True)}
