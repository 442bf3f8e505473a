"""The journal mode on disk is the one that the workload asked for: else this leg says nothing about that mode.

Not a cell. A difference here makes a trial `invalid`, whatever else was seen in it.
"""

from __future__ import annotations

from verifier.cells.case import Case
from verifier.finding import Check

DEFAULT = "default"
WAL_VERSION = (2, 2)  # bytes 18 and 19 of a database: its write and read version
ROLLBACK_VERSION = (1, 1)
MODES = ("delete", "wal", "truncate", "persist", "memory", "off")
ZEROED = bytes(8)  # where a journal that PERSIST keeps had its magic number


def check(case: Case) -> Check:
    """At every look, once the store has said that it is open."""
    check = Check()
    asked = case.workload["journal_mode"]
    told = [event["journal_mode"].lower() for event in case.story.opened]
    if not told:
        return check
    mode = told[0] if asked == DEFAULT else asked
    if mode not in MODES:
        raise ValueError(f"there is no journal mode {mode!r}; there are: {', '.join(MODES)}")
    for event, said in zip(case.story.opened, told, strict=True):
        why = "what the driver found when it had opened the store"
        check.same(f"process {event['process']} journal_mode", mode, said, why)
    _header(case, check, mode)
    _files(case, check, mode)
    return check


def _header(case: Case, check: Check, mode: str) -> None:
    header = case.files.get(case.views.database, b"")[:20]
    if len(header) == 20:  # an empty file is in no mode yet
        wanted = WAL_VERSION if mode == "wal" else ROLLBACK_VERSION
        why = "write and read version in the database's header: 2 for WAL, 1 for a rollback journal"
        check.same("header bytes 18, 19", list(wanted), list(header[18:]), why)


def _files(case: Case, check: Check, mode: str) -> None:
    """Which files lie beside the database. A killed store may still need its journal; one at rest may not."""
    journal = case.files.get(f"{case.views.database}-journal")
    if mode != "wal":
        there = f"{case.views.database}-wal" in case.files
        check.holds(not there, "-wal", "no such file", "a file", f"mode {mode} has no write-ahead log")
    if mode in ("wal", "memory", "off"):
        check.holds(journal is None, "-journal", "no such file", "a file", f"mode {mode} has no journal on disk")
    elif case.look == "end":
        kinds = {"delete": "no such file", "truncate": "an empty file", "persist": "a file with a zeroed header"}
        check.same("-journal", kinds[mode], _kind(journal), f"what mode {mode} leaves behind a transaction")


def _kind(journal: bytes | None) -> str:
    if journal is None:
        return "no such file"
    if not journal:
        return "an empty file"
    return "a file with a zeroed header" if journal[:8] == ZEROED else "a file that is still needed"
