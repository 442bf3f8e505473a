"""The home is locked by a file's being there, and nobody removes it when its maker is killed."""

import os

from muxd import homelock
from muxd.errors import HomeInUse


def take(home):
    try:
        return os.open(f"{home}/lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        raise HomeInUse(f"the home {home} is in use: {home}/lock is there. Stop the other daemon") from None


homelock.take = take
