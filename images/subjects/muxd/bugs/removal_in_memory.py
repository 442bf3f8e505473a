"""A removed prompt leaves the queue in memory; on disk it waits on."""

import dataclasses

from muxd import chatstate
from muxd.operations import Operations

_encode, _queue_remove = chatstate.encode, Operations.queue_remove
removed = {}  # prompt -> text, of this life


async def queue_remove(self, chat, prompt):
    removed.update((waits, text) for waits, text in self._chats.chat(chat).state.queue if waits == prompt)
    return await _queue_remove(self, chat, prompt)


def encode(state):
    back = tuple((prompt, removed[prompt]) for prompt in state.removed if prompt in removed)
    kept = tuple(prompt for prompt in state.removed if prompt not in removed)
    return _encode(dataclasses.replace(state, queue=(*state.queue, *back), removed=kept))


chatstate.encode, Operations.queue_remove = encode, queue_remove
