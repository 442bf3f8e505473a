"""Answers that a prompt is accepted at once, and saves it half a second later."""

from late import saved_late

from muxd.operations import Operations


async def prompt_send(self, chat, prompt, text):
    found = self._chats.chat(chat)
    if prompt not in found.state.prompts:
        found.change(found.state.accept(prompt, text))
    saved_late(found, lambda: self._turns.wake(found))
    return {}


Operations.prompt_send = prompt_send
