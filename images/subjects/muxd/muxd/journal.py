"""The home's journal: an append-only row of frames, and its compaction into a new generation.

It knows nothing of what the records mean. Its calls block, and are made by one writer at a time.
"""

import json
import os

from muxd import files
from muxd.errors import CorruptError
from muxd.files import Reach
from muxd.frames import frame, frames

PREFIX = "journal."
COMPACT_AFTER = 8  # records behind the snapshot; few, so that a trial of the fuzz campaign compacts several times


class Journal:
    """The journal of one home, open for appending. `records` is what it held, a snapshot first; empty for a new one."""

    def __init__(self, home: str, reach: Reach):
        self._home = home
        self._reach = reach
        generations = sorted(_generations(home))
        self._generation = generations[-1] if generations else 0
        self._fd = -1
        self._number = 0  # of the last frame, counted through all generations
        self.records: list[dict] = []
        if generations:
            self._open()
            for older in generations[:-1]:  # a compaction was cut before it had removed it
                os.unlink(self._path(older))

    @property
    def is_long(self) -> bool:
        return self._behind_snapshot >= COMPACT_AFTER

    def append(self, records: list[dict]) -> None:
        """Make the records durable, in their order, in one write."""
        data = b""
        for record in records:
            self._number += 1
            data += frame(self._number, _encode(record))
        self._reach("journal.before")
        files.write_all(self._fd, data)
        self._reach("journal.written")
        os.fsync(self._fd)
        self._behind_snapshot += len(records)
        self._reach("journal.durable")

    def compact(self, snapshot: dict) -> None:
        """Begin a new generation with one record that says all that the old one said. The rename is the switch."""
        self._number += 1
        old, self._generation = self._generation, self._generation + 1
        files.publish(
            self._home, _name(self._generation), frame(self._number, _encode(snapshot)), self._reach, "compact"
        )
        if old:
            os.close(self._fd)
            os.unlink(self._path(old))
            self._reach("compact.old-removed")
        self._fd = os.open(self._path(self._generation), os.O_WRONLY | os.O_APPEND)
        self._behind_snapshot = 0

    def _open(self):
        """Read the newest generation, cut what a crash left of the last append, and go on behind it."""
        path = self._path(self._generation)
        data = files.read_file(path)
        found, end = frames(data, path)
        if not found:
            raise CorruptError(
                f"{path}: its first frame is bad, but it was whole before it got its name; restore a copy"
            )
        self.records = [json.loads(payload) for _, payload in found]
        self._number = found[-1][0]
        self._behind_snapshot = len(found) - 1
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        if end < len(data):
            os.ftruncate(self._fd, end)
            os.fsync(self._fd)

    def _path(self, generation):
        return f"{self._home}/{_name(generation)}"


def _name(generation):
    return f"{PREFIX}{generation:08d}"


def _generations(home):
    for name in os.listdir(home):
        number = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and number.isdigit():
            yield int(number)


def _encode(record):
    return json.dumps(record, separators=(",", ":")).encode()
