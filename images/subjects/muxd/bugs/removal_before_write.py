"""Answers a removal at once, and saves it half a second later."""

from late import saved_late

from muxd.operations import Operations


async def queue_remove(self, chat, prompt):
    found = self._chats.chat(chat)
    if prompt not in found.state.waiting:
        return {"removed": False}
    found.change(found.state.remove(prompt))
    saved_late(found)
    return {"removed": True}


Operations.queue_remove = queue_remove
