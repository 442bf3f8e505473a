"""A cold fold of the log, up to the LSN of the newest valid root, equals the tables on its pages, byte for byte.

And the pager's own rules: each root in its slot, sequences in a row, every page under the root by its parent's CRC.
"""

from __future__ import annotations

import json
from typing import Any

from verifier.finding import Check
from verifier.kernel.case import Case
from verifier.kernel.fold import Row, fold
from verifier.kernel.pages import TABLES, Root, Rows, read_root, read_tables
from verifier.kernel.records import canonical

TRUTH = "the tables are the fold of the log, nothing else"


def check(case: Case) -> Check:
    """At every look; from the recovery on, the root also stands at the end of the log."""
    check = Check()
    data = case.files.get("pages.db")
    if data is None:
        young = case.after_crash and len(case.scripts) == 1  # there was no prepared state
        if not young:
            check.holds(False, "pages.db", "a file with a valid root", "no such file", "it was committed once")
        return check
    root = _newest(check, data)
    if root is None:
        return check
    rows, pages, fault = read_tables(data, root)
    check.facts += pages
    if fault:
        check.holds(False, *fault)
        return check
    name = f"root {root.sequence} lsn"
    why = "pages are committed behind the log, never ahead of it"
    check.holds(root.lsn <= case.log.end, name, f"at most {case.log.end}", root.lsn, why)
    if not case.after_crash:
        check.same(name, case.log.end, root.lsn, "recovery and the end of a workload commit the pages")
    for table, found, expected in zip(TABLES, rows, fold(case.log.entries[: root.lsn]), strict=True):
        _table(check, table, expected, found)
    return check


def _newest(check: Check, data: bytes) -> Root | None:
    """The valid root of the highest sequence number."""
    slots = [read_root(data, 0), read_root(data, 1)]
    roots = sorted((r for r in slots if isinstance(r, Root)), key=lambda r: r.sequence)
    reasons = {f"slot {n}": s for n, s in enumerate(slots) if isinstance(s, str)}
    why = "pages.db gets its name only once its first root is durable, and a commit spares the newest root"
    if not check.holds(bool(roots), "pages.db root", "a valid root", reasons, why):
        return None
    for root in roots:
        why = "a root of sequence s lies in slot s mod 2, so that the newest is never overwritten"
        check.same(f"root {root.sequence} slot", root.sequence % 2, root.slot, why)
    if len(roots) == 2:
        why = "a commit takes the next sequence number and overwrites the older root"
        check.same("root sequence", roots[0].sequence + 1, roots[1].sequence, why)
    return roots[-1]


def _table(check: Check, table: str, expected: dict[str, Row], found: Rows) -> None:
    """Compare the rows of one table, in the order of their keys."""
    for key in sorted(expected.keys() | found.keys()):
        row, bytes_found = expected.get(key), found.get(key)
        if row is None or bytes_found is None:
            there = bytes_found.decode("ascii", "backslashreplace") if bytes_found is not None else None
            check.same(f"{table}[{key}]", row, there or "no row", TRUTH)
        elif canonical(row).encode("ascii") == bytes_found:
            check.facts += 1
        else:
            check.holds(False, *_first_field(f"{table}[{key}]", row, bytes_found), TRUTH)


def _first_field(fact: str, row: Row, found: bytes) -> tuple[str, Any, Any]:
    """Name the field that differs, if the bytes are a row at all."""
    text = found.decode("ascii", "backslashreplace")
    try:
        other = json.loads(found)
    except (ValueError, RecursionError):
        return fact, canonical(row), text
    if isinstance(other, dict):
        for name in sorted(row.keys() | other.keys()):
            if row.get(name) != other.get(name) or (name in row) != (name in other):
                return f"{fact}.{name}", row.get(name, "no field"), other.get(name, "no field")
    return fact, canonical(row), text
