"""Answers a draft at once, and saves it a little later."""

from muxd.operations import Operations


async def draft_set(self, chat, text):
    found = self._chats.chat(chat)
    found.change(found.state.change(draft=text))
    found.save_soon()
    return {}


Operations.draft_set = draft_set
