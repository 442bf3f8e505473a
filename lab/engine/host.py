"""What the lab does on the machine it runs on: bounded commands, one lock a purpose.

Nothing here talks to Docker. Every wait has an end, and no command outlives its caller.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.engine.errors import DeadlinePassed, Interrupted, LabError

Say = Callable[[str], None]  # prints one line for a person

LAST_LINES = 15  # of a failed command's output: the cause is within its last few
LOCK_POLL_S = 0.1
TICK_S = 0.1  # how often a wait for a command looks whether the user wants to stop


def state_folder() -> Path:
    """Where what the lab has fetched lies: one for root, one for each other user."""
    if os.geteuid() == 0:
        return Path("/var/lib/crashlab")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "crashlab"


def engine_lock(engine_id: str, purpose: str) -> Path:
    """The path of a lock that all labs on this machine share that use one engine, whoever runs them.

    `engine_id` is the engine's own: `client.info()["ID"]`.
    """
    return Path("/tmp") / f"crashlab-{re.sub('[^A-Za-z0-9]+', '-', engine_id)}-{purpose}.lock"


@contextmanager
def locked(path: Path, wait_s: float, say: Say, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold an exclusive lock on `path`; says so once if it must wait. Raises DeadlinePassed, and Interrupted by `stop`.

    The kernel lets go of it when its holder dies, so that no stale lock is ever left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _open_lock(path)
    try:
        until, waiting = time.monotonic() + wait_s, False
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > until:
                raise DeadlinePassed(f"another lab has held {path} for {wait_s:.0f} s", f"See who: `fuser -v {path}`.")
            if not waiting:
                say(f"waiting  another lab is at work on the same ({path})")
                waiting = True
            if stop is not None and stop.is_set():
                raise Interrupted(f"while another lab held {path}")
            time.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """A descriptor of a lock file, which is made if there is none. In a folder that all may write, no link is followed.

    To lock it is enough to read it; and a kernel that protects such folders lets nobody open another's with O_CREAT.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):  # another lab has just made it
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(descriptor, 0o644)  # whatever our umask: the lock is everybody's
            return descriptor


def run(command: Sequence[str], timeout_s: float, stop: threading.Event | None = None) -> str:
    """Run a command to its end and return its output. Raises LabError with its last lines if it fails.

    It gets a session of its own, which is killed whole if we do not wait for its end: its children go with it. Raises
    DeadlinePassed then, or Interrupted by `stop`.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    name, until = f"`{' '.join(command)}`", time.monotonic() + timeout_s
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                output, _ = process.communicate(timeout=TICK_S)
                break
            if stop is not None and stop.is_set():
                raise Interrupted(f"during {name}")
            if time.monotonic() > until:
                raise DeadlinePassed(f"{name} did not end within {timeout_s:g} s")
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        last = "\n  ".join(output.strip().splitlines()[-LAST_LINES:])
        raise LabError(f"{name} failed with exit code {process.returncode}:\n  {last}")
    return output
