"""Gives a bare Debian machine a Docker engine, and takes away again only the one that it started itself.

An engine that answers is left alone, whoever started it. Nothing is installed unless we are root on a Linux with
apt-get and the user has named no other engine. What was started is recorded in the state folder: `lab engine stop`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import docker
import docker.errors
import psutil
import requests

from lab.engine.client import connect
from lab.engine.errors import EngineUnavailable, LabError, UsageError
from lab.engine.host import LAST_LINES, Say, can_install_packages, install_packages, locked, state_folder

# Program → Debian package. docker.io only suggests iptables, but without it dockerd does not start.
NEEDED = {"dockerd": "docker.io", "iptables": "iptables"}
START_TIMEOUT_S = 60.0  # 1-5 s here; the first start makes the data folder
STOP_TIMEOUT_S = 60.0  # dockerd gives each container that still runs 10 s
UNIT_TIMEOUT_S = 15.0  # where systemd starts the engine itself after the installation
LOCK_WAIT_S = 900.0  # longer than another lab's whole installation
POLL_S = 0.1
SAME_START_S = 2.0  # psutil computes a start time from the boot time, which moves when the clock is set


@dataclass(frozen=True)
class Daemon:
    """How a dockerd of ours is run: the folder of its record and log, its socket, and the program with its options."""

    state: Path
    socket: Path = Path("/var/run/docker.sock")
    program: tuple[str, ...] = ("dockerd",)

    @property
    def record(self) -> Path:
        return self.state / "engine.json"

    @property
    def log(self) -> Path:
        return self.state / "dockerd.log"

    @property
    def command(self) -> tuple[str, ...]:
        return (*self.program, "--host", f"unix://{self.socket}")


@dataclass(frozen=True)
class Started:
    """The record of a dockerd that we started. A pid alone is no proof: the kernel gives it out again."""

    pid: int
    start_time_s: float  # since the epoch, as psutil tells it
    socket: str
    log: str


def ensure_engine(say: Say) -> None:
    """Leave an engine that answers alone; else install and start one where that may be done.

    Raises EngineUnavailable, with what a person can do.
    """
    daemon = Daemon(state_folder())
    try:
        connect().close()
    except EngineUnavailable:
        # Only if nothing at all is there: an engine that is too old or refuses us is the user's to mend.
        if os.environ.get("DOCKER_HOST") or not can_install_packages() or listens(daemon.socket):
            raise
        provide(daemon, say)
        connect().close()


def provide(daemon: Daemon, say: Say) -> None:
    """Install what is missing and start `daemon`, unless another lab has done so meanwhile."""
    with locked(daemon.state / "engine.lock", LOCK_WAIT_S, say):
        if answers(daemon.socket):
            return
        missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
        if missing:
            say(f"engine   installing {' and '.join(missing)}")
            try:
                install_packages(missing)
            except LabError as error:
                raise EngineUnavailable(f"no Docker engine here, and none could be installed: {error.what}") from error
            if Path("/run/systemd/system").exists() and _wait_until_it_answers(daemon.socket, UNIT_TIMEOUT_S):
                say("engine   installed; systemd has started it and stops it")
                return
        start(daemon)
        say(f"engine   started dockerd, log in {daemon.log}; stop it with `lab engine stop`")


def start(daemon: Daemon) -> Started:
    """Start dockerd in a session of its own, so that it outlives us, and wait until it answers.

    Raises EngineUnavailable with the end of its log if it ends or does not answer; it is then gone again.
    """
    daemon.state.mkdir(parents=True, exist_ok=True)
    with daemon.log.open("wb") as log:
        process = subprocess.Popen(
            daemon.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    with _stopped_on_failure(process, daemon):
        started = Started(process.pid, psutil.Process(process.pid).create_time(), str(daemon.socket), str(daemon.log))
        daemon.record.write_text(json.dumps(asdict(started), indent=1) + "\n")
        until = time.monotonic() + START_TIMEOUT_S
        while not answers(daemon.socket):
            if process.poll() is not None:
                raise EngineUnavailable(f"dockerd ended with exit code {process.returncode}:\n  {_last_words(daemon)}")
            if time.monotonic() > until:
                raise EngineUnavailable(
                    f"dockerd does not answer after {START_TIMEOUT_S:g} s:\n  {_last_words(daemon)}"
                )
            time.sleep(POLL_S)
    return started


@contextmanager
def _stopped_on_failure(process: subprocess.Popen[bytes], daemon: Daemon) -> Iterator[None]:
    """No half-started dockerd is left behind, on an interrupt either."""
    try:
        yield
    except BaseException:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        daemon.record.unlink(missing_ok=True)
        raise


def stop_engine(say: Say) -> None:
    """Stop the dockerd that we started, if there is one, and wait until it and its containerd are gone."""
    stop(Daemon(state_folder()), say)


def stop(daemon: Daemon, say: Say) -> None:
    """Stop the recorded dockerd. Raises UsageError if containers run on it, EngineUnavailable if it does not end."""
    with locked(daemon.state / "engine.lock", LOCK_WAIT_S, say):
        process = _ours(daemon)
        if process is None:
            say("engine   the lab started none that still runs: nothing to stop")
            daemon.record.unlink(missing_ok=True)
            return
        if running := _running_containers(daemon.socket):
            raise UsageError(
                f"the engine still runs {len(running)} containers, of another lab perhaps: {', '.join(running)}",
                "`lab gc` removes what dead runs left. End the rest, then stop the engine.",
            )
        family = [process, *process.children(recursive=True)]
        process.terminate()
        until = time.monotonic() + STOP_TIMEOUT_S
        while alive := [str(member.pid) for member in family if _lives(member)]:
            if time.monotonic() > until:
                raise EngineUnavailable(
                    f"the engine did not stop within {STOP_TIMEOUT_S:g} s; still there: pid {', '.join(alive)}",
                    f"See {daemon.log}.",
                )
            time.sleep(POLL_S)
        daemon.record.unlink(missing_ok=True)
        say(f"engine   stopped dockerd (pid {process.pid})")


def _ours(daemon: Daemon) -> psutil.Process | None:
    """The process of the record, if it still is that very process."""
    try:
        started = Started(**json.loads(daemon.record.read_text()))
        process = psutil.Process(started.pid)
        same = abs(process.create_time() - started.start_time_s) < SAME_START_S and process.name() == "dockerd"
    except (FileNotFoundError, psutil.NoSuchProcess):
        return None
    except (ValueError, TypeError) as error:
        raise EngineUnavailable(
            f"the record of the engine that the lab started is damaged: {daemon.record}",
            "Stop dockerd by hand if it is the lab's (its log lies beside the record), then remove the record.",
        ) from error
    return process if same and _lives(process) else None


def _lives(process: psutil.Process) -> bool:
    """Whether it can still do anything. A zombie cannot, and in a container nobody may ever reap it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _running_containers(path: Path) -> list[str]:
    """Names of the containers that run on the engine at `path`; none if it does not answer, and so runs none well."""
    if not answers(path):
        return []
    client = docker.DockerClient(base_url=f"unix://{path}", timeout=10)
    try:
        return [container["Names"][0].removeprefix("/") for container in client.api.containers()]
    finally:
        client.close()


def listens(path: Path) -> bool:
    """Whether anything at all accepts, or forbids, a connection to a unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except PermissionError:
            return True
    return True


def answers(path: Path) -> bool:
    """Whether a Docker engine answers at a unix socket."""
    if not listens(path):
        return False
    try:
        client = docker.DockerClient(base_url=f"unix://{path}", timeout=5)
    except (docker.errors.DockerException, requests.exceptions.RequestException):
        return False
    client.close()
    return True


def _wait_until_it_answers(path: Path, timeout_s: float) -> bool:
    until = time.monotonic() + timeout_s
    while not answers(path):
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)
    return True


def _last_words(daemon: Daemon) -> str:
    return "\n  ".join(daemon.log.read_text(errors="replace").splitlines()[-LAST_LINES:])
