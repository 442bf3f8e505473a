"""`hermes run | recover | race`, by the contract of docs/cells.md.

Every process that is not a racer is a gateway: it claims its home and redelivers what a dead one left, as each start
of hermes-agent's gateway does. Its watcher of parked hand-offs first looks 5 s after the start and is not part of it:
a workload's own `claim` stands for it.
"""

import json
import os
import sqlite3
import sys

from driver import gateway, race
from driver.ops import NotOffered, Ops, expand
from driver.provider import Provider
from driver.records import Records
from driver.store import journal_mode, open_store, version

WON, LOST, USAGE, NOT_OFFERED = 0, 10, 64, 78
# hermes_state.py, apply_wal_with_fallback: WAL is always set; DELETE only where the filesystem refuses WAL.
MODES = ("default", "wal")


def main(arguments: list[str]) -> int:
    """One command; returns its exit code. What the store itself cannot do ends in its own exception: a crash."""
    commands = {"run": _run, "recover": _recover, "race": _race}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: hermes run | hermes recover | hermes race", file=sys.stderr)
        return USAGE
    workload = json.loads(os.environ["LAB_WORKLOAD"])
    try:
        return commands[arguments[0]](workload, Records(os.environ), Provider(os.environ.get("LAB_LEDGER", "")))
    except NotOffered as reason:
        print(f"hermes: not offered: {reason}", file=sys.stderr)
        return NOT_OFFERED
    except gateway.AnotherGateway as refused:
        print(f"hermes: {refused}", file=sys.stderr)
        return LOST


def _run(workload, records, provider):
    ops = _open(workload, records, provider)
    _boot(records, provider)
    for op in expand(workload["work"]):
        ops.do(op)
    return WON


def _recover(workload, records, provider):
    ops = _open(workload, records, provider)
    _boot(records, provider)
    records.reach("recovery.done")
    for op in expand(workload["resume"]):
        ops.do(op)
    return WON


def _race(workload, records, provider):
    """One racer. Its gateway, if it is one, boots only once it is released."""
    ops = _open(workload, records, provider)
    records.reach(race.READY)
    op = workload["race"]
    if "by" in op:
        op = {**op, "by": f"{op['by']}-{os.environ['LAB_RACER']}"}
    _, result = ops.do(op)
    return WON if result.get("won", result.get("sent", 1)) else LOST


def _open(workload, records, provider):
    mode = workload.get("journal_mode", "default")
    if mode not in MODES:
        raise NotOffered(f"journal mode {mode}: always ends in WAL (hermes_state.py, apply_wal_with_fallback)")
    store = open_store()
    records.opened(journal_mode=journal_mode(), sqlite=sqlite3.sqlite_version, store=version())
    return Ops(store, provider, records, workload)


def _boot(records, provider):
    gateway.claim_home()
    gateway.redeliver(provider, records)
