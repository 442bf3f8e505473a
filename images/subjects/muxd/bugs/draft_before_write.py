"""Answers a draft at once, and saves it half a second later."""

from late import saved_late

from muxd.operations import Operations


async def draft_set(self, chat, text):
    found = self._chats.chat(chat)
    found.change(found.state.change(draft=text))
    saved_late(found)
    return {}


Operations.draft_set = draft_set
