"""Images: a template that is made once by a recipe's commands, and sparse copies of it."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import loop
import tree
from mounting import mounted
from recipe import Recipe

MKFS_TIMEOUT_S = 60


class MkfsFailed(Exception):
    """The tool's own last words."""


def make_template(image: Path, recipe: Recipe, tar: bytes, uid: int, gid: int) -> None:
    """Make a filesystem at `image` whose root holds the content of `tar` and belongs to uid:gid."""
    content = image.with_name(f"{image.name}.content")
    try:
        tree.unpack(tar, content, uid, gid)
        with image.open("wb") as file:
            file.truncate(recipe.size_bytes)
        for command in recipe.mkfs:
            _run([word.format(image=image, content=content, uid=uid, gid=gid) for word in command])
    finally:
        tree.remove(content)
    if not recipe.mkfs_takes_content:
        device = loop.attach(image, recipe.filesystem)
        try:
            with mounted(device.node, recipe.filesystem, recipe.options(uid, gid)) as folder:
                tree.fill(tar, folder, uid, gid)
        finally:
            device.detach()


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
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MKFS_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise MkfsFailed(f"the storage agent's image has no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise MkfsFailed(f"{command[0]}: not done after {MKFS_TIMEOUT_S} s") from None
    if done.returncode:
        raise MkfsFailed(f"{command[0]}: {done.stderr.strip()[-500:]}")
