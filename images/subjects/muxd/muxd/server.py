"""The daemon's unix socket: connections, and the requests of all of them side by side. Knows no operation."""

import asyncio

from muxd import rpc
from muxd.errors import INVALID_REQUEST, LIMIT_REACHED, RpcError
from muxd.failstop import in_background
from muxd.files import Reach

MAX_LINE = 65_536  # bytes of a request
MAX_CONNECTIONS = 64
MAX_OUTSTANDING = 32  # requests of a connection; more are not read before one of them is answered


class Server:
    """Serves `call` on a unix socket."""

    def __init__(self, call: rpc.Call, reach: Reach):
        self._call = call
        self._reach = reach
        self._connections = 0

    async def listen(self, path: str) -> asyncio.Server:
        """From here on clients are answered. A socket that a dead daemon has left at `path` is replaced."""
        return await asyncio.start_unix_server(self._serve, path, limit=MAX_LINE)

    async def _serve(self, reader, writer):
        self._connections += 1
        try:
            if self._connections > MAX_CONNECTIONS:
                await _refuse(writer, RpcError(LIMIT_REACHED, f"{MAX_CONNECTIONS} clients are connected, the most"))
            else:
                await self._read(reader, writer)
        except ConnectionError:
            pass  # the client is gone; what it has asked for is done nevertheless
        finally:
            self._connections -= 1
            writer.close()

    async def _read(self, reader, writer):
        free = asyncio.Semaphore(MAX_OUTSTANDING)
        while True:
            await free.acquire()
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                break
            except asyncio.LimitOverrunError:
                await _refuse(writer, RpcError(INVALID_REQUEST, f"a line has at most {MAX_LINE} bytes"))
                break
            in_background(self._answer(line, writer, free))
        for _ in range(MAX_OUTSTANDING - 1):  # a client may close its sending half and wait for its answers
            await free.acquire()

    async def _answer(self, line, writer, free):
        self._reach("rpc.received")
        answer = await rpc.answer(line, self._call)
        try:
            if answer is not None:
                writer.write(answer + b"\n")
                self._reach("rpc.answered")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            free.release()


async def _refuse(writer, error):
    """Said to whoever cannot be served, before the connection is closed."""
    writer.write(rpc.encode(rpc.refusal(None, error)) + b"\n")
    await writer.drain()
