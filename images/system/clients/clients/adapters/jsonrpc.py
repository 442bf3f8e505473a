"""JSON-RPC 2.0, one message a line: the operation is the method, its arguments are `params` by name."""

import json

from clients.adapters import Malformed, Refused, open_stream, read_line

OPERATIONS = frozenset({
    "status", "chat/new", "chat/list", "chat/read", "draft/set", "prompt/send", "queue/list", "queue/remove",
    "outbox/send", "watch/add", "watch/rm", "chat/rename", "chat/mark_unread", "chat/set_mode", "permission/decide",
})  # fmt: skip


class Connection:
    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer
        self._ids = 0

    async def request(self, op: str, args: dict):
        """The result. Raises Refused, ConnectionEnded and Malformed."""
        self._ids += 1
        asked = {"jsonrpc": "2.0", "id": self._ids, "method": op, "params": args}
        self._writer.write(json.dumps(asked).encode() + b"\n")
        while True:
            answer = _message(await read_line(self._reader))
            if "id" in answer:  # else a notification, which answers nothing
                return self._result(answer)

    def close(self) -> None:
        self._writer.transport.abort()

    def _result(self, answer: dict):
        error = answer.get("error")
        if isinstance(error, dict) and "code" in error:
            raise Refused(error["code"], str(error.get("message", "")))
        if answer["id"] != self._ids or "result" not in answer:
            raise Malformed(f"not the answer to request {self._ids}: {json.dumps(answer)[:200]}")
        return answer["result"]


def _message(line: bytes) -> dict:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON ({error}): {line[:200]!r}") from None
    if not isinstance(message, dict):
        raise Malformed(f"not a JSON-RPC message: {line[:200]!r}")
    return message


async def connect(path: str) -> Connection:
    return Connection(*await open_stream(path))
