"""Setting an engine up and taking it away: what must be left alone, and what a person is told."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path

import psutil
import pytest

from lab.engine import host, install
from lab.engine.errors import DeadlinePassed, EngineUnavailable, LabError
from lab.engine.install import Daemon


def record(daemon: Daemon, pid: int, start_time_s: float) -> None:
    started = install.Started(pid, start_time_s, str(daemon.socket), str(daemon.log))
    daemon.record.write_text(json.dumps(started.__dict__))


def test_a_process_that_got_the_pid_of_a_dead_engine_is_not_stopped(tmp_path: Path) -> None:
    """Planted: the pid alone trusted; after a reboot `lab engine stop` ended whoever had that number (here: pytest)."""
    daemon = Daemon(tmp_path)
    record(daemon, os.getpid(), psutil.Process().create_time() - 3600)
    said: list[str] = []
    install.stop(daemon, said.append)
    assert "nothing to stop" in said[0]
    assert not daemon.record.exists()


def test_a_process_that_is_no_dockerd_is_not_stopped(tmp_path: Path) -> None:
    """Planted: pid and start time trusted, the name not looked at (here again: pytest)."""
    daemon = Daemon(tmp_path)
    record(daemon, os.getpid(), psutil.Process().create_time())
    said: list[str] = []
    install.stop(daemon, said.append)
    assert "nothing to stop" in said[0]


def test_an_engine_that_the_lab_did_not_start_is_not_stopped(tmp_path: Path) -> None:
    """Planted: `pkill dockerd`."""
    said: list[str] = []
    install.stop(Daemon(tmp_path), said.append)
    assert "nothing to stop" in said[0]


def test_a_damaged_record_is_an_error_and_not_a_guess(tmp_path: Path) -> None:
    """A full disk while the record was written."""
    daemon = Daemon(tmp_path)
    daemon.record.write_text('{"pid": 1')
    with pytest.raises(EngineUnavailable, match=r"engine\.json"):
        install.stop(daemon, print)
    assert daemon.record.exists()


def test_an_engine_that_the_user_named_is_never_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Planted: an installation on this machine although DOCKER_HOST names another that happens to be down."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(install, "provide", lambda *_: pytest.fail("it would have installed an engine"))
    with pytest.raises(EngineUnavailable, match=r"none\.sock"):
        install.ensure_engine(print)


def test_something_else_on_the_socket_is_no_engine_but_is_not_nothing_either(tmp_path: Path) -> None:
    """Planted: "does not answer" taken for "is not there", and a second dockerd started over a hung one."""
    path = tmp_path / "engine.sock"
    assert not install.listens(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert install.listens(path)
    assert not install.listens(path), "a socket file that nobody listens on is a dead engine's"
    assert not install.answers(path)


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
