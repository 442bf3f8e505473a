"""The prepared state: a tar becomes a folder of one owner.

The tar holds what a stranger's program has written: it is not trusted.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import tarfile
from pathlib import Path

MAX_UNPACKED = 256 * 1024 * 1024
EMPTY = bytes(tarfile.RECORDSIZE)  # an archive of nothing


class BadTar(Exception):
    """The archive cannot be the content of a volume; the message says which entry and why."""


def unpack(data: bytes, root: Path, uid: int, gid: int) -> None:
    """Unpack into `root`, which is made anew; everything belongs to uid:gid. Leaves nothing if it fails."""
    remove(root)
    root.mkdir(parents=True, mode=0o755)
    try:
        fill(data, root, uid, gid)
    except BaseException:
        remove(root)
        raise


def fill(data: bytes, root: Path, uid: int, gid: int) -> None:
    """Unpack into `root`, an empty folder; it and everything in it belongs to uid:gid."""
    os.chown(root, uid, gid)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            if sum(member.size for member in tar.getmembers()) > MAX_UNPACKED:
                raise BadTar(f"it unpacks to more than {MAX_UNPACKED} bytes")
            for member in tar.getmembers():
                _unpack_one(tar, member, root, uid, gid)
    except tarfile.TarError as error:
        raise BadTar(str(error)) from error


def remove(root: Path) -> None:
    """Remove a folder with all that is in it; none there is fine.

    A subject may have nested its folders to any depth: each one found is moved up beside `root` before it is emptied,
    so that no path grows and nothing recurses.
    """
    if not root.is_dir() or root.is_symlink():
        root.unlink(missing_ok=True)
        return
    moved = itertools.count(1)
    folders = [root]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    beside = root.with_name(f".{root.name}.removed-{next(moved)}")
                    Path(entry.path).rename(beside)
                    folders.append(beside)
                else:
                    Path(entry.path).unlink()
        folder.rmdir()


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path, uid: int, gid: int) -> None:
    path = _inside(root, member.name)
    if member.isdir():
        path.mkdir(exist_ok=True)
    elif path == root:
        raise BadTar(f"`{member.name}` is the volume itself, and no folder")
    elif member.isreg():
        source = tar.extractfile(member)
        assert source is not None  # it is a regular file
        with path.open("xb") as target:
            shutil.copyfileobj(source, target)
    elif member.issym():
        path.symlink_to(member.linkname)
    elif member.islnk():
        os.link(_inside(root, member.linkname), path, follow_symlinks=False)
    else:
        raise BadTar(f"`{member.name}` is neither file, folder nor link")
    os.chown(path, uid, gid, follow_symlinks=False)
    if not member.issym():
        path.chmod(member.mode & 0o7777)
        os.utime(path, (member.mtime, member.mtime))


def _inside(root: Path, name: str) -> Path:
    """The path of an entry, whose parent is a real folder of `root` and not reached through a link."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise BadTar(f"`{name}` does not stay inside the volume")
    path = root
    for part in parts[:-1]:
        path /= part
        if path.is_symlink():
            raise BadTar(f"`{name}` goes through a link")
    return path / parts[-1] if parts else root
