"""Group commit: one durable write of a thing at a time, and those who wait meanwhile share the next one."""

import asyncio
from collections.abc import Awaitable, Callable


class Commits:
    """The one writer of a thing. `write` makes durable what has been changed by the time that it is called."""

    def __init__(self, write: Callable[[], Awaitable[None]]):
        self._write = write
        self._last: asyncio.Task | None = None  # writes now, or wrote last
        self._next: asyncio.Task | None = None  # waits for that one, and has read nothing yet

    async def commit(self) -> None:
        """Returns once everything that was changed before this call is durable."""
        if self._next is None:
            self._next = asyncio.create_task(self._write_after(self._last))
        await asyncio.shield(self._next)  # whoever waits may go away: the others wait on

    async def _write_after(self, last):
        if last is not None:
            await asyncio.wait([last])
        self._last, self._next = self._next, None
        await self._write()
