"""Turns: the prompts of a chat run one after the other, those of several chats side by side."""

import asyncio

from muxd.agents import Agents
from muxd.chats import Chat
from muxd.failstop import in_background
from muxd.files import Reach
from muxd.permissions import Permissions

AGENTS = 8  # at once, on all chats: an agent takes 8 MB


class Turns:
    """Runs what waits. A turn is durably `running` before its agent is started, so that no crash makes it run twice."""

    def __init__(self, agents: Agents, permissions: Permissions, reach: Reach):
        self._agents = agents
        self._permissions = permissions
        self._reach = reach
        self._slots = asyncio.Semaphore(AGENTS)
        self._working: set[str] = set()  # chats whose queue is being worked

    def wake(self, chat: Chat) -> None:
        """Something may wait in this chat."""
        if chat.name not in self._working:
            self._working.add(chat.name)
            in_background(self._work(chat))

    async def _work(self, chat):
        while chat.state.queue:
            async with self._slots:
                if chat.state.queue:  # not removed while we waited
                    await self._turn(chat)
        self._working.discard(chat.name)

    async def _turn(self, chat):
        prompt, text = chat.state.queue[0]
        chat.change(chat.state.begin())
        await chat.commit()
        self._reach("turn.begun")
        outcome = await self._agents.run(prompt, text, lambda: self._permissions.ask(chat.name, prompt))
        self._reach("turn.ended")
        chat.change(chat.state.end(outcome))
        await chat.commit()
        self._reach("turn.recorded")
