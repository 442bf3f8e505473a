"""Replays the log into three of the four tables."""

from kernel import store
from kernel.tables import EFFECTS

_replay_into = store.replay_into


def replay_into(tables, records):
    before = dict(tables.rows[EFFECTS])
    _replay_into(tables, records)
    tables.rows[EFFECTS].clear()
    tables.rows[EFFECTS].update(before)
    tables.changed[EFFECTS].clear()


store.replay_into = replay_into
