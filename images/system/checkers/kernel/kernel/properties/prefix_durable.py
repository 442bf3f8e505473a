"""Every acknowledged record is in the log, in order, with no hole, and nothing else is but what was invoked.

A process has one append under way at most. If it dies in it, the record may be in the log or not: both are followed,
until a later acknowledgement says which.
"""

from __future__ import annotations

import json
from typing import Any

from verifier.finding import Check
from verifier.kernel.case import Case
from verifier.kernel.records import Entry, canonical


def check(case: Case) -> Check:
    """At every look."""
    check = Check()
    log = case.log
    if log.fault:
        check.holds(False, *log.fault)
    if not case.after_crash:
        check.same("torn tail of the log", "", log.torn, "recovery cuts a torn tail before anything else is written")
    _follow(check, case)
    _clean_marker(check, case)
    return check


def _follow(check: Check, case: Case) -> None:
    """Walk the history along the log."""
    ends = {case.base}  # where the log may end, by what the history has said so far
    pending: tuple[int, str] | None = None  # id and record of the append under way
    process = None
    for event in case.history:
        if event.get("process") != process or event.get("died"):
            ends, pending, process = _maybe(case, ends, pending), None, event.get("process")
        if event.get("op") != "append":
            continue
        name = f"process {process}, append {event.get('id')}"
        if event["type"] == "invoke":
            if pending is not None:
                why = "a process has at most one append under way"
                check.holds(False, name, f"an answer to append {pending[0]} first", "a further invoke", why)
            pending = (event.get("id", 0), canonical(event.get("record")))
        elif pending is None or pending[0] != event.get("id"):
            check.holds(False, name, "an invoke before its answer", "none", "only what was invoked can be answered")
        elif event["type"] == "ok":
            ends = {_acknowledged(check, case, name, pending[1], event.get("lsn"), ends)}
            pending = None
        else:
            ends = _maybe(case, ends, pending) if event["type"] == "info" else ends
            pending = None
    ends = _maybe(case, ends, pending)
    if case.log.fault is None:
        _nothing_else(check, case, ends)


def _maybe(case: Case, ends: set[int], pending: tuple[int, str] | None) -> set[int]:
    """The ends that are possible once an append has been left unanswered."""
    if pending is None:
        return ends
    return ends | {end + 1 for end in ends if _payload(case, end + 1) == pending[1]}


def _payload(case: Case, lsn: int) -> str | None:
    entry = _entry(case, lsn)
    return entry.payload.decode("ascii", "backslashreplace") if entry else None


def _entry(case: Case, lsn: int) -> Entry | None:
    return case.log.entries[lsn - 1] if 1 <= lsn <= case.log.end else None


def _acknowledged(check: Check, case: Case, name: str, record: str, lsn: Any, ends: set[int]) -> int:
    """Compare one acknowledged record; the end of the log after it."""
    following = sorted(end + 1 for end in ends)
    if lsn not in following:
        expected = " or ".join(f"LSN {n}" for n in following)
        check.holds(False, name, expected, f"acknowledged at LSN {lsn}", "LSNs go on without a hole or a repetition")
        return lsn if type(lsn) is int else max(ends)
    found = _payload(case, lsn) or "nothing" + (f" (torn: {case.log.torn})" if case.log.torn else "")
    why = f"{name} was acknowledged at this LSN, and what is acknowledged survives"
    check.same(f"log[{lsn}]", record, found, why)
    return int(lsn)


def _nothing_else(check: Check, case: Case, ends: set[int]) -> None:
    """Behind the last acknowledged record lies nothing that nobody invoked."""
    if case.log.end < min(ends):
        return  # what is missing was acknowledged, and has been reported as that
    last = max(end for end in ends if end <= case.log.end)
    found = _payload(case, last + 1) or "nothing more"
    why = "a record is in the log only if an append of it was invoked"
    check.holds(case.log.end == last, f"log[{last + 1}]", "nothing more", found, why)


def _clean_marker(check: Check, case: Case) -> None:
    """`CLEAN` is removed before anything is written, so while it stands it names the end of the log."""
    content = case.files.get("CLEAN")
    if content is None:
        if case.at_end:
            check.holds(False, "CLEAN", {"lsn": case.log.end}, "no such file", "written when a workload has finished")
        return
    try:
        lsn = json.loads(content)["lsn"]
    except (ValueError, TypeError, KeyError, RecursionError):
        if case.after_crash:
            return  # a crash may have torn it
        lsn = repr(content[:80])
    check.same("CLEAN", case.log.end, lsn, "it is removed before anything is written, so it names the log's end")
