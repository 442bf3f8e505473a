"""Workers side by side: each a thread with an engine client and a namespace holder of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from lab.engine.errors import Interrupted
from lab.storage import Provisioner
from lab.trial.worker import Services, Worker

Task = TypeVar("Task")
Done = TypeVar("Done")

POLL_S = 0.25  # how often the main thread wakes up for signals


class Stop:
    """The user's wish to stop: `soon` finishes what runs, `now` ends every wait."""

    def __init__(self) -> None:
        self.soon = threading.Event()
        self.now = threading.Event()

    def ask(self) -> None:
        """Called for each Ctrl-C: the first is `soon`, the second `now`."""
        (self.now if self.soon.is_set() else self.soon).set()


@dataclass(frozen=True)
class _Ended:
    """A worker has nothing more to do, or failed."""

    error: BaseException | None


class Pool:
    """A fixed number of workers. Made by `open_pool`, which releases them."""

    def __init__(self, workers: list[Worker], stop: Stop) -> None:
        self._workers = workers
        self._stop = stop

    @property
    def size(self) -> int:
        return len(self._workers)

    def each(self, tasks: Iterable[Task], do: Callable[[Worker, Task], Done]) -> Generator[Done, None, None]:
        """Do every task on some worker; results come as they are ready, in any order.

        Stops taking tasks once the user wants to stop soon. The first exception of a task ends the others' queue, waits
        for what runs, and is raised; Interrupted if the user wants to stop now. Closing it ends the queue as well.
        """
        waiting = iter(tasks)
        lock = threading.Lock()
        results: queue.Queue[Done | _Ended] = queue.Queue()
        over = threading.Event()

        def work(worker: Worker) -> None:
            failed = None
            try:
                while not over.is_set() and not self._stop.soon.is_set():
                    with lock:
                        task = next(waiting, None)
                    if task is None:
                        break
                    results.put(do(worker, task))
            except BaseException as error:  # noqa: BLE001 - it is raised again in the main thread
                over.set()
                failed = error
            results.put(_Ended(failed))

        threads = [threading.Thread(target=work, args=(w,), name=f"worker-{i}") for i, w in enumerate(self._workers)]
        for thread in threads:
            thread.start()
        try:
            yield from _collect(results, len(threads))
        finally:
            over.set()  # who takes the results may stop early: no worker may go on behind its back
            for thread in threads:
                thread.join()
        if self._stop.now.is_set():
            raise Interrupted("at once")

    def all(self, tasks: Iterable[Task], do: Callable[[Worker, Task], Done]) -> list[Done]:
        """`each` for work that is of use only as a whole, such as a census: every result, in the order of the tasks.

        Raises Interrupted if it is stopped.
        """
        asked = list(tasks)
        done = dict(self.each(range(len(asked)), lambda worker, n: (n, do(worker, asked[n]))))
        if len(done) < len(asked):
            raise Interrupted("before the first trial")
        return [done[n] for n in range(len(asked))]


def _collect(results: queue.Queue[Done | _Ended], running: int) -> Iterator[Done]:
    first_error: BaseException | None = None
    while running:
        try:
            found = results.get(timeout=POLL_S)
        except queue.Empty:
            continue
        if isinstance(found, _Ended):
            running -= 1
            first_error = first_error or found.error
        else:
            yield found
    if first_error is not None:
        raise first_error


@contextmanager
def open_pool(services: Services, layers: Mapping[str, Provisioner], size: int, stop: Stop) -> Iterator[Pool]:
    with ExitStack() as stack:
        yield Pool([stack.enter_context(services.worker(n, layers, stop.now)) for n in range(1, size + 1)], stop)
