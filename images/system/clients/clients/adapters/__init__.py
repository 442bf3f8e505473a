"""One module for each protocol that a daemon may speak. A new one is a page of code here, found by its name.

An adapter has `OPERATIONS`, the names of those it can ask, and `async connect(path) -> Connection`; a connection has
`async request(op, args)`, which returns the result as docs/fuzz.md has it, and `close()`. A connection carries one
request at a time. An adapter waits for ever: who uses it has the deadline.
"""

import asyncio
import importlib
import socket

MAX_ANSWER = 256 * 1024  # bytes; a check of all chats has to fit in the 1 MiB of a history line
NO_SUCH_CHAT = -32001
BUSY_S = 0.01  # until a daemon whose backlog is full is tried again


class Refused(Exception):
    """It answered that it did not do it."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


class ConnectionEnded(Exception):
    """No answer will come on this connection."""


class Unreachable(ConnectionEnded):
    """There is no connection to be had: nobody listens."""


class Malformed(ConnectionEnded):
    """What came is no answer of the protocol: nothing that follows it can be trusted."""


def find(name: str):
    """The adapter of this name, or None."""
    if not isinstance(name, str) or not name.isidentifier():
        return None
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        return None


async def open_stream(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a unix socket. Raises Unreachable; waits while the daemon's backlog is full."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        while True:
            try:
                sock.connect(path)
                break
            except BlockingIOError:  # a unix socket connects at once or not at all; the loop's own connect waits
                await asyncio.sleep(BUSY_S)
        return await asyncio.open_unix_connection(sock=sock, limit=MAX_ANSWER)
    except OSError as error:
        sock.close()
        raise Unreachable(f"{path}: {error.strerror}") from None
    except BaseException:
        sock.close()
        raise


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """One line with its LF. Raises ConnectionEnded: a torn line was never an answer."""
    try:
        line = await reader.readline()
    except ValueError:
        raise Malformed(f"a line of more than {MAX_ANSWER} bytes") from None
    except OSError as error:
        raise ConnectionEnded(str(error)) from None
    if not line.endswith(b"\n"):
        raise ConnectionEnded("closed")
    return line
