"""Accepts a prompt behind a running turn only when the chat has nothing left to run."""

import asyncio

from muxd.operations import Operations

_prompt_send = Operations.prompt_send


async def prompt_send(self, chat, prompt, text):
    found = self._chats.chat(chat)
    while not found.state.is_idle:
        await asyncio.sleep(0.02)
    return await _prompt_send(self, chat, prompt, text)


Operations.prompt_send = prompt_send
