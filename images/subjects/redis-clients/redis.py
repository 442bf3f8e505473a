"""Redis over its unix socket (RESP2): one operation here is one command there, or one script, which is a transaction.

The chats are a list, the draft of each a string, its queue and its watched paths lists. Redis knows no chats that
others could belong to, so the script asks first whether the chat is in the list. Nothing runs: a prompt waits in its
queue until it is removed. What is done twice leaves the same as once.
"""

import json

from clients.adapters import NO_SUCH_CHAT, ConnectionEnded, Malformed, Refused, open_stream, read_line

END = b"\r\n"
SERVER_ERROR = -32000  # as JSON-RPC has it: an error of Redis that has no number of ours
NO_CHAT = "NOCHAT"
SCRIPT = """
if ARGV[1] ~= "" and not redis.call("LPOS", "chats", ARGV[1]) then return redis.error_reply("NOCHAT " .. ARGV[1]) end
if ARGV[3] ~= "" and redis.call("SADD", ARGV[3], ARGV[4]) == 0 then return {} end
local replies = {}
for i, command in ipairs(cjson.decode(ARGV[2])) do replies[i] = redis.call(unpack(command)) end
return replies"""


def _script(chat: str, *commands: tuple[str, ...], new: tuple[str, str] = ("", "")) -> tuple[str, ...]:
    """The commands as one transaction, if there is such a chat; "" asks for none. Nothing, if `new` is in its set."""
    return ("EVAL", SCRIPT, "0", chat, json.dumps(commands), *new)


def _once(key: str, value: str) -> tuple[tuple[str, ...], ...]:
    return ("LREM", key, "0", value), ("RPUSH", key, value)


COMMANDS = {
    "status": lambda: ("PING",),
    "chat/new": lambda chat: _script("", *_once("chats", chat)),
    "chat/list": lambda: ("LRANGE", "chats", "0", "-1"),
    "chat/read": lambda chat: _script(
        chat, ("GET", f"draft:{chat}"), ("LRANGE", f"queue:{chat}", "0", "-1"), ("LRANGE", f"watches:{chat}", "0", "-1")
    ),
    "draft/set": lambda chat, text: _script(chat, ("SET", f"draft:{chat}", text)),
    "prompt/send": lambda chat, prompt, text: _script(
        chat, ("RPUSH", f"queue:{chat}", prompt), new=(f"sent:{chat}", prompt)
    ),
    "queue/list": lambda chat: _script(chat, ("LRANGE", f"queue:{chat}", "0", "-1")),
    "queue/remove": lambda chat, prompt: _script(chat, ("LREM", f"queue:{chat}", "0", prompt)),
    "watch/add": lambda chat, path: _script(chat, *_once(f"watches:{chat}", path)),
    "watch/rm": lambda chat, path: _script(chat, ("LREM", f"watches:{chat}", "0", path)),
}
RESULTS = {  # operation → its result, of the reply; nothing for the others
    "status": lambda pong: {"idle": True},
    "chat/list": lambda chats: {"chats": chats},
    "chat/read": lambda replies: {
        "draft": replies[0], "queue": replies[1], "running": None, "log": [], "watches": replies[2],
        "title": None, "mode": None, "unread": False, "decisions": {},
    },
    "queue/list": lambda replies: {"queue": replies[0]},
    "queue/remove": lambda replies: {"removed": replies[0] > 0},
}  # fmt: skip
OPERATIONS = frozenset(COMMANDS)


class Connection:
    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    async def request(self, op: str, args: dict):
        """The result. Raises Refused (also while it reads its files), ConnectionEnded and Malformed."""
        self._writer.write(_encoded(COMMANDS[op](**args)))
        try:
            reply = await self._reply()
        except ValueError as error:
            raise Malformed(f"not a reply: {error}") from None
        return RESULTS[op](reply) if op in RESULTS else {}

    def close(self) -> None:
        self._writer.transport.abort()

    async def _reply(self):
        """One reply, and all that is in it."""
        line = (await read_line(self._reader)).removesuffix(END)
        kind, rest = line[:1], line[1:].decode()
        match kind:
            case b"+":
                return rest
            case b"-":
                raise Refused(NO_SUCH_CHAT if rest.startswith(NO_CHAT) else SERVER_ERROR, rest)
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
