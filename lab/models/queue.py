"""A queue whose items are worked off once each, or removed while they wait."""

from lab.models.role import Role

ROLES = {"send": Role(creates=True), "remove": Role(needs=True), "read": Role()}
