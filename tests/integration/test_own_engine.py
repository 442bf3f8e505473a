"""A real dockerd of the lab's own, beside the machine's, on its own socket and folders: started once, stopped whole."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import psutil
import pytest

from lab.engine import install
from lab.engine.errors import EngineUnavailable, UsageError
from lab.engine.host import run
from lab.engine.install import Daemon

pytestmark = [
    pytest.mark.docker,
    # Not for want of an engine: where these do not hold, the lab starts none either, and says so.
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("dockerd") is None, reason="only root starts a dockerd"),
]


def bridge_index() -> str | None:
    """The kernel's number of the machine's own `docker0`: another one, or none, if it was ever taken away."""
    path = Path("/sys/class/net/docker0/ifindex")
    return path.read_text() if path.exists() else None


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A dockerd that shares nothing with the machine's: files in one folder, and a network namespace of its own.

    The namespace is not for show: a dockerd with `--bridge=none` deletes `docker0`, whoever it belongs to.
    """
    bridge = bridge_index()
    state = Path(tempfile.mkdtemp(prefix="lab-"))  # not tmp_path: a unix socket's path holds 107 characters
    paths = {"--data-root": "data", "--exec-root": "exec", "--pidfile": "docker.pid"}
    options = [part for option, name in paths.items() for part in (option, str(state / name))]
    program = ("unshare", "--net", "dockerd", *options, "--bridge=none", "--iptables=false", "--ip6tables=false")
    daemon = Daemon(state, state / "docker.sock", program)
    yield daemon
    if install.answers(daemon.socket):
        install.stop(daemon, print)
    shutil.rmtree(state)
    assert bridge_index() == bridge, "the machine's engine has lost its network"


def test_two_labs_at_once_start_one_engine_and_it_is_stopped_whole(daemon: Daemon) -> None:
    """Planted: no lock, and two dockerds on one data folder; and a stop that left containerd behind."""
    said: list[str] = []
    threads = [threading.Thread(target=install.provide, args=(daemon, said.append)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert install.answers(daemon.socket)
    assert sum("started dockerd" in line for line in said) == 1
    family = [p.pid for p in psutil.process_iter(["cmdline"]) if str(daemon.state) in " ".join(p.info["cmdline"] or [])]
    assert len(family) == 2, "dockerd and its containerd"

    install.stop(daemon, said.append)
    assert "stopped dockerd" in said[-1]
    assert not install.listens(daemon.socket)
    assert not daemon.record.exists()
    left = [pid for pid in family if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
    assert not left


def sleep_alone() -> bytes:
    """The smallest image: this machine's `sleep` and the libraries that it loads. No registry, no build."""
    root = io.BytesIO()
    with tarfile.open(fileobj=root, mode="w", dereference=True) as tar:
        for path in ["/bin/sleep", *re.findall(r"/\S+", run(["ldd", "/bin/sleep"], timeout_s=10))]:
            tar.add(path, path)
    return root.getvalue()


def test_an_engine_on_which_containers_run_is_not_stopped(daemon: Daemon) -> None:
    """Planted: a CI that stops "its" engine under the lab that a person runs on it meanwhile."""
    install.start(daemon)
    client = docker.DockerClient(base_url=f"unix://{daemon.socket}", timeout=30)
    client.api.import_image_from_data(sleep_alone(), repository="test", tag="sleep")
    container = client.containers.run("test:sleep", ["/bin/sleep", "60"], name="at-work", network="none", detach=True)
    try:
        with pytest.raises(UsageError, match="at-work"):
            install.stop(daemon, print)
        assert install.answers(daemon.socket)
    finally:
        container.remove(force=True)
        client.close()


def test_a_dockerd_that_ends_at_once_is_reported_with_its_own_last_words(daemon: Daemon) -> None:
    """Planted: a minute's wait for an engine that had already said why it would not start."""
    broken = Daemon(daemon.state, daemon.socket, ("dockerd", "--no-such-option"))
    with pytest.raises(EngineUnavailable, match="no-such-option"):
        install.start(broken)
    assert not broken.record.exists()
