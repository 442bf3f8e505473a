"""The append-only log on disk: segments, half-writes, rotation, and the cut of a torn tail.

A record is durable when `append` returns. Nothing here knows what a record means.
"""

import os

from kernel import frames
from kernel.errors import CorruptError
from kernel.files import read_file, sync_folder, write_all

SEALED, ACTIVE = ".seg", ".open"


class Log:
    """The log, open for appending behind its last good frame."""

    def __init__(self, folder: str, hooks, segment_bytes: int, first_lsn: int, next_lsn: int, size: int):
        self._folder = folder
        self._hooks = hooks
        self._segment_bytes = segment_bytes
        self._first_lsn = first_lsn
        self._size = size
        self._fd = os.open(_path(folder, first_lsn, ACTIVE), os.O_WRONLY | os.O_APPEND)
        self.next_lsn = next_lsn  # of the record that will be appended next

    def append(self, payload: bytes) -> int:
        """Write one record and make it durable. Returns its LSN."""
        if self._size > self._segment_bytes:
            self._rotate()
        lsn = self.next_lsn
        frame = frames.frame(lsn, payload)
        half = len(frame) // 2
        self._write(frame[:half])
        self._hooks.reach("log.half_written")
        self._write(frame[half:])
        self._hooks.reach("log.written")
        self._sync()
        self._hooks.reach("log.synced")
        self.next_lsn += 1
        self._size += len(frame)
        return lsn

    def close(self) -> None:
        """Let go of the active segment; every record is durable already."""
        os.close(self._fd)

    def _write(self, data):
        write_all(self._fd, data)

    def _sync(self):
        os.fdatasync(self._fd)

    def _rotate(self):
        self._sync()
        os.close(self._fd)
        os.rename(_path(self._folder, self._first_lsn, ACTIVE), _path(self._folder, self._first_lsn, SEALED))
        sync_folder(self._folder)
        self._hooks.reach("log.sealed")
        create_segment(self._folder, self.next_lsn)
        self._first_lsn = self.next_lsn
        self._size = frames.HEADER_BYTES
        self._fd = os.open(_path(self._folder, self._first_lsn, ACTIVE), os.O_WRONLY | os.O_APPEND)
        self._hooks.reach("log.rotated")


class Replay:
    """What `read` found: records from an LSN on, and how the active segment ends."""

    def __init__(self, first_lsn: int, size: int):
        self.records: list[tuple[int, bytes]] = []
        self.first_lsn = first_lsn  # of the active segment
        self.next_lsn = first_lsn
        self.size = size  # of the active segment up to its last good frame
        self.repair: str | None = None  # what a crash left to repair, for people; None if nothing


def create_segment(folder: str, first_lsn: int) -> None:
    """A new, empty active segment; durable when this returns."""
    fd = os.open(_path(folder, first_lsn, ACTIVE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(fd, frames.header(first_lsn))
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(folder)


def read(folder: str, after_lsn: int) -> Replay:
    """Read the records behind `after_lsn`, from the segment on that may hold the first of them. Changes nothing.

    Raises CorruptError for everything that is not a torn tail.
    """
    segments = _segments(folder)
    start = max((i for i, (first, _) in enumerate(segments) if first <= after_lsn + 1), default=0)
    replay = Replay(segments[start][0], 0)
    for first_lsn, kind in segments[start:]:
        if first_lsn != replay.next_lsn:
            raise CorruptError(f"LSN {replay.next_lsn} is missing before it", _path(folder, first_lsn, kind))
        _read_segment(folder, first_lsn, kind, replay)
    if segments[-1][1] == SEALED:
        replay.first_lsn, replay.size = replay.next_lsn, frames.HEADER_BYTES
        replay.repair = "the segment after the sealed one was not created yet"
    if replay.next_lsn <= after_lsn:
        raise CorruptError(f"it ends at LSN {replay.next_lsn - 1}, before LSN {after_lsn} of the tables", folder)
    replay.records = [(lsn, payload) for lsn, payload in replay.records if lsn > after_lsn]
    return replay


def repair(folder: str, replay: Replay) -> None:
    """Cut the torn tail, or make the active segment anew. Makes durable what was read.

    A record that a crash left written but not synced is read like any other: nothing may rest on it before this.
    """
    if replay.size <= frames.HEADER_BYTES:
        create_segment(folder, replay.first_lsn)
        return
    fd = os.open(_path(folder, replay.first_lsn, ACTIVE), os.O_WRONLY)
    try:
        os.ftruncate(fd, replay.size)
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(folder)


def _read_segment(folder, first_lsn, kind, replay):
    where = _path(folder, first_lsn, kind)
    data = read_file(where)
    replay.first_lsn, replay.size = first_lsn, frames.HEADER_BYTES
    if data[: frames.HEADER_BYTES] != frames.header(first_lsn):
        if kind == SEALED:
            raise CorruptError("bad header", where)
        frames.check_torn(data, 0, first_lsn - 1, where)
        replay.repair = "torn creation of a segment"
        return
    found, end = frames.payloads(data, first_lsn)
    if end < len(data):
        if kind == SEALED:
            raise CorruptError(f"bad frame at byte {end} where LSN {first_lsn + len(found)} should be", where)
        frames.check_torn(data, end, first_lsn + len(found), where)
        replay.repair = f"torn tail of {len(data) - end} bytes after LSN {first_lsn + len(found) - 1}"
    replay.records += enumerate(found, first_lsn)
    replay.next_lsn = first_lsn + len(found)
    replay.size = end


def _segments(folder):
    """(first LSN, kind) of every segment, in order; only the last may be active."""
    found = []
    for name in sorted(os.listdir(folder)):
        number, kind = name[:16], name[16:]
        if kind not in (SEALED, ACTIVE) or not number.isdigit():
            raise CorruptError("not a segment's name", f"{folder}/{name}")
        found.append((int(number), kind))
    if not found or found[0][0] != 1:
        raise CorruptError("the segment that begins with LSN 1 is missing", folder)
    for number, kind in found[:-1]:
        if kind == ACTIVE:
            raise CorruptError("an active segment that is not the last", _path(folder, number, kind))
    return found


def _path(folder, first_lsn, kind):
    return f"{folder}/{first_lsn:016}{kind}"
