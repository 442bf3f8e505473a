"""N processes that do one thing at once: forked, made ready each for itself, and released together."""

import os
import sys
from collections.abc import Callable

CRASHED = 70  # EX_SOFTWARE


def race(count: int, ready: Callable[[int], Callable[[], int]]) -> list[int]:
    """The racers' exit codes, first racer first; negative for a signal.

    `ready(n)` is called in the process of racer n (from 1), where nothing of the parent's may be used; what it returns
    is called once every racer is ready, and gives the exit code. The caller must hold no lock and no connection.
    """
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    racers = []
    for number in range(1, count + 1):
        racer = os.fork()
        if racer == 0:
            os.close(ready_read)
            os.close(go_write)
            _live(number, ready, ready_write, go_read)
        racers.append(racer)
    os.close(ready_write)
    os.close(go_read)
    _await(ready_read, count)
    os.close(go_write)  # releases them all
    return [os.waitstatus_to_exitcode(os.waitpid(racer, 0)[1]) for racer in racers]


def _live(number, ready, ready_write, go_read):
    """The life of a racer. Never returns into the parent's code."""
    code = CRASHED
    try:
        go = ready(number)
        os.write(ready_write, b".")
        os.close(ready_write)
        os.read(go_read, 1)  # its end is the signal
        code = go()
    except BaseException:  # noqa: BLE001 - a racer that fails must end here and say so
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


def _await(ready_read, count):
    """Until all are ready, or those that are not have died."""
    while count:
        data = os.read(ready_read, count)
        if not data:
            break
        count -= len(data)
    os.close(ready_read)
