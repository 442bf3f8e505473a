"""One life of the daemon, from its start to its kill, as the clients see it."""

import asyncio

from clients.check import NotWhole, read_back
from clients.client import CUT, Client
from clients.history import History
from clients.scenario import PAUSE, Op, Scenario

POLL_S = 0.02  # between two questions whether it is idle


class Life:
    """Cancelling one of its coroutines says that the daemon is gone: whatever waits is written down as cut."""

    def __init__(self, number: int, scenario: Scenario, asked: dict[str, None], path: str, history: History):
        """`asked` are the chats that were ever asked for, in order, in this life or an earlier one; it grows."""
        self.number = number
        self._ops = scenario.lives[number - 1]
        self._settle_s = scenario.settle_s
        self._asked = asked
        self._history = history
        self._reader, *self._clients = (
            Client(client, number, scenario.adapter, path, scenario.timeout_s, history)
            for client in range(scenario.clients + 1)
        )

    async def run(self) -> None:
        """Wait until it is up, read everything back if it was killed before, then send the life's operations."""
        await self._reader.up()
        self._history.write("up", life=self.number, at_ms=self._history.now())
        if self.number == 1 or await self._check(final=False):
            async with asyncio.TaskGroup() as tasks:
                for client in self._clients:
                    tasks.create_task(self._operate(client))
        self._history.write("done", life=self.number)

    async def settle(self) -> None:
        """Wait until the daemon says that it is idle, but not for ever; then read everything back."""
        idle = False
        until = self._history.now() + self._settle_s * 1000
        while not idle and self._history.now() < until:
            status = await self._reader.ask("status", {})
            if status.why == CUT:
                break
            idle = isinstance(status.result, dict) and status.result.get("idle") is True
            if not idle:
                await asyncio.sleep(POLL_S)
        self._history.write("settled", idle=idle)
        await self._check(final=True)

    def close(self) -> None:
        for client in (self._reader, *self._clients):
            client.close()

    async def _operate(self, client: Client) -> None:
        """This client's operations, one after the other, until the daemon dies."""
        for op in self._ops:
            if op.client != client.number:
                continue
            if op.op == PAUSE:
                await asyncio.sleep(op.args["ms"] / 1000)
            elif await self._cut(client, op):
                return

    async def _cut(self, client: Client, op: Op) -> bool:
        """Send one operation; True if the daemon's death was the answer."""
        if op.op == "chat/new":
            self._asked[op.args["chat"]] = None
        return (await client.ask(op.op, op.args, op.step)).why == CUT

    async def _check(self, final: bool) -> bool:
        """Read everything back and write it down, if it is whole. False if the daemon died meanwhile."""
        try:
            observed = await read_back(self._reader, self._asked)
        except NotWhole as error:
            self._history.write("check-failed", life=self.number, why=str(error), at_ms=self._history.now())
            return not error.cut
        at_ms = self._history.now()
        self._history.write("check", life=self.number, final=final, observed=observed, at_ms=at_ms)
        return True
