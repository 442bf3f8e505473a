"""One daemon per home: a lock that the kernel holds for as long as its holder lives.

No process id is written or asked for: in a restarted container the dead daemon's id is the new one's own.
"""

import fcntl
import os

from muxd.errors import HomeInUse


def take(home: str) -> int:
    """Lock the home until this process ends. Returns the descriptor, which no agent inherits. Raises HomeInUse."""
    path = f"{home}/lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise HomeInUse(
            f"the home {home} is in use: another daemon holds the lock on {path}. Stop that one (`lslocks` shows "
            "it), or give this one a home of its own: muxd serve HOME"
        ) from None
    return fd
