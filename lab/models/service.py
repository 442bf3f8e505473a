"""What a daemon says of itself. Each has `status`: clients ask it until it is up, and in the end until it is idle."""

from lab.models.role import Role

ROLES = {"status": Role()}
