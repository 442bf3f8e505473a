"""Commands that the lab runs on its own machine, and the lock that labs share: every wait of them has an end."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import psutil
import pytest

from lab.engine import host
from lab.engine.errors import DeadlinePassed, Interrupted, LabError


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    """Planted: only the shell killed; its child kept the package database locked."""
    pid_file = tmp_path / "pid"
    with pytest.raises(DeadlinePassed):
        host.run(["sh", "-c", f"sleep 60 & echo $! > {pid_file}; wait"], timeout_s=0.5)
    child = int(pid_file.read_text())
    with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(child).wait(timeout=10)  # the kernel may take a moment over a kill
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_command_that_fails_says_its_own_last_words() -> None:
    """Planted: "apt-get failed" without the line that says which host was not found."""
    with pytest.raises(LabError, match=r"(?s)exit code 3.*the cause"):
        host.run(["sh", "-c", "echo the cause >&2; exit 3"], timeout_s=10)


def test_a_lock_that_is_not_let_go_is_given_up_with_its_name(tmp_path: Path) -> None:
    """Planted: a blocking flock; the second of two labs waited for ever behind a stopped one."""
    path, said = tmp_path / "a.lock", list[str]()
    with (
        host.locked(path, 1, print),
        pytest.raises(DeadlinePassed, match=r"a\.lock"),
        host.locked(path, 0.2, said.append),
    ):
        pytest.fail("two held one lock")
    assert len(said) == 1
    with host.locked(path, 0.2, said.append):
        assert len(said) == 1, "a free lock is taken without a word"


def test_a_wish_to_stop_ends_a_command_and_the_wait_for_a_lock(tmp_path: Path) -> None:
    """Report 17: Ctrl-C did nothing while wheels were fetched (300 s) or another lab built its images (an hour)."""
    stop = threading.Event()
    stop.set()
    began = time.monotonic()
    with pytest.raises(Interrupted, match="sleep 60"):
        host.run(["sleep", "60"], timeout_s=60, stop=stop)
    path = tmp_path / "a.lock"
    with host.locked(path, 1, print), pytest.raises(Interrupted), host.locked(path, 60, print, stop):
        pytest.fail("two held one lock")
    assert time.monotonic() - began < 10
