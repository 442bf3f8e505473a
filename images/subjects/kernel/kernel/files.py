"""The few file operations that durability rests on. Every folder is given as text: `pathlib` costs start-up time."""

import os


def write_all(fd: int, data: bytes, offset: int | None = None) -> None:
    """Write all of `data`, at `offset` if given, else at the descriptor's position."""
    while data:
        wrote = os.write(fd, data) if offset is None else os.pwrite(fd, data, offset)
        data = data[wrote:]
        if offset is not None:
            offset += wrote


def read_file(path: str) -> bytes:
    """All of a file. Raises FileNotFoundError."""
    with open(path, "rb") as file:
        return file.read()


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(folder: str, name: str, data: bytes) -> None:
    """Create or replace a file so that a crash leaves the old one or the whole new one."""
    path = f"{folder}/{name}"
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(path + ".tmp", path)
    sync_folder(folder)
