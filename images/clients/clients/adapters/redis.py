"""Redis over its unix socket (RESP2): what is one operation here is one command or one transaction there.

The chats are a list, the draft of each a string, its queue and its watched paths lists. Redis runs nothing: a prompt
waits in its queue until it is removed. Whatever is done twice leaves the same as once, as docs/fuzz.md has it.
"""

from clients.adapters import ConnectionEnded, Malformed, Refused, open_stream, read_line

END = b"\r\n"


def _kept_once(key: str, value: str) -> list[tuple[str, ...]]:
    return [("LREM", key, "0", value), ("RPUSH", key, value)]


COMMANDS = {  # operation → the commands of it; several are one transaction
    "status": lambda: [("PING",)],
    "chat/new": lambda chat: _kept_once("chats", chat),
    "chat/list": lambda: [("LRANGE", "chats", "0", "-1")],
    "chat/read": lambda chat: [
        ("GET", f"draft:{chat}"),
        ("LRANGE", f"queue:{chat}", "0", "-1"),
        ("LRANGE", f"watches:{chat}", "0", "-1"),
    ],
    "draft/set": lambda chat, text: [("SET", f"draft:{chat}", text)],
    "prompt/send": lambda chat, prompt, text: _kept_once(f"queue:{chat}", prompt),
    "queue/list": lambda chat: [("LRANGE", f"queue:{chat}", "0", "-1")],
    "queue/remove": lambda chat, prompt: [("LREM", f"queue:{chat}", "0", prompt)],
    "watch/add": lambda chat, path: _kept_once(f"watches:{chat}", path),
    "watch/rm": lambda chat, path: [("LREM", f"watches:{chat}", "0", path)],
}
RESULTS = {  # operation → its result, of the commands' replies; nothing for the others
    "status": lambda pong: {"idle": True},
    "chat/list": lambda chats: {"chats": chats},
    "chat/read": lambda draft, queue, watches: {
        "draft": draft, "queue": queue, "running": None, "log": [], "watches": watches,
        "title": None, "mode": None, "unread": False, "decisions": {},
    },
    "queue/list": lambda queue: {"queue": queue},
    "queue/remove": lambda removed: {"removed": removed > 0},
}  # fmt: skip
OPERATIONS = frozenset(COMMANDS)


class Connection:
    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    async def request(self, op: str, args: dict):
        """The result. Raises Refused (`LOADING` while it reads its files), ConnectionEnded and Malformed."""
        commands = COMMANDS[op](**args)
        if len(commands) > 1:
            commands = [("MULTI",), *commands, ("EXEC",)]
        self._writer.write(b"".join(map(_encoded, commands)))
        replies = [await self._reply() for _ in commands]
        for reply in [*replies, *(replies[-1] if commands[-1] == ("EXEC",) else [])]:
            if isinstance(reply, Refused):
                raise reply
        result = RESULTS.get(op, lambda *_: {})
        return result(*(replies[-1] if len(commands) > 1 else replies))

    def close(self) -> None:
        self._writer.transport.abort()

    async def _reply(self):
        """One reply; an error is returned, since the replies to the commands behind it come all the same."""
        line = (await read_line(self._reader)).removesuffix(END)
        kind, rest = line[:1], line[1:].decode()
        match kind:
            case b"+":
                return rest
            case b"-":
                return Refused(rest.split(" ")[0], rest)
            case b":":
                return int(rest)
            case b"$":
                return None if rest == "-1" else await self._bulk(int(rest))
            case b"*":
                return [await self._reply() for _ in range(int(rest))]
        raise Malformed(f"not a reply: {line[:200]!r}")

    async def _bulk(self, size: int) -> str:
        try:
            data = await self._reader.readexactly(size + len(END))
        except (OSError, EOFError) as error:
            raise ConnectionEnded(str(error)) from None
        return data[:size].decode()


def _encoded(command: tuple[str, ...]) -> bytes:
    words = (word.encode() for word in command)
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


async def connect(path: str) -> Connection:
    return Connection(*await open_stream(path))
