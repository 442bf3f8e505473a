"""Reads and writes files that a stranger may have prepared: only regular ones, of bounded size, whole or not at all.

`read_given` reads a path that the user named. `Folder` is a run's folder, which may come from elsewhere: below it no
link is followed, and what is written appears under its name only when it is whole and on the disk.

All raise OSError with `strerror` in a person's words and `filename`; FileNotFoundError if it is not there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from lab.codec import size

JSON_BYTES = 64 * 1024 * 1024  # of one file that is read whole
LINE_BYTES = 16 * 1024 * 1024  # of one line of a journal
CHUNK_BYTES = 1024 * 1024

# Non-blocking: a FIFO without a writer must be refused, not waited for. It changes nothing for a regular file.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_BELOW = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read_given(path: Path, limit_bytes: int) -> bytes:
    """The bytes of a file that the user named; links are followed."""
    with _named(path), io.FileIO(os.open(path, _READ)) as file:
        _check_regular(file)
        return _whole(file, limit_bytes)


class Folder:
    """A folder below which no link is followed. Names are relative to it, with `/` between their parts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, name: str) -> bool:
        """Whether a regular file of that name is there."""
        try:
            with self._open(name, os.O_RDONLY):
                return True
        except OSError:
            return False

    def read(self, name: str, limit_bytes: int = JSON_BYTES) -> bytes:
        with _named(self.path / name), self._open(name, os.O_RDONLY) as file:
            return _whole(file, limit_bytes)

    def lines(self, name: str, limit_bytes: int = LINE_BYTES) -> Iterator[bytes]:
        """The whole lines of a file, without their line feeds; what follows the last line feed is left out."""
        with _named(self.path / name), self._open(name, os.O_RDONLY) as file:
            rest = b""
            while data := file.read(CHUNK_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                if max(map(len, (*lines, rest))) > limit_bytes:
                    raise OSError(errno.EFBIG, f"has a line larger than {size(limit_bytes)}")
                yield from lines

    def write(self, name: str, data: bytes) -> None:
        """Replace a file, whole or not at all, and durably. Folders on the way are made."""
        staged = f".{secrets.token_hex(8)}.new"  # not to be guessed: nothing waits there to be written through
        with _named(self.path / name), self._parent(name, make=True) as (parent, last):
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BELOW, 0o666, dir_fd=parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)
                os.replace(staged, last, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(staged, dir_fd=parent)
                raise
            os.fsync(parent)

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, durably; if that fails, it is as long as before."""
        with _named(self.path / name), self._open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
            before = os.fstat(file.fileno()).st_size
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(before)  # else the next line would go on where this one broke off
                raise

    def cut_torn_line(self, name: str) -> None:
        """Cut what follows the last line feed of a file, which a killed lab may have left."""
        with _named(self.path / name), self._open(name, os.O_RDWR) as file:
            length = end = os.fstat(file.fileno()).st_size
            while end > 0:
                start = max(0, end - CHUNK_BYTES)
                found = os.pread(file.fileno(), end - start, start).rfind(b"\n")
                if found >= 0:
                    end = start + found + 1
                    break
                end = start
            if end != length:
                file.truncate(end)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock file, which is made if need be. Raises BlockingIOError if another holds it."""
        with self._open(name, os.O_RDWR | os.O_CREAT) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def _open(self, name: str, flags: int) -> io.FileIO:
        """A regular file, which the caller closes."""
        mode = {os.O_RDONLY: "rb", os.O_WRONLY: "wb", os.O_RDWR: "rb+"}[flags & os.O_ACCMODE]
        with _named(self.path / name), self._parent(name, make=bool(flags & os.O_CREAT)) as (parent, last):
            file = io.FileIO(os.open(last, flags | _BELOW, 0o666, dir_fd=parent), mode)
            try:
                _check_regular(file)
            except OSError:
                file.close()
                raise
            return file

    @contextlib.contextmanager
    def _parent(self, name: str, *, make: bool) -> Iterator[tuple[int, str]]:
        """The open folder that a name lies in, and its last part. Each part is opened from the one before."""
        *folders, last = parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise OSError(errno.EINVAL, "is no name below the folder")
        here = os.open(self.path, _FOLDER)
        try:
            for part in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                        os.fsync(here)
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
                os.close(here)
                here = below
            yield here, last
        finally:
            os.close(here)


def _whole(file: io.FileIO, limit_bytes: int) -> bytes:
    """All of an open file. One that grows while it is read is bounded as well."""
    data = bytearray()
    while chunk := file.read(CHUNK_BYTES):
        data += chunk
        if len(data) > limit_bytes:
            raise OSError(errno.EFBIG, f"is larger than {size(limit_bytes)}")
    return bytes(data)


def _check_regular(file: io.FileIO) -> None:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Every OSError with the whole path, and in words for what the system calls a loop or an invalid argument."""
    try:
        yield
    except ValueError as error:  # what Python makes of a NUL in a path
        raise OSError(errno.EINVAL, f"is no path: {error}", str(path)) from None
    except OSError as error:
        why = "is a symbolic link" if error.errno in (errno.ELOOP, errno.EMLINK) else error.strerror
        raise OSError(error.errno or errno.EIO, why, str(path)) from error
