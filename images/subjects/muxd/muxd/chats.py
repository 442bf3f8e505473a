"""The chats of a home: their making, and each one's value with its one writer."""

import asyncio

from muxd.chatfiles import ChatFiles
from muxd.chatstate import ChatState
from muxd.commits import Commits
from muxd.errors import LIMIT_REACHED, NO_SUCH_CHAT, RpcError
from muxd.failstop import in_background, in_thread
from muxd.files import Reach
from muxd.home import Home

MAX_CHATS = 64
SETTINGS_WAIT_S = 0.05  # a title is on disk so long after its answer, or with the chat's next commit


class Chat:
    """One chat: `state` is the newest, `durable` what is on disk. Changed on the loop alone."""

    def __init__(self, name: str, number: int, files: ChatFiles, version: int, state: ChatState):
        self.name = name
        self.number = number
        self.state = self.durable = state
        self._files = files
        self._version = self._durable_version = version
        self._commits = Commits(self._save)
        self._saves_soon = False
        self.commit = self._commits.commit

    def change(self, state: ChatState) -> None:
        """A new value, which the next `commit` makes durable."""
        self.state = state
        self._version += 1

    def save_soon(self) -> None:
        """For what nobody was promised: durable a little later."""
        if not self._saves_soon:
            self._saves_soon = True
            in_background(self._save_later())

    async def _save_later(self):
        await asyncio.sleep(SETTINGS_WAIT_S)
        self._saves_soon = False
        await self.commit()

    async def _save(self):
        state, version = self.state, self._version
        if version > self._durable_version:
            await in_thread(self._files.save, self.number, version, state)
            self.durable, self._durable_version = state, version


class Chats:
    """All chats that are listed, by name."""

    def __init__(self, home: Home, files: ChatFiles, reach: Reach):
        self._home = home
        self._files = files
        self._reach = reach
        self._last_number = max(home.durable.chats.values(), default=0)
        self._made: dict[str, asyncio.Task] = {}  # in this life, or being made
        self._chats = {
            name: Chat(name, number, files, *files.load(number)) for name, number in home.durable.chats.items()
        }

    def __iter__(self):
        return iter(self._chats.values())

    def names(self) -> list[str]:
        """Oldest first."""
        return list(self._chats)

    def chat(self, name: str) -> Chat:
        """Raises RpcError."""
        try:
            return self._chats[name]
        except KeyError:
            raise RpcError(NO_SUCH_CHAT, f"no such chat: {name}") from None

    async def create(self, name: str) -> None:
        """Returns once the chat is there durably, also if it is being made for someone else. Raises RpcError."""
        if name in self._chats:
            return
        if name not in self._made:
            if self._last_number >= MAX_CHATS:
                raise RpcError(LIMIT_REACHED, f"there are {MAX_CHATS} chats, which is the most")
            self._last_number += 1
            self._made[name] = asyncio.create_task(self._create(name, self._last_number))
        await asyncio.shield(self._made[name])

    async def _create(self, name, number):
        """Its file first: what the journal lists is there."""
        chat = Chat(name, number, self._files, 0, ChatState())
        chat.change(ChatState())
        await chat.commit()
        self._reach("create.filed")
        self._home.propose({"do": "chat", "chat": name, "number": number})
        await self._home.commit()
        self._chats[name] = chat
        self._reach("create.listed")
