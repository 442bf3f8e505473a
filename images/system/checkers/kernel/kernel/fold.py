"""The verifier's own fold: records into the rows of the four tables, as the format defines them.

Folds also what is illegal (that is another property's matter): every record goes to the row it names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from verifier.kernel.records import Attempt, Cursor, Entry, Intent

Row = dict[str, Any]


class Tables(NamedTuple):
    """Rows by key, in the order of the tables' numbers."""

    attempts: dict[str, Row]
    intents: dict[str, Row]
    effects: dict[str, Row]
    cursor: dict[str, Row]


def fold(entries: Iterable[Entry]) -> Tables:
    """The tables after these records, which begin at LSN 1."""
    tables = Tables({}, {}, {}, {})
    for entry in entries:
        record = entry.record
        if isinstance(record, Attempt):
            _attempt(tables, entry.lsn, record)
        elif isinstance(record, Intent):
            _intent(tables, entry.lsn, record)
        elif isinstance(record, Cursor):
            row = {"try": record.attempt, "step": record.step, "clock": record.clock, "lsn": entry.lsn}
            tables.cursor[str(record.task)] = row
    return tables


def _attempt(tables: Tables, lsn: int, record: Attempt) -> None:
    row = {"task": record.task, "try": record.attempt, "state": record.after, "lsn": lsn}
    tables.attempts[f"{record.task}/{record.attempt}"] = row
    if record.after == "created":
        tables.cursor[str(record.task)] = {"try": record.attempt, "step": 0, "clock": 0, "lsn": lsn}


def _intent(tables: Tables, lsn: int, record: Intent) -> None:
    if record.born is not None:
        tables.intents[record.effect] = {**record.born, "token": None}
    row = tables.intents.setdefault(record.effect, {"token": None})
    row["state"], row["lsn"] = record.after, lsn
    if record.after == "dispatched":
        row["token"] = lsn
    if record.after == "applied":
        tables.effects[record.effect] = {"receipt": record.receipt, "lsn": lsn}
