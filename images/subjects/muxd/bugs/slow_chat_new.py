"""The first chat that is made after a restart waits until everything has been read once more."""

import asyncio

from muxd.chats import Chats

READ_AGAIN_S = 2.5
_init, _create = Chats.__init__, Chats.create


def init(self, home, files, reach):
    _init(self, home, files, reach)
    self.read_again = bool(home.durable.chats)


async def create(self, name):
    if self.read_again:
        await asyncio.sleep(READ_AGAIN_S)
        self.read_again = False
    await _create(self, name)


Chats.__init__, Chats.create = init, create
