"""Records that a message is delivered before it is sent."""

import asyncio

from muxd import outbox
from muxd.outbox import Outbox


async def deliver(self, message, text):
    self._home.propose({"do": "delivered", "message": message})
    await self._home.commit()
    self._reach("outbox.delivered")
    self._reach("outbox.before")
    while not await self._send(message, text):
        await asyncio.sleep(outbox.RETRY_S)
    self._reach("outbox.sent")


Outbox._deliver = deliver
