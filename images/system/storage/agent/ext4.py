"""ext4 images: a template made once from a folder, and sparse copies of it."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

MKFS_TIMEOUT_S = 60


class MkfsFailed(Exception):
    """The tool's own last words."""


def make_template(image: Path, content: Path, size: int, uid: int, gid: int) -> None:
    """Make an ext4 of `size` bytes at `image` whose root holds a copy of `content` and belongs to uid:gid."""
    with image.open("wb") as file:
        file.truncate(size)
    # Prezeroed: no kernel thread goes on writing inode tables under a trial. No reserved blocks: a full disk is full.
    options = f"root_owner={uid}:{gid},assume_storage_prezeroed=1"
    _run(["mkfs.ext4", "-q", "-F", "-m", "0", "-E", options, "-d", str(content), str(image)])
    _run(["debugfs", "-w", "-R", "rmdir lost+found", str(image)])  # root's, 0700: no subject could list its own volume


def copy_sparse(source: Path, target: Path) -> None:
    """Copy only what is data. Leaves nothing at `target` if it fails."""
    try:
        with source.open("rb") as s, target.open("xb") as t:
            size = os.fstat(s.fileno()).st_size
            t.truncate(size)
            for begin, end in _extents(s.fileno(), size):
                while begin < end:
                    begin += os.copy_file_range(s.fileno(), t.fileno(), end - begin, begin, begin)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The (begin, end) of all that is no hole."""
    offset = 0
    while offset < size:
        try:
            begin = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # only a hole is left
            raise
        offset = os.lseek(fd, begin, os.SEEK_HOLE)
        yield begin, offset


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MKFS_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise MkfsFailed(f"{command[0]}: {done.stderr.strip()[-500:]}")
