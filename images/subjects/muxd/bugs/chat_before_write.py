"""Answers that a chat is there when it is so in memory, and lists it durably half a second later."""

import asyncio

from late import LATE_S

from muxd.chats import Chat, Chats
from muxd.chatstate import ChatState
from muxd.failstop import in_background


async def create(self, name, number):
    self._chats[name] = Chat(name, number, self._files, 0, ChatState())
    in_background(list_late(self, self._chats[name]))


async def list_late(self, chat):
    await asyncio.sleep(LATE_S)
    chat.change(chat.state)
    await chat.commit()
    self._home.propose({"do": "chat", "chat": chat.name, "number": chat.number})
    await self._home.commit()


Chats._create = create
