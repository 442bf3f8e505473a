"""Fail-stop: a daemon that can no longer keep its promises ends at once; a restart then recovers what was promised."""

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

EX_SOFTWARE = 70
EX_IOERR = 74
THREADS = 8  # durable writes at once; one that stands at a hook holds one of them

_threads = ThreadPoolExecutor(THREADS, "disk")
_background: set[asyncio.Task] = set()  # the loop itself keeps no strong reference to a task


async def in_thread(write: Callable, *arguments) -> None:
    """Do a durable write while the loop serves others.

    If it fails, nobody knows what is on the disk, and no later write makes that known: the daemon ends.
    """
    try:
        await asyncio.get_running_loop().run_in_executor(_threads, write, *arguments)
    except OSError as error:
        print(f"muxd: {error}: cannot write the home; free it and start muxd again", file=sys.stderr, flush=True)
        os._exit(EX_IOERR)
    except Exception as error:  # noqa: BLE001 - a fault of our own, in the one place where it must not be survived
        _end(error)


def in_background(work: Coroutine) -> None:
    """Start a task that nobody waits for. Where it fails, the daemon ends."""
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_ended)


def _ended(task):
    _background.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _end(error)


def _end(error):
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(EX_SOFTWARE)
