"""Obeys the controller: one JSON line of standard input after the other, until it ends."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator

from clients import scenario
from clients.history import History
from clients.life import Life
from clients.scenario import Unfit

MAX_LINE = 4 * 1024 * 1024  # of the controller, in bytes: a script
SOCKET = "/front/daemon.sock"


class Driver:
    """At most one life runs, or is waited for to settle."""

    def __init__(self, history: History):
        self._history = history
        self._path = os.environ.get("LAB_SOCKET", SOCKET)
        self._scenario: scenario.Scenario | None = None
        self._asked: dict[str, None] = {}  # chats of every life so far
        self._life: Life | None = None
        self._running: asyncio.Task | None = None

    async def obey(self) -> None:
        """Raises Unfit for what cannot be done, and whatever a life raises, both in a group."""
        async with asyncio.TaskGroup() as tasks:
            async for command in _commands():
                match command:
                    case {"do": "script", "scenario": script} if self._scenario is None:
                        self._scenario = scenario.read(script)
                    case {"do": "life", "life": int(number)} if self._scenario is not None:
                        self._life = self._begin(number)
                        self._running = tasks.create_task(self._life.run())
                    case {"do": "settle"} if self._life is not None and self._running.done():
                        self._running = tasks.create_task(self._life.settle())
                    case {"do": "killed", "life": int(number)}:
                        await self._killed(number)
                    case _:
                        raise Unfit(f"cannot do this now: {json.dumps(command)[:200]}")
            await self._give_up()

    def _begin(self, number: int) -> Life:
        if self._life is not None:
            raise Unfit(f"life {number} begins before life {self._life.number} was killed")
        if not 1 <= number <= len(self._scenario.lives):
            raise Unfit(f"life {number}: the script has {len(self._scenario.lives)}")
        return Life(number, self._scenario, self._asked, self._path, self._history)

    async def _killed(self, number: int) -> None:
        if self._life is None or self._life.number != number:
            raise Unfit(f"life {number} was killed, but it is not the one that runs")
        await self._give_up()
        self._history.write("gone", life=number)

    async def _give_up(self) -> None:
        """End the life, if there is one; every request of it has its line when this returns."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        if self._life is not None:
            self._life.close()
        self._life = self._running = None


async def _commands() -> AsyncIterator[object]:
    kind = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):  # no loop can wait for anything else
        raise Unfit("standard input is not a pipe: the controller has to hold its other end")
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            raise Unfit(f"a line of more than {MAX_LINE} bytes") from None
        if not line.endswith(b"\n"):
            return
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Unfit(f"not JSON ({error}): {line[:200]!r}") from None
