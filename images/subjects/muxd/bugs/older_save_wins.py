"""An autosave writes what a chat was when it was armed, by a draft or a setting, over all that was saved since."""

import asyncio

from muxd.chats import Chat
from muxd.failstop import in_background
from muxd.operations import Operations

AUTOSAVE_S = 0.2
_draft_set, _save = Operations.draft_set, Chat._save


async def draft_set(self, chat, text):
    result = await _draft_set(self, chat, text)
    self._chats.chat(chat).save_soon()
    return result


def save_soon(self):
    if not self._saves_soon:
        self._saves_soon = True
        in_background(save_later(self, self.state))


async def save_later(self, state_then):
    await asyncio.sleep(AUTOSAVE_S)
    self._saves_soon = False
    self.older = state_then
    await self.commit()


async def save(self):
    older = self.__dict__.pop("older", None)
    if older is None:
        return await _save(self)
    newest, self.state = self.state, older
    self._version += 1
    await _save(self)
    self.state = self.durable = newest
    return None


Operations.draft_set, Chat.save_soon, Chat._save = draft_set, save_soon, save
