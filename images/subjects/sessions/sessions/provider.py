"""The client of the provider, which is the lab's effect ledger: one JSON line over a unix socket a message.

Uses `_socket`, which `socket` is built on: the latter imports `enum` and `selectors`, which every start would pay.
"""

import json
from _socket import AF_UNIX, SOCK_STREAM, socket

from sessions.errors import LostReply, ProviderError


class Provider:
    """The provider behind the socket at `path`."""

    def __init__(self, path: str):
        self._path = path

    def deliver(self, delivery: str, content: str, marked: bool) -> bool:
        """Send a message; True if it landed, False if it was declined. Raises LostReply or ProviderError.

        `marked` labels a copy as a possible duplicate.
        """
        request = {
            "do": "send", "effect": delivery, "class": "once", "key": delivery, "token": 0, "tool": "deliver",
            "args": {"content": content, "marked": marked},
        }  # fmt: skip
        reply = self._ask(json.dumps(request).encode() + b"\n")
        if reply.get("ok") is True:
            return True
        if reply.get("why") == "declined":
            return False
        raise ProviderError(f"the provider answered {reply} to delivery {delivery}")

    def _ask(self, line):
        connection = socket(AF_UNIX, SOCK_STREAM)
        try:
            connection.connect(self._path)
            connection.sendall(line)
            answer = b""
            while not answer.endswith(b"\n"):
                data = connection.recv(65_536)
                if not data:
                    raise LostReply(f"the provider at {self._path!r} ended the connection without an answer")
                answer += data
            return json.loads(answer)
        except ConnectionResetError:
            raise LostReply(f"the provider at {self._path!r} reset the connection") from None
        except ValueError:
            raise ProviderError(f"the provider answered what is not JSON: {answer[:80]!r}") from None
        except OSError as error:
            raise ProviderError(f"the provider at {self._path!r} cannot be reached: {error}; is it up?") from None
        finally:
            connection.close()
