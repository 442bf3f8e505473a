"""A volume as data: {path: bytes}, read from a mount or from a kept copy, and packed again. Every size is bounded.

Only regular files count; links and sockets are not followed, and `lost+found` belongs to the filesystem.
"""

# No pathlib: it would cost milliseconds of each start, and this is started for every trial.
# ruff: noqa: PTH123
from __future__ import annotations

import io
import os
import stat

LIMIT = 32 << 20  # bytes of one tree
FILES = 10_000

Tree = dict[str, bytes]


class TooLarge(Exception):
    """The volume holds more than a verifier is ready to read."""


def read(root: str) -> Tree:
    """Every regular file below `root`, by its path relative to it. Raises TooLarge or OSError."""
    tree: Tree = {}
    room = LIMIT
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(f"{root}/{folder}") as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if path != "lost+found":
                        folders.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False):
                    tree[path] = _content(f"{root}/{path}", room)
                    room -= len(tree[path])
                if len(tree) + len(folders) > FILES:
                    raise TooLarge(f"the volume holds more than {FILES} files")
    return tree


def _content(path: str, room: int) -> bytes:
    """The bytes of one file, at most `room`. A name that is no longer a regular file is read as empty."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        chunks: list[bytes] = []
        while chunk := file.read(min(room + 1, 1 << 20)):
            room -= len(chunk)
            if room < 0:
                raise TooLarge(f"the volume holds more than {LIMIT >> 20} MiB")
            chunks.append(chunk)
        return b"".join(chunks)


def pack(tree: Tree) -> str:
    """The tree as base64 of a tar.gz; the same tree gives the same text."""
    import base64  # imported here: most trials never ask for a copy
    import gzip
    import tarfile

    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree):
            member = tarfile.TarInfo(path)
            member.size = len(tree[path])
            archive.addfile(member, io.BytesIO(tree[path]))
    return base64.b64encode(gzip.compress(tar.getvalue(), compresslevel=6, mtime=0)).decode("ascii")


def unpack(text: str) -> Tree:
    """The reverse of `pack`, for any tar.gz. Nothing is written to disk. Raises ValueError if it is none, TooLarge."""
    import base64
    import tarfile
    import zlib

    tree: Tree = {}
    room = LIMIT
    try:
        packed = io.BytesIO(base64.b64decode(text, validate=True))
        with tarfile.open(fileobj=packed, mode="r|gz") as archive:
            for member in archive:
                if not member.isfile():
                    continue
                room -= member.size
                if room < 0 or len(tree) >= FILES:
                    raise TooLarge(f"the copy holds more than {LIMIT >> 20} MiB or {FILES} files")
                content = archive.extractfile(member)
                if content is not None:
                    tree[os.path.normpath(member.name)] = content.read()
    except (ValueError, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"the volume in the request is no base64 of a tar.gz: {error}") from error
    return tree
