"""mount(2) and umount(2), in this container's own mount namespace only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def mounted(source: str, filesystem: str, options: str = "") -> Iterator[Path]:
    """Mount for a moment. Raises OSError with the kernel's answer."""
    with tempfile.TemporaryDirectory(prefix="mount-", dir="/tmp") as folder:
        data = options.encode() if options else None
        if _libc.mount(source.encode(), folder.encode(), filesystem.encode(), ctypes.c_ulong(0), data):
            number = ctypes.get_errno()
            raise OSError(number, f"mount -t {filesystem} {source}: {os.strerror(number)}")
        try:
            yield Path(folder)
        finally:
            if _libc.umount2(folder.encode(), 0):
                number = ctypes.get_errno()
                raise OSError(number, f"umount {source}: {os.strerror(number)}")
