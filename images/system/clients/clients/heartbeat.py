"""A heartbeat in a process of its own: what it says of the machine says nothing of the clients or the daemon.

It sleeps a little, again and again. When it wakes much later than it asked to, the machine stood still for so long, and
a request that waited meanwhile waited for the machine.
"""

import asyncio
import os
import struct
import time

from clients.history import History

BEAT_S = 0.025  # also the least that is worth a line: answers are held to seconds
LATE = struct.Struct("dd")  # how late in s, and when by the monotonic clock, which is the whole machine's


class Heartbeat:
    """The parent's end."""

    def __init__(self, pipe: int):
        self._pipe = pipe

    @classmethod
    def start(cls) -> "Heartbeat":
        """Fork it off; it ends when this process does."""
        reading, writing = os.pipe()
        parent = os.getpid()
        if os.fork() == 0:
            try:
                for inherited in (0, 1, reading):
                    os.close(inherited)  # who waits for the end of the clients' output must not wait for this process
                _beat(writing, parent)
            finally:
                os._exit(0)
        os.close(writing)
        os.set_blocking(reading, False)
        return cls(reading)

    def listen(self, history: History) -> None:
        """Write a line of the history for each beat that comes late, from now on."""
        asyncio.get_running_loop().add_reader(self._pipe, self._read, history)

    def _read(self, history: History) -> None:
        beats = os.read(self._pipe, 256 * LATE.size)  # whole ones: a write of so few bytes is never split
        if not beats:
            raise RuntimeError("the heartbeat has ended")
        for late, at in LATE.iter_unpack(beats):
            history.write("still", ms=round(late * 1000, 1), at_ms=history.at(at))


def _beat(pipe: int, parent: int) -> None:
    while os.getppid() == parent:
        due = time.monotonic() + BEAT_S
        time.sleep(BEAT_S)
        woke = time.monotonic()
        if woke - due > BEAT_S:
            os.write(pipe, LATE.pack(woke - due, woke))
