"""A storage layer as the controller sends it: how its filesystem is made and mounted. See docs/storage.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_SIZE = 1024 * 1024 * 1024


class BadRecipe(Exception):
    """It is none; the message says why."""


@dataclass(frozen=True)
class Recipe:
    """With `mkfs`, an image for each volume; with `folders`, folders; with neither, the engine alone makes it."""

    filesystem: str
    mkfs: tuple[tuple[str, ...], ...]
    folders: tuple[str, ...]
    mount: str
    size_bytes: int

    @property
    def mkfs_takes_content(self) -> bool:
        return any("{content}" in word for command in self.mkfs for word in command)

    def options(self, uid: int, gid: int, **folders: str) -> str:
        """The mount options, with `folders` as paths in this container."""
        return self.mount.format(uid=uid, gid=gid, size_bytes=self.size_bytes, **folders)


def parse(given: Mapping[str, Any]) -> Recipe:
    """Raises BadRecipe, or KeyError, TypeError or ValueError for what has another shape."""
    commands = tuple(tuple(map(str, command)) for command in given["mkfs"])
    recipe = Recipe(
        str(given["filesystem"]), commands, tuple(map(str, given["folders"])), str(given["mount"]), given["size_bytes"]
    )
    if not 0 < recipe.size_bytes <= MAX_SIZE:
        raise BadRecipe(f"`size_bytes` is not from 1 to {MAX_SIZE}")
    if any(not name.isidentifier() or name == "lower" for name in recipe.folders):
        raise BadRecipe("a folder's name is no word, or `lower`, which all volumes of a layer share")
    return recipe
