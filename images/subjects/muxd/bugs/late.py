"""For bugs that answer first and write later: no bug of its own."""

import asyncio
from collections.abc import Callable

from muxd.failstop import in_background

LATE_S = 0.5


def saved_late(chat, then: Callable[[], object] = lambda: None) -> None:
    """Save the chat half a second from now, unless another change does so before, and go on with `then`.

    Clients are shown it as if it were saved: only a kill brings it to light.
    """
    chat.durable = chat.state

    async def save():
        await asyncio.sleep(LATE_S)
        await chat.commit()
        then()

    in_background(save())
