"""The outbox: what waits in it is delivered by one task, in order, until it has landed.

That it is delivered is recorded only after it has landed, so a crash between the two sends it again; its key makes that
second time nothing.
"""

import asyncio
import sys

from muxd import ledger
from muxd.files import Reach
from muxd.home import Home

RETRY_S = 0.2


class Outbox:
    """Delivers to the ledger at `path`."""

    def __init__(self, path: str, home: Home, reach: Reach):
        self._path = path
        self._home = home
        self._reach = reach
        self._waits = asyncio.Event()

    def wake(self) -> None:
        """Something may wait."""
        self._waits.set()

    async def work(self) -> None:
        """Never returns."""
        while True:
            await self._waits.wait()
            self._waits.clear()
            for message, text in list(self._home.durable.outbox.items()):
                await self._deliver(message, text)

    async def _deliver(self, message, text):
        self._reach("outbox.before")
        while not await self._send(message, text):
            await asyncio.sleep(RETRY_S)
        self._reach("outbox.sent")
        self._home.propose({"do": "delivered", "message": message})
        await self._home.commit()
        self._reach("outbox.delivered")

    async def _send(self, message, text):
        try:
            await ledger.send(self._path, f"message:{message}", self._key(message), {"text": text})
        except ledger.Undelivered as error:
            print(f"muxd: message {message} waits: {error}", file=sys.stderr, flush=True)
            return False
        return True

    def _key(self, message):
        """The message's own: the same in every life of the daemon."""
        return f"message:{message}"
