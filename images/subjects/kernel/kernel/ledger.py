"""The client of the outside world: JSON lines over a unix socket, a connection of its own for every request in flight.

Uses `_socket`, which `socket` is built on: the latter imports `enum` and `selectors`, 5 ms that every start would pay.
"""

from _socket import AF_UNIX, SOCK_STREAM, socket

from kernel.codec import canonical, decode
from kernel.errors import LedgerError


class Connection:
    """One connection; answers come in the order of requests."""

    def __init__(self, path: str):
        self._socket = socket(AF_UNIX, SOCK_STREAM)
        self._unread = b""
        try:
            self._socket.connect(path)
        except OSError as error:
            raise LedgerError(f"the effect ledger at {path!r} cannot be reached: {error.strerror}; is it up?") from None

    def request(self, body: dict) -> None:
        """Send a request; its answer is read later."""
        try:
            self._socket.sendall(canonical(body).encode() + b"\n")
        except OSError as error:
            raise LedgerError(f"the effect ledger did not take a request: {error.strerror}") from None

    def reply(self) -> dict | None:
        """The next answer, or None if the connection ended without one: whatever was asked may have been done."""
        while b"\n" not in self._unread:
            try:
                data = self._socket.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            return decode(line.decode())
        except ValueError:
            raise LedgerError(f"the effect ledger answered what is not JSON: {line[:80]!r}") from None

    def ask(self, body: dict, *members: str) -> dict:
        """Send a request that has no effect of its own and read its answer, which must have `members`."""
        self.request(body)
        reply = self.reply()
        if reply is None or reply.get("ok") is not True or not reply.keys() >= set(members):
            raise LedgerError(f"the effect ledger answered {reply} to {body['do']} of {body['effect']}")
        return reply

    def close(self) -> None:
        """End the connection."""
        self._socket.close()
