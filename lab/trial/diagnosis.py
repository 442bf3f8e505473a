"""Why a daemon was refused its home: who holds a lock on a file of it by the kernel's own table, and whose they are.

A container of one moment looks: in the host's process namespace, or the table would hide the holders; with the home
mounted read-only; as the daemon's user, who may read that home and its own processes, and with no other right. What it
saw is data; from that, pure code makes sentences. It decides nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors

from lab.codec import from_json
from lab.engine.container import Container, Mount, Spec
from lab.engine.errors import LabError
from lab.engine.stream import LineParser

UID = 1000  # of the daemon, if nothing else is said
LOOK_S = 15.0  # a container's start, and some hundred small files of /proc
PROGRAM = Path(__file__).with_name("lock_table.py")
HOST = "host"
HOME = "/home-of-the-daemon"
FILES_TOLD = 3  # lock files and holders beyond these tell a person nothing new
HOLDERS_TOLD = 4
LAST_WORDS = 400  # characters
COMMAND = 120


@dataclass(frozen=True)
class File:
    """A file of the home's top two levels. `text` only of one that is as small as a process id."""

    path: str  # relative to the home
    device: str  # "major:minor" in hexadecimal, as /proc/locks writes it
    inode: int
    size: int
    text: str


@dataclass(frozen=True)
class Process:
    """One row of the process table. `cgroup` names its container."""

    pid: int
    command: str
    age_s: float
    cgroup: str


@dataclass(frozen=True)
class Lock:
    """A lock that is held on a file of the home. No `holder`: it has ended, and a copy of its descriptor lives on."""

    path: str
    kind: str  # FLOCK, POSIX, OFDLCK, LEASE
    access: str  # READ, WRITE
    pid: int
    holder: Process | None
    parents: tuple[Process, ...]  # its own first
    open_in: tuple[Process, ...]  # those that have the file open, as far as they may be seen


@dataclass(frozen=True)
class Sight:
    files: tuple[File, ...]
    locks: tuple[Lock, ...]


def diagnose(
    client: docker.DockerClient,
    image: str,
    volume: str,
    data: str,
    labels: Mapping[str, str],
    name: str,
    killed: Sequence[str],
    last_words: str,
    uid: int = UID,
) -> str:
    """Look, and say in sentences what was found. Takes at most LOOK_S, never raises for what the engine refuses.

    `image` has Python; `data` is where the daemon has `volume`; `killed` are the containers of its dead lives.
    """
    spec = Spec(
        image=image,
        command=("python3", "-ISc", PROGRAM.read_text("utf-8"), HOME),
        name=name,
        labels=labels,
        user=f"{uid}:{uid}",
        network="none",
        mounts=[Mount(volume, HOME, read_only=True)],
        extra_host_config={"pid_mode": HOST},
    )
    try:
        said = sentences(_look(client, spec), data, killed)
    except LabError as error:
        said = [f"The kernel's lock table could not be read: {error.what}."]
    except docker.errors.APIError as error:
        said = [f"The engine gives no look at its processes, so who holds a lock is not known: {error.explanation}."]
    words = " ".join(last_words.split())
    return " ".join([*said, f"Its last words: {words[-LAST_WORDS:]}"] if words else said)


def _look(client: docker.DockerClient, spec: Spec) -> Sight:
    """Raises LabError, or APIError if the engine refuses."""
    parser = LineParser()
    container = Container(client, spec, parser)
    try:
        container.start()
        if not container.stream.wait(lambda: bool(parser.answers), LOOK_S, "the kernel's lock table"):
            raise LabError(f"it ended without an answer: {' '.join(parser.log.text().split())[-LAST_WORDS:]}")
        return from_json(Sight, parser.answers[0])
    finally:
        container.remove()


def sentences(seen: Sight, data: str, killed: Sequence[str]) -> list[str]:
    said = [_of_lock(lock, data, killed) for lock in seen.locks[:HOLDERS_TOLD]]
    if len(seen.locks) > HOLDERS_TOLD:
        said.append(f"And {len(seen.locks) - HOLDERS_TOLD} more locks.")
    if not seen.locks:
        said.append("Nobody holds a lock on a file of the home, by the kernel's table.")
    for file in [file for file in seen.files if _names_an_owner(file.path)][:FILES_TOLD]:
        content = f": `{' '.join(file.text.split())}`" if file.text.strip() else ""
        said.append(f"The home has a file `{file.path}`, {file.size} bytes{content}.")
    return said


def _names_an_owner(path: str) -> bool:
    return any(part in path.rpartition("/")[2].lower() for part in ("lock", "pid", "owner"))


def _of_lock(lock: Lock, data: str, killed: Sequence[str]) -> str:
    what = f"a lock ({lock.kind.lower()}, {lock.access.lower()}) on {data.rstrip('/')}/{lock.path}"
    if lock.holder is not None:
        above = " < ".join(f"{parent.pid} `{parent.command.split(' ')[0]}`" for parent in lock.parents)
        descent = f" It descends from {above}." if above else ""
        return f"{_row(lock.holder)} holds {what}; it {_whose(lock.holder, killed)}.{descent}"
    heirs = " ".join(f"{_row(heir)} has the file open; it {_whose(heir, killed)}." for heir in lock.open_in)
    # The table names no process for a lock of an open file description (OFDLCK), which has none of its own.
    taker = f"Process {lock.pid} took {what} and has ended." if lock.pid > 0 else f"No process is named for {what}."
    return f"{taker} {heirs or 'Who has the file open is not to be seen.'}"


def _row(process: Process) -> str:
    return f"Process {process.pid} `{process.command[:COMMAND]}`, started {process.age_s:.1f} s ago,"


def _whose(process: Process, killed: Sequence[str]) -> str:
    for life, ident in enumerate(killed, 1):
        if ident in process.cgroup:
            return f"belongs to the killed daemon's container (life {life}, {ident[:12]})"
    return f"belongs to another container or to the machine (cgroup {process.cgroup})"
