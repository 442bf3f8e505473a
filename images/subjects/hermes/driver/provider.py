"""The messaging platform that a gateway sends to: the lab's effect ledger, over its unix socket (docs/protocol.md)."""

import json
import socket


class Provider:
    """Sends one message at a time, each on a connection of its own, as a platform's web API takes it."""

    def __init__(self, path: str):
        self._path = path

    def send(self, delivery: str, content: str, marked: bool) -> str:
        """Send a message. Returns "" once the provider has taken it, else what went wrong: it may still have landed."""
        request = {
            "do": "send", "effect": delivery, "class": "once", "key": delivery, "token": 0,
            "tool": "deliver", "args": {"content": content, "marked": marked},
        }  # fmt: skip
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as replies:
                try:
                    line = replies.readline()
                except ConnectionResetError:
                    line = b""
        if not line:
            return "the connection ended without a reply"
        reply = json.loads(line)
        return "" if reply["ok"] else str(reply["why"])
