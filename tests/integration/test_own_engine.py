"""The scripts of the set-up, on a real dockerd of their own beside the machine's: socket and files in one folder.

A bare machine is what they are for, so the machine's engine is hidden from them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import psutil
import pytest

from lab.engine.host import run

ROOT = Path(__file__).resolve().parents[2]
NO_BOOT = "0" * 8 + "-0000-0000-0000-" + "0" * 12

pytestmark = [
    pytest.mark.docker,
    # Not for want of an engine: where these do not hold, the scripts start none either, and leave it to the lab.
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("dockerd") is None, reason="only root starts a dockerd"),
]

# A network namespace of its own is not for show: a dockerd with `--bridge=none` deletes `docker0`, whosever it is.
DOCKERD = """#!/bin/sh
exec unshare --net {dockerd} "$@" --data-root {state}/data --exec-root {state}/exec --pidfile {state}/docker.pid \\
    --bridge=none --iptables=false --ip6tables=false
"""
DOCKER = """#!/bin/sh
DOCKER_HOST=${{DOCKER_HOST:-unix://{state}/docker.sock}} exec {docker} "$@"
"""


@dataclass(frozen=True)
class Machine:
    """A machine as the scripts see it: their state, the socket, and programs that stand before the real ones."""

    state: Path

    @property
    def socket(self) -> Path:
        return self.state / "docker.sock"

    @property
    def record(self) -> Path:
        return self.state / "engine"

    def program(self, name: str, text: str) -> None:
        path = self.state / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        hidden = ("DOCKER_HOST", "DOCKER_CONTEXT", "LAB_BASE")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {
            "PATH": f"{self.state}/bin:{os.environ['PATH']}",
            "LAB_STATE": str(self.state),
            "LAB_SOCKET": str(self.socket),
        } | variables
        return subprocess.Popen(
            [ROOT / ".ci" / command[0], *command[1:]],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, *command: str, **variables: str) -> tuple[int, str]:
        """Exit status and output of one of the scripts in .ci/."""
        with self.start(*command, **variables) as process:
            output, _ = process.communicate(timeout=90)
        return process.returncode, output

    def family(self) -> list[psutil.Process]:
        """Every process of its engine."""
        found = psutil.process_iter(["cmdline", "status"])
        ours = [p for p in found if str(self.state) in " ".join(p.info["cmdline"] or [])]
        return [p for p in ours if p.info["status"] != psutil.STATUS_ZOMBIE]

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=f"unix://{self.socket}", timeout=30)


def bridge_index() -> str | None:
    """The kernel's number of the machine's own `docker0`: another one, or none, if it was ever taken away."""
    path = Path("/sys/class/net/docker0/ifindex")
    return path.read_text() if path.exists() else None


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine on which no engine runs yet."""
    bridge = bridge_index()
    machine = Machine(Path(tempfile.mkdtemp(prefix="lab-")))  # not tmp_path: a socket's path holds 107 characters
    (machine.state / "bin").mkdir()
    machine.program("dockerd", DOCKERD.format(dockerd=shutil.which("dockerd"), state=machine.state))
    machine.program("docker", DOCKER.format(docker=shutil.which("docker"), state=machine.state))
    yield machine
    for process in machine.family():
        with contextlib.suppress(psutil.NoSuchProcess):  # a script's child ends with it
            process.terminate()
    psutil.wait_procs(machine.family(), timeout=20)
    shutil.rmtree(machine.state)
    assert bridge_index() == bridge, "the machine's engine has lost its network"


def sleep_alone() -> bytes:
    """The smallest image: this machine's `sleep` and the libraries that it loads. No registry, no build."""
    root = io.BytesIO()
    with tarfile.open(fileobj=root, mode="w", dereference=True) as tar:
        for path in ["/bin/sleep", *re.findall(r"/\S+", run(["ldd", "/bin/sleep"], timeout_s=10))]:
            tar.add(path, path)
    return root.getvalue()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_calls_at_once_start_one_engine_and_it_is_stopped_whole(machine: Machine) -> None:
    """Planted: no lock, and two dockerds on one data folder; and a stop that left containerd behind."""
    with machine.start("engine", "start") as first, machine.start("engine", "start") as second:
        said = first.communicate(timeout=90)[0] + second.communicate(timeout=90)[0]
    assert (first.returncode, second.returncode) == (0, 0)
    assert said.count("started dockerd") == 1
    assert len(machine.family()) == 2, "dockerd and its containerd"
    assert machine.call("engine", "start") == (0, ""), "an engine that is there is left alone"

    status, said = machine.call("engine", "stop")
    assert (status, "stopped dockerd" in said) == (0, True)
    assert machine.family() == []
    assert not machine.record.exists()


def test_an_engine_whose_starter_was_killed_is_still_the_labs(machine: Machine) -> None:
    """Planted: the record written once dockerd answers; a kill before that left one that nobody ever stops."""
    starter = machine.start("engine", "start")
    until(lambda: any(process.name() == "dockerd" for process in machine.family()))
    starter.kill()
    starter.communicate(timeout=10)
    status, said = machine.call("engine", "start")
    assert (status, "started dockerd" in said) == (0, False), "the first one is waited for, and no second one started"
    assert machine.call("engine", "stop")[0] == 0
    assert machine.family() == []


def test_a_start_that_is_told_to_end_leaves_no_engine(machine: Machine) -> None:
    """Planted: a half-started dockerd left behind by Ctrl-C."""
    starter = machine.start("engine", "start")
    until(lambda: any(process.name() == "dockerd" for process in machine.family()))
    starter.send_signal(signal.SIGTERM)
    assert starter.wait(30) == 143
    assert [process for process in machine.family() if process.name() == "dockerd"] == []
    assert not machine.record.exists()


def test_an_engine_on_which_containers_run_is_not_stopped(machine: Machine) -> None:
    """Planted: a CI that stops "its" engine under the lab that a person runs on it meanwhile."""
    assert machine.call("engine", "start")[0] == 0
    client = machine.client()
    client.api.import_image_from_data(sleep_alone(), repository="test", tag="sleep")
    container = client.containers.run("test:sleep", ["/bin/sleep", "60"], name="at-work", network="none", detach=True)
    try:
        status, said = machine.call("engine", "stop")
        assert (status, "at-work" in said) == (64, True)
        assert client.ping()
    finally:
        container.remove(force=True)
        client.close()
    assert machine.call("engine", "stop")[0] == 0


def test_a_dockerd_that_ends_at_once_is_reported_with_its_own_last_words(machine: Machine) -> None:
    """Planted: a minute's wait for an engine that had already said why it would not start."""
    machine.program("dockerd", f"#!/bin/sh\nexec {shutil.which('dockerd')} --no-such-option\n")
    status, said = machine.call("engine", "start")
    assert (status, "no-such-option" in said) == (3, True)
    assert not machine.record.exists()


@pytest.mark.parametrize("forged", ["another start", "another boot", "no dockerd", "no record"])
def test_only_the_very_dockerd_on_record_is_stopped(machine: Machine, forged: str) -> None:
    """Planted: the pid alone trusted; after a reboot, whoever had that number was ended (here: pytest)."""
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    records = {
        "another start": f"{os.getpid()} 1 {boot}\n",
        "another boot": f"{os.getpid()} {start} {NO_BOOT}\n",
        "no dockerd": f"{os.getpid()} {start} {boot}\n",
    }
    if forged in records:
        machine.record.write_text(records[forged])
    assert machine.call("engine", "stop") == (0, "engine   none that .ci/engine started is running\n")
    assert not machine.record.exists()


def test_a_damaged_record_is_an_error_and_not_a_guess(machine: Machine) -> None:
    """A full disk while the record was written."""
    machine.record.write_text("12")
    status, said = machine.call("engine", "stop")
    assert (status, str(machine.record) in said) == (3, True)
    assert machine.record.exists()


def test_an_engine_that_the_user_named_is_never_replaced(machine: Machine) -> None:
    """Planted: an installation on this machine although DOCKER_HOST names another that happens to be down."""
    assert machine.call("engine", "start", DOCKER_HOST=f"unix://{machine.state}/none.sock") == (0, "")
    assert machine.family() == []


def test_something_else_on_the_socket_is_no_engine_but_is_not_nothing_either(machine: Machine) -> None:
    """Planted: "does not answer" taken for "is not there", and a second dockerd started over a hung one."""
    machine.program("docker", "#!/bin/sh\nexit 1\n")  # a hung engine answers no command; here, at once
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(machine.socket))
        server.listen()
        assert machine.call("engine", "start") == (0, "")
    assert machine.family() == []


MMDEBSTRAP = """#!/bin/sh
echo call >>{state}/calls
for last; do :; done
cp {state}/root.tar "$last"
"""


def test_a_base_is_made_once_where_no_registry_is_reached(machine: Machine) -> None:
    """Planted: no lock; two made one each, and the name went from the one that was in use to the other."""
    assert machine.call("engine", "start")[0] == 0
    (machine.state / "root.tar").write_bytes(sleep_alone())
    machine.program("mmdebstrap", MMDEBSTRAP.format(state=machine.state))
    assert machine.call("base", LAB_BASE="mine:1") == (0, ""), "the user has another"
    with machine.start("base") as first, machine.start("base") as second:
        said = first.communicate(timeout=90)[0] + second.communicate(timeout=90)[0]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert said.count("base     made lab/bootstrapped:bookworm") == 1
    assert "base     it cannot be pulled: " in said
    assert (machine.state / "calls").read_text() == "call\n"
    assert machine.client().images.get("lab/bootstrapped:bookworm")
    assert machine.call("base") == (0, ""), "what is there is not made again"


def test_a_base_that_cannot_be_made_is_reported_and_half_a_one_has_no_name(machine: Machine) -> None:
    """Planted: piped into the import, which made an image of what had come through before the mirror failed."""
    assert machine.call("engine", "start")[0] == 0
    machine.program("mmdebstrap", "#!/bin/sh\nfor last; do :; done\necho half >$last\necho E: no mirror >&2\nexit 25\n")
    status, said = machine.call("base")
    assert (status, "E: no mirror" in said) == (3, True)
    with pytest.raises(docker.errors.ImageNotFound):
        machine.client().images.get("lab/bootstrapped:bookworm")
