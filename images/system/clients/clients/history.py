"""The history on standard output: one JSON object a line, in the order in which things happened in this process.

A line is written at once, unbuffered. A reader that falls behind does not stop the clients, which would take the time
that they stood still for the daemon's: what the pipe does not take waits here, its times already in it.
"""

import asyncio
import json
import os
import time

STDOUT = 1


class History:
    """Writes events. `now` is in ms since the clients began, by the monotonic clock."""

    def __init__(self, began: float):
        self._began = began
        self._ids = 0
        self._unwritten = bytearray()
        os.set_blocking(STDOUT, False)

    def now(self) -> float:
        return self.at(time.monotonic())

    def at(self, monotonic: float) -> float:
        return round((monotonic - self._began) * 1000, 1)

    def write(self, event: str, **fields) -> None:
        line = json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n"
        if not self._unwritten:
            line = line[self._push(line) :]
            if not line:
                return
            asyncio.get_running_loop().add_writer(STDOUT, self._flush)
        self._unwritten += line

    def invoke(self, life: int, step: int, client: int, op: str, args: dict) -> int:
        """A request is about to be sent. Returns its id."""
        self._ids += 1
        self.write("invoke", life=life, id=self._ids, step=step, client=client, op=op, args=args, at_ms=self.now())
        return self._ids

    def error(self, what: str) -> None:
        self.write("error", what=what)

    async def written(self) -> None:
        """Wait until the reader has taken everything; it has to before this process may end."""
        while self._unwritten:
            await asyncio.sleep(0.01)

    def _push(self, data: bytes | bytearray) -> int:
        try:
            return os.write(STDOUT, data)
        except BlockingIOError:
            return 0

    def _flush(self) -> None:
        del self._unwritten[: self._push(self._unwritten)]
        if not self._unwritten:
            asyncio.get_running_loop().remove_writer(STDOUT)
