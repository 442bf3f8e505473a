"""A removed prompt is off the list that clients see, and still on the one that is worked."""

import asyncio

from muxd.failstop import in_background
from muxd.operations import Operations

_queue_remove = Operations.queue_remove


async def queue_remove(self, chat, prompt):
    found = self._chats.chat(chat)
    text = dict(found.state.queue).get(prompt)
    result = await _queue_remove(self, chat, prompt)
    if result["removed"]:
        in_background(run(self._turns, found, prompt, text))
    return result


async def run(turns, chat, prompt, text):
    while chat.state.running is not None:
        await asyncio.sleep(0.02)
    outcome = await turns._agents.run(prompt, text, lambda: turns._permissions.ask(chat.name, prompt))
    chat.change(chat.state.change(log=(*chat.state.log, (prompt, outcome))))
    await chat.commit()


Operations.queue_remove = queue_remove
