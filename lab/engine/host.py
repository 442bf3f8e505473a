"""What the lab does on the machine it runs on: bounded commands, Debian packages, one lock a purpose.

Nothing here talks to Docker. Every wait has an end, and no command outlives its caller.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.engine.errors import DeadlinePassed, LabError

Say = Callable[[str], None]  # prints one line for a person

LAST_LINES = 15  # of a failed command's output: apt names the cause within its last few
LOCK_POLL_S = 0.1
APT_TIMEOUT_S = 600  # `apt-get` over a slow mirror; about 20 s here


def state_folder() -> Path:
    """Where locks and the record of an engine that we started lie: one for root, one for each other user."""
    if os.geteuid() == 0:
        return Path("/var/lib/crashlab")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "crashlab"


def engine_lock(engine_id: str, purpose: str) -> Path:
    """The path of a lock that all labs on this machine share that use one engine, whoever runs them.

    `engine_id` is the engine's own: `client.info()["ID"]`.
    """
    return Path("/tmp") / f"crashlab-{re.sub('[^A-Za-z0-9]+', '-', engine_id)}-{purpose}.lock"


@contextmanager
def locked(path: Path, wait_s: float, say: Say) -> Iterator[None]:
    """Hold an exclusive lock on `path`; says so once if it must wait. Raises DeadlinePassed.

    The kernel lets go of it when its holder dies, so that no stale lock is ever left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _open_lock(path)
    try:
        until, waiting = time.monotonic() + wait_s, False
        while not _try_lock(descriptor):
            if time.monotonic() > until:
                raise DeadlinePassed(f"another lab has held {path} for {wait_s:.0f} s", f"See who: `fuser -v {path}`.")
            if not waiting:
                say(f"waiting  another lab is at work on the same ({path})")
                waiting = True
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


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def run(command: Sequence[str], timeout_s: float) -> str:
    """Run a command to its end and return its output. Raises LabError with its last lines if it fails.

    It gets a session of its own, which is killed whole if we do not wait for its end: its children go with it.
    """
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise DeadlinePassed(f"`{' '.join(command)}` did not end within {timeout_s:.0f} s") from error
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        last = "\n  ".join(output.strip().splitlines()[-LAST_LINES:])
        raise LabError(f"`{' '.join(command)}` failed with exit code {process.returncode}:\n  {last}")
    return output


def can_install_packages() -> bool:
    """Root on a Linux with apt-get: the only machines that the lab installs anything on."""
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_packages(packages: Sequence[str]) -> None:
    """Install Debian packages, without what they merely recommend. Raises LabError."""
    run(["apt-get", "update", "-qq"], APT_TIMEOUT_S)
    run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages], APT_TIMEOUT_S)
