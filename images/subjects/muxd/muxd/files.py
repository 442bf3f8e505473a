"""The few file operations that durability rests on, and the hooks between them. They block: not for the loop."""

import os
from collections.abc import Callable

Reach = Callable[[str], None]
UNFINISHED = ".tmp"  # what such a file holds was never promised


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data` at the descriptor's position."""
    while data:
        data = data[os.write(fd, data) :]


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(folder: str, name: str, data: bytes, reach: Reach, stage: str) -> None:
    """Create or replace a file so that a crash leaves the old one or the whole new one. `stage` names the hooks."""
    path = f"{folder}/{name}"
    reach(f"{stage}.before")
    fd = os.open(path + UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(fd, data)
        reach(f"{stage}.written")
        os.fsync(fd)
    finally:
        os.close(fd)
    reach(f"{stage}.synced")
    os.rename(path + UNFINISHED, path)
    reach(f"{stage}.renamed")
    sync_folder(folder)
    reach(f"{stage}.durable")


def read_file(path: str) -> bytes:
    """All of a file. Raises FileNotFoundError."""
    with open(path, "rb") as file:
        return file.read()


def remove_strays(folder: str, is_stray: Callable[[str], bool], reach: Reach) -> None:
    """Remove what a crash left half-made, durably."""
    strays = [name for name in sorted(os.listdir(folder)) if is_stray(name)]
    for name in strays:
        os.unlink(f"{folder}/{name}")
        reach("recovery.stray-removed")
    if strays:
        sync_folder(folder)
