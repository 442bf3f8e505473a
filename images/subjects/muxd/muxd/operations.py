"""The operations of docs/fuzz.md: what each takes, does and answers. An answer that promises something follows a write.

Each changes memory before its first `await`: requests of one connection take effect in the order in which they came.
"""

from collections.abc import Callable
from typing import Any

from muxd.chats import Chats
from muxd.errors import INVALID_PARAMS, LIMIT_REACHED, METHOD_NOT_FOUND, RpcError
from muxd.files import Reach
from muxd.home import Home
from muxd.outbox import Outbox
from muxd.permissions import Permissions
from muxd.turns import Turns

MAX_NAME = 256  # bytes of a chat, a prompt, a message or a path
MAX_TEXT = 16_384  # bytes of a text; a line of 64 KiB holds it, escaped
MAX_QUEUE = 256  # prompts that wait in a chat
MAX_PROMPTS = 4096  # of a chat, in all: it remembers each
MAX_WATCHES = 256  # of a chat
MAX_OUTBOX = 1024  # messages that wait


def name(value: object) -> bool:
    """A chat, a prompt, a message or a path."""
    return value != "" and _is_text(value, MAX_NAME)


def text(value: object) -> bool:
    """What a person or an agent wrote."""
    return _is_text(value, MAX_TEXT)


def truth(value: object) -> bool:
    """true or false."""
    return isinstance(value, bool)


def _is_text(value, max_bytes):
    try:
        return isinstance(value, str) and len(value.encode()) <= max_bytes
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


# What each takes. `a/b` is done by the method `a_b`.
TAKES: dict[str, dict[str, Callable[[object], bool]]] = {
    "status": {},
    "chat/new": {"chat": name},
    "chat/list": {},
    "chat/read": {"chat": name},
    "draft/set": {"chat": name, "text": text},
    "prompt/send": {"chat": name, "prompt": name, "text": text},
    "queue/list": {"chat": name},
    "queue/remove": {"chat": name, "prompt": name},
    "outbox/send": {"message": name, "text": text},
    "watch/add": {"chat": name, "path": name},
    "watch/rm": {"chat": name, "path": name},
    "chat/rename": {"chat": name, "title": text},
    "chat/mark_unread": {"chat": name},
    "chat/set_mode": {"chat": name, "mode": text},
    "permission/decide": {"chat": name, "prompt": name, "allow": truth},
}


class Operations:
    """What a client may ask for."""

    def __init__(
        self, home: Home, chats: Chats, turns: Turns, permissions: Permissions, outbox: Outbox, reach: Reach
    ):  # fmt: skip
        self._home = home
        self._chats = chats
        self._turns = turns
        self._permissions = permissions
        self._outbox = outbox
        self._reach = reach

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """The result. Raises RpcError."""
        if method not in TAKES:
            raise RpcError(METHOD_NOT_FOUND, f"no such method: {method}; there are {', '.join(TAKES)}")
        takes = TAKES[method]
        if params.keys() != takes.keys():
            raise RpcError(INVALID_PARAMS, f"{method} takes {', '.join(takes) or 'nothing'}")
        for param, check in takes.items():
            if not check(params[param]):
                raise RpcError(INVALID_PARAMS, f"{method}: `{param}` is no {check.__name__}, or too long")
        return await getattr(self, method.replace("/", "_"))(**params)

    async def status(self) -> dict:
        states = [state for chat in self._chats for state in (chat.state, chat.durable)]
        waiting = len(self._home.working.outbox) + len(self._home.durable.outbox)
        return {"idle": waiting == 0 and all(state.is_idle for state in states), "chats": len(states) // 2}

    async def chat_new(self, chat: str) -> dict:
        await self._chats.create(chat)
        return {}

    async def chat_list(self) -> dict:
        return {"chats": self._chats.names()}

    async def chat_read(self, chat: str) -> dict:
        found = self._chats.chat(chat)
        durable, newest = found.durable, found.state
        return {
            "draft": durable.draft,
            "queue": list(durable.waiting),
            "running": durable.running,
            "log": [{"prompt": prompt, "outcome": outcome} for prompt, outcome in durable.log],
            "watches": list(self._home.durable.watches.get(chat, ())),
            "title": newest.title,
            "mode": newest.mode,
            "unread": newest.unread,
            "decisions": dict(newest.decisions),
        }

    async def draft_set(self, chat: str, text: str) -> dict:
        found = self._chats.chat(chat)
        found.change(found.state.change(draft=text))
        await found.commit()
        return {}

    async def prompt_send(self, chat: str, prompt: str, text: str) -> dict:
        found = self._chats.chat(chat)
        if prompt in found.state.prompts:
            found.change(found.state.change(unread=False))
        else:
            if len(found.state.queue) >= MAX_QUEUE or len(found.state.prompts) >= MAX_PROMPTS:
                raise RpcError(LIMIT_REACHED, f"{MAX_QUEUE} prompts wait, or the chat has had {MAX_PROMPTS}")
            found.change(found.state.accept(prompt, text))
        await found.commit()
        self._reach("prompt.durable")
        self._turns.wake(found)
        return {}

    async def queue_list(self, chat: str) -> dict:
        return {"queue": list(self._chats.chat(chat).durable.waiting)}

    async def queue_remove(self, chat: str, prompt: str) -> dict:
        found = self._chats.chat(chat)
        if prompt not in found.state.waiting:
            await found.commit()  # that its turn begins, or that another takes it away, may not be durable yet
            return {"removed": False}
        found.change(found.state.remove(prompt))
        self._reach("removal.taken")
        await found.commit()
        self._reach("removal.durable")
        return {"removed": True}

    async def outbox_send(self, message: str, text: str) -> dict:
        if message not in self._home.working.outbox:
            if len(self._home.working.outbox) >= MAX_OUTBOX:
                raise RpcError(LIMIT_REACHED, f"{MAX_OUTBOX} messages wait, which is the most")
            self._home.propose({"do": "message", "message": message, "text": text})
        await self._home.commit()
        self._outbox.wake()
        return {}

    async def watch_add(self, chat: str, path: str) -> dict:
        self._chats.chat(chat)
        watches = self._home.working.watches.get(chat, ())
        if path not in watches:
            if len(watches) >= MAX_WATCHES:
                raise RpcError(LIMIT_REACHED, f"the chat watches {MAX_WATCHES} paths, which is the most")
            self._home.propose({"do": "watch", "chat": chat, "path": path})
        await self._home.commit()
        return {}

    async def watch_rm(self, chat: str, path: str) -> dict:
        self._chats.chat(chat)
        if path in self._home.working.watches.get(chat, ()):
            self._home.propose({"do": "unwatch", "chat": chat, "path": path})
        await self._home.commit()
        return {}

    async def chat_rename(self, chat: str, title: str) -> dict:
        return self._set(chat, title=title)

    async def chat_mark_unread(self, chat: str) -> dict:
        return self._set(chat, unread=True)

    async def chat_set_mode(self, chat: str, mode: str) -> dict:
        return self._set(chat, mode=mode)

    async def permission_decide(self, chat: str, prompt: str, allow: bool) -> dict:
        found = self._chats.chat(chat)
        self._permissions.decide(chat, prompt, allow)
        found.change(found.state.decide(prompt, allow))
        found.save_soon()
        return {}

    def _set(self, chat, **fields):
        """A setting: nothing is promised, so its answer waits for nothing."""
        found = self._chats.chat(chat)
        found.change(found.state.change(**fields))
        found.save_soon()
        return {}
