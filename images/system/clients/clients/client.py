"""One client: a connection of its own, one request after the other, and what became of each.

Either it was answered, or nobody knows, and the history says why: the daemon died (`cut`), it took too long
(`timeout`), or the connection was closed and the daemon lives (`closed`): then it answers on another connection.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from clients.adapters import ConnectionEnded, Malformed, Refused, Unreachable
from clients.history import History

CUT = "cut"
TIMEOUT = "timeout"
CLOSED = "closed"
AGAIN_S = 0.01  # until a daemon that is not there yet is tried again
ALIVE_S = 1.0  # a daemon that has closed a connection and does not answer another for so long is dead or dying


@dataclass(frozen=True)
class Outcome:
    """How one request ended: `result` of an answer, `refused`, or `why` there is none."""

    result: Any = None
    refused: Refused | None = None
    why: str = ""


class Client:
    """Client 0 is the one that reads back."""

    def __init__(self, number: int, life: int, adapter, path: str, timeout_s: float, history: History):
        self.number = number
        self._life = life
        self._adapter = adapter
        self._path = path
        self._timeout_s = timeout_s
        self._history = history
        self._connection = None

    async def ask(self, op: str, args: dict, step: int = 0) -> Outcome:
        """Send a request and write down what becomes of it.

        Being cancelled says that the daemon is gone. What it had answered before that has been read by then: it was in
        the socket before the controller could know of the death, and the loop reads all that is there.
        """
        ident = self._history.invoke(self._life, step, self.number, op, args)
        answer = asyncio.create_task(self._request(op, args))
        ended = None
        try:
            await asyncio.wait({answer}, timeout=self._timeout_s)
            if not self._ended(answer):
                return self._settle(ident, answer, TIMEOUT)
            ended = self._history.now()
            alive = isinstance(answer.exception(), Malformed) or await self._daemon_answers()
        except asyncio.CancelledError:
            self._settle(ident, answer, CUT, ended)
            raise
        return self._settle(ident, answer, CLOSED if alive else CUT, ended)

    async def up(self) -> None:
        """Ask for the daemon's status until it answers; for ever, if need be. Not in the history: it still starts."""
        while True:
            try:
                await self._request("status", {})
                return
            except (Refused, ConnectionEnded):
                self.close()
                await asyncio.sleep(AGAIN_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _request(self, op: str, args: dict):
        if self._connection is None:
            self._connection = await self._adapter.connect(self._path)
        return await self._connection.request(op, args)

    @staticmethod
    def _ended(answer: asyncio.Task) -> bool:
        """Whether its connection ended before the answer."""
        return answer.done() and isinstance(answer.exception(), ConnectionEnded)

    def _settle(self, ident: int, answer: asyncio.Task, why: str, at_ms: float | None = None) -> Outcome:
        """Write down the answer; or `why` there is none, and then give the connection up."""
        at_ms = self._history.now() if at_ms is None else at_ms
        error = answer.exception() if answer.done() else None
        if isinstance(error, Refused):
            told = {"code": error.code, "message": str(error)}
            self._history.write("fail", id=ident, error=told, at_ms=at_ms)
            return Outcome(refused=error)
        if answer.done() and error is None:
            self._history.write("ok", id=ident, result=answer.result(), at_ms=at_ms)
            return Outcome(result=answer.result())
        answer.cancel()
        self.close()
        if error is not None and not isinstance(error, ConnectionEnded):
            raise error  # a fault of the adapter
        malformed = {"what": str(error)} if isinstance(error, Malformed) else {}
        self._history.write("info", id=ident, why=why, **malformed, at_ms=at_ms)
        return Outcome(why=why)

    async def _daemon_answers(self) -> bool:
        """Whether the daemon lives: a new connection is answered. A dead one's socket refuses at once."""
        try:
            async with asyncio.timeout(ALIVE_S):
                while True:
                    try:
                        return await self._answers_once()
                    except ConnectionEnded:
                        await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            return False

    async def _answers_once(self) -> bool:
        try:
            connection = await self._adapter.connect(self._path)
        except Unreachable:
            return False
        try:
            await connection.request("status", {})
        except Refused:
            pass
        finally:
            connection.close()
        return True
