"""`hermes-gateway run | recover | race`, by the contract of docs/cells.md.

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
        print("usage: hermes-gateway run | recover | race", file=sys.stderr)
        return USAGE
    try:
        return commands[arguments[0]](json.loads(os.environ["LAB_WORKLOAD"]), Records(os.environ))
    except NotOffered as reason:
        print(f"hermes: not offered: {reason}", file=sys.stderr)
        return NOT_OFFERED
    except gateway.AnotherGateway as refused:
        print(f"hermes: {refused}", file=sys.stderr)
        return LOST


def _run(workload, records):
    ops = _boot(workload, records)
    for op in expand(workload["work"]):
        ops.do(op)
    return WON


def _recover(workload, records):
    ops = _boot(workload, records)
    records.reach("recovery.done")
    for op in expand(workload["resume"]):
        ops.do(op)
    return WON


def _race(workload, records):
    """One racer. Its gateway, if it is one, boots only once it is released."""
    ops = _open(workload, records)
    records.reach(race.READY)
    return _do_as(int(os.environ["LAB_RACER"]), ops, workload["race"])


def _boot(workload, records):
    ops = _open(workload, records)
    gateway.claim_home()
    gateway.redeliver(ops.provider, records)
    return ops


def _open(workload, records):
    mode = workload.get("journal_mode", "default")
    if mode not in MODES:
        raise NotOffered(f"journal mode {mode}: always ends in WAL (hermes_state.py, apply_wal_with_fallback)")
    races = any(
        op and op["op"] == "race_processes" for op in (*workload["work"], *workload["resume"], workload["race"])
    )
    fork_server = race.ForkServer(lambda number: _forked(workload, number)) if races else None
    store = open_store()
    records.opened(journal_mode=journal_mode(), sqlite=sqlite3.sqlite_version, store=version())
    return Ops(store, Provider(os.environ.get("LAB_LEDGER", "")), records, workload, fork_server)


def _forked(workload, number):
    """A racer in a process of its own; its history is not that of the process that the lab started."""
    silent = Records({})
    ops = Ops(open_store(), Provider(os.environ.get("LAB_LEDGER", "")), silent, workload, None)
    return lambda op: _do_as(number, ops, op)


def _do_as(number, ops, op):
    if "by" in op:
        op = {**op, "by": f"{op['by']}-{number}"}
    _, result = ops.do(op)
    return WON if result.get("won", result.get("sent", 1)) else LOST
