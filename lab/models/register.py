"""A register: written and read; what was acknowledged last is there."""

from lab.models.role import Role

ROLES = {"write": Role(needs=True), "read": Role(needs=True)}
