"""N processes that do one op at once: each opens the store by itself, and all are released together.

To import the package takes longer than all the rest, so racers are forked; but SQLite forbids a connection, and the
gateway its lock, to be carried across a fork. So they are forked from a process that was forked before anything was
opened, and that opens nothing.
"""

import json
import os
import traceback
from collections.abc import Callable

READY = "race.ready"
CRASHED = 70  # EX_SOFTWARE

Racer = Callable[[int], Callable[[dict], int]]  # number → made ready; then op → exit code


class ForkServer:
    """The process that racers are forked from. Ends with its parent."""

    def __init__(self, racer: Racer):
        here, there = _pipe(), _pipe()
        if os.fork() == 0:
            here[1].close()
            there[0].close()
            _serve(here[0], there[1], racer)
        here[0].close()
        there[1].close()
        self._answers, self._orders = there[0], here[1]

    def race(self, racers: int, op: dict) -> list[int]:
        """Their exit codes, first racer first: 0 won, 10 lost, anything else a crash; negative for a signal."""
        print(json.dumps([racers, op]), file=self._orders, flush=True)
        return json.loads(self._answers.readline())


def _pipe():
    read, write = os.pipe()
    return os.fdopen(read), os.fdopen(write, "w")


def _serve(orders, answers, racer):
    """Never returns into the parent's code."""
    code = CRASHED
    try:
        for line in orders:
            print(json.dumps(_race(*json.loads(line), racer)), file=answers, flush=True)
        code = 0
    finally:
        os._exit(code)


def _race(racers, op, racer):
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    started = []
    for number in range(1, racers + 1):
        process = os.fork()
        if process == 0:
            os.close(go_write)  # the last one that holds it would never be released
            _live(number, op, racer, ready_write, go_read)
        started.append(process)
    os.close(ready_write)
    os.close(go_read)
    while os.read(ready_read, racers):  # until each is ready and has let go of its end, or has died
        pass
    os.close(ready_read)
    os.close(go_write)  # releases them all
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started]


def _live(number, op, racer, ready, go):
    """The life of a racer. Never returns into the parent's code."""
    code = CRASHED
    try:
        do = racer(number)
        os.close(ready)
        os.read(go, 1)
        code = do(op)
    except Exception:  # noqa: BLE001  (whatever it is, it is a crash, told by the exit code and these words)
        traceback.print_exc()
    finally:
        os._exit(code)
