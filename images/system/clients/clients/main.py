"""The `clients` command: standard input is the controller's, standard output the history. See docs/fuzz.md."""

import asyncio
import time
from sys import stderr

from clients.driver import Driver
from clients.heartbeat import Heartbeat
from clients.history import History
from clients.scenario import Unfit

USAGE = """\
usage: clients
It reads the controller's lines and writes the history, both as docs/fuzz.md has them, until its input ends.
LAB_SOCKET is the daemon's unix socket (default /front/daemon.sock).
exit: 0 the input ended · 64 a script or a command that is none · 70 its own fault"""

EX_USAGE = 64
EX_SOFTWARE = 70


def main(arguments: list[str]) -> int:
    if arguments:
        print(USAGE, file=stderr)
        return EX_USAGE
    began = time.monotonic()
    heartbeat = Heartbeat.start()  # a fork: before there is a loop that it would share
    return asyncio.run(_serve(History(began), heartbeat))


async def _serve(history: History, heartbeat: Heartbeat) -> int:
    """Obey until the input ends. Whatever goes wrong here is in the history, so that no trial passes by it."""
    code = 0
    try:
        heartbeat.listen(history)
        await Driver(history).obey()
    except* Unfit as group:
        history.error(str(_first(group)))
        code = EX_USAGE
    except* Exception as group:  # noqa: BLE001 (whatever it is, the trial must hear of it)
        error = _first(group)
        history.error(f"the clients failed: {type(error).__name__}: {error}")
        code = EX_SOFTWARE
    await history.written()
    return code


def _first(group: BaseExceptionGroup) -> BaseException:
    """The first error of a group, however deep: the others follow from it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
