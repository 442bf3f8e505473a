"""Reads the log from the documented format. Never raises on bytes, whatever they are: what is not a log is a `Fault`.

A torn tail is legal after a crash and is no fault; the same damage anywhere else is one.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from verifier.kernel.crc32c import crc32c
from verifier.kernel.records import Entry, parse
from verifier.tree import Tree

MAGIC = b"LABKLOG1"
HEADER = struct.Struct("<8sQII")
FRAME = struct.Struct("<IQI")
PAYLOAD = 65_536
_NAME = re.compile(r"log/(\d{16})\.(seg|open)")


class Fault(NamedTuple):
    """What the format forbids, as a fact that differs."""

    fact: str
    expected: str
    found: str
    why: str


class Log(NamedTuple):
    """The records up to the first fault, if there is one."""

    entries: tuple[Entry, ...]
    fault: Fault | None
    torn: str  # what lies at the tail that recovery has to cut, or ""

    @property
    def end(self) -> int:
        """The last LSN that can be read."""
        return len(self.entries)


def read_log(files: Tree) -> Log:
    """All records, in order, up to the end or the first fault."""
    entries: list[Entry] = []
    torn = ""
    named = [(path, _NAME.fullmatch(path)) for path in sorted(files)]
    strangers = [p for p, m in named if m is None and p.startswith("log/") and p.endswith((".seg", ".open"))]
    if strangers:
        return Log((), Fault(strangers[0], "a name of 16 digits", strangers[0], "the format names segments so"), "")
    segments = sorted((m[1], m[2] == "open", p) for p, m in named if m)
    for number, (digits, active, path) in enumerate(segments):
        if active and number + 1 < len(segments):
            later = segments[number + 1][2]
            why = "at most one segment is active, and it is the last"
            return Log(tuple(entries), Fault(path, "no later segment", later, why), "")
        if int(digits) != len(entries) + 1:
            why = "a segment is named by its first LSN, and LSNs have no gap"
            return Log(tuple(entries), Fault(path, f"first LSN {len(entries) + 1}", f"{int(digits)}", why), "")
        fault, torn = _read_segment(path, files[path], active, entries)
        if fault:
            return Log(tuple(entries), fault, "")
    return Log(tuple(entries), None, torn)


def _read_segment(path: str, data: bytes, active: bool, entries: list[Entry]) -> tuple[Fault | None, str]:
    """Append the records of one segment to `entries`; the fault, and what is torn at its end."""
    wrong = _header_fault(data, len(entries) + 1)
    if wrong:
        if active:
            return None, f"{path}: {wrong}"
        return Fault(f"{path} header", "valid", wrong, "a sealed segment was synced with its header"), ""
    at = HEADER.size
    while at < len(data):
        wrong, size, lsn = _frame_fault(data, at)
        if wrong:
            after = _valid_frame_after(data, at)
            if active and after is None:
                return None, f"{path}: {wrong} at byte {at}"
            found = wrong if after is None else f"{wrong}, and a valid frame after it at byte {after}"
            why = "only the end of the active segment may be torn; a bad frame anywhere else is corruption"
            return Fault(f"{path} byte {at}", f"frame of LSN {len(entries) + 1}", found, why), ""
        if lsn != len(entries) + 1:
            why = "LSNs have no gap and never repeat"
            return Fault(f"{path} byte {at}", f"LSN {len(entries) + 1}", f"LSN {lsn}", why), ""
        payload = data[at + FRAME.size : at + size]
        entries.append(Entry(lsn, payload, *parse(payload)))
        at += size
    return None, ""


def _header_fault(data: bytes, first: int) -> str:
    if len(data) < HEADER.size:
        return f"{len(data)} of {HEADER.size} bytes of a header"
    magic, lsn, crc, zero = HEADER.unpack_from(data)
    if magic != MAGIC:
        return f"magic {magic!r}"
    if crc != crc32c(data[:16]):
        return "header CRC does not match"
    return "" if lsn == first and zero == 0 else f"first LSN {lsn} and reserved {zero} in the header"


def _frame_fault(data: bytes, at: int) -> tuple[str, int, int]:
    """What is wrong with the frame at `at`, or its size and LSN."""
    if len(data) - at < FRAME.size:
        return f"incomplete frame of {len(data) - at} bytes", 0, 0
    length, lsn, crc = FRAME.unpack_from(data, at)
    if length > PAYLOAD:
        return f"frame that claims {length} bytes", 0, 0
    size = FRAME.size + length
    if len(data) - at < size:
        return f"incomplete frame of {len(data) - at} of {size} bytes", 0, 0
    if crc != crc32c(data[at : at + 12] + data[at + FRAME.size : at + size]):
        return f"frame with a bad CRC (LSN {lsn})", 0, 0
    return "", size, lsn


def _valid_frame_after(data: bytes, at: int) -> int | None:
    """Where a valid frame begins behind the bad one at `at`. JSON text claims absurd lengths, so this is quick."""
    return next((i for i in range(at + 1, len(data) - FRAME.size + 1) if not _frame_fault(data, i)[0]), None)
