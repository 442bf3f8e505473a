"""Rotates in two transactions, and recovery leaves a parent that has no child closed."""

import rotation_in_two_transactions  # noqa: F401 - plants that bug as well: without it there is no orphan

from sessions import store

store.ORPHANS = "SELECT 1"
