"""Workers side by side: every task once, and nobody works on behind the back of who has stopped."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from lab.engine.errors import Interrupted, LabError
from lab.run.pool import Pool, Stop

WAIT_S = 10


def pool_of(size: int, stop: Stop | None = None) -> Pool:
    """Workers that are just numbers: what a task does with its worker is the test's own."""
    return Pool(cast(Any, list(range(size))), stop or Stop())


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Any:
    """A worker that lives on would use an engine client that is closed."""
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith("worker-")] == []


def test_every_task_is_done_once_by_some_worker() -> None:
    """The plan is a generator, which two workers may not enter at once; a task that both take is run twice."""

    def tasks() -> Iterator[int]:
        for task in range(200):
            time.sleep(0.0001)
            yield task

    found = list(pool_of(4).each(tasks(), lambda worker, task: task))
    assert Counter(found) == Counter(range(200))


def test_workers_really_work_side_by_side() -> None:
    """Four at a barrier: with fewer at once none would ever pass."""
    barrier = threading.Barrier(4, timeout=WAIT_S)
    assert len(list(pool_of(4).each(range(4), lambda worker, task: barrier.wait()))) == 4


def test_each_worker_keeps_to_what_it_owns() -> None:
    """An engine client must not be used from two threads."""
    used: dict[Any, set[str]] = {}

    def do(worker: Any, task: int) -> None:
        used.setdefault(worker, set()).add(threading.current_thread().name)

    list(pool_of(3).each(range(60), do))
    assert all(len(names) == 1 for names in used.values())


def test_the_first_exception_ends_the_queue_and_is_raised() -> None:
    """An error that stays in its thread makes a run that is silently short."""
    done = []

    def do(worker: Any, task: int) -> int:
        if task == 3:
            raise LabError("the engine is gone")
        done.append(task)
        return task

    with pytest.raises(LabError, match="the engine is gone"):
        list(pool_of(1).each(range(100), do))
    assert done == [0, 1, 2]


def test_an_exception_of_the_tasks_themselves_is_raised() -> None:
    """The plan is a generator: what goes wrong in it must not hang the pool."""

    def tasks() -> Any:
        yield 1
        raise LabError("no plan")

    with pytest.raises(LabError, match="no plan"):
        list(pool_of(2).each(tasks(), lambda worker, task: task))


def test_to_stop_soon_finishes_what_runs_and_takes_nothing_more() -> None:
    """The first Ctrl-C."""
    stop = Stop()

    def do(worker: Any, task: int) -> int:
        if task == 2:
            stop.ask()
        return task

    assert list(pool_of(1, stop).each(range(100), do)) == [0, 1, 2]
    assert stop.soon.is_set()
    assert not stop.now.is_set()


def test_to_stop_now_is_raised() -> None:
    """The second Ctrl-C."""
    stop = Stop()

    def do(worker: Any, task: int) -> int:
        stop.ask()
        stop.ask()
        return task

    with pytest.raises(Interrupted):
        list(pool_of(1, stop).each(range(100), do))


def test_who_takes_no_more_results_ends_the_workers() -> None:
    """A full disk stops the journal: the workers went on with thousands of trials on services that were removed."""
    done = []

    def do(worker: Any, task: int) -> None:
        done.append(task)
        time.sleep(0.001)

    with closing(pool_of(2).each(range(4000), do)) as results:
        next(results)
    assert not [t for t in threading.enumerate() if t.name.startswith("worker-")]
    assert len(done) < 2000


def test_all_gives_results_in_the_order_of_their_tasks() -> None:
    """Planted: the order in which they are ready; two censuses of one workload are then told apart by chance."""

    def do(worker: Any, task: int) -> int:
        time.sleep(0.02 if task == 0 else 0)
        return task

    assert pool_of(2).all(iter(range(6)), do) == list(range(6))
