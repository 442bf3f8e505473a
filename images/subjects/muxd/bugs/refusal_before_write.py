"""Refuses to remove a prompt whose turn begins before that is durable: who reads next is shown that it waits.

On a quick disk the two are some milliseconds apart, in which hardly anybody reads: here the save waits a little.
"""

import asyncio

from muxd.operations import Operations
from muxd.turns import Turns

SLOW_S = 0.5

_queue_remove = Operations.queue_remove


async def queue_remove(self, chat, prompt):
    if prompt not in self._chats.chat(chat).state.waiting:
        return {"removed": False}
    return await _queue_remove(self, chat, prompt)


async def turn(self, chat):
    prompt, text = chat.state.queue[0]
    chat.change(chat.state.begin())
    await asyncio.sleep(SLOW_S)
    await chat.commit()
    outcome = await self._agents.run(prompt, text, lambda: self._permissions.ask(chat.name, prompt))
    chat.change(chat.state.end(outcome))
    await chat.commit()


Operations.queue_remove, Turns._turn = queue_remove, turn
