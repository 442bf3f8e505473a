"""A setting's late save writes what the chat was when the setting was made, over all that was saved since."""

import asyncio

from muxd import chats
from muxd.chats import Chat
from muxd.failstop import in_background

_save = Chat._save
chats.SETTINGS_WAIT_S = 0.2


def save_soon(self):
    in_background(save_later(self, self.state))


async def save_later(self, state_then):
    await asyncio.sleep(chats.SETTINGS_WAIT_S)
    self.late = state_then
    await self.commit()


async def save(self):
    late = self.__dict__.pop("late", None)
    if late is None:
        return await _save(self)
    newest, self.state = self.state, late
    self._version += 1
    await _save(self)
    self.state = self.durable = newest
    return None


Chat.save_soon, Chat._save = save_soon, save
