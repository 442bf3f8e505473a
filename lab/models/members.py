"""A set: what was added is a member until it is removed."""

from lab.models.role import Role

ROLES = {"add": Role(creates=True), "remove": Role(needs=True), "read": Role()}
