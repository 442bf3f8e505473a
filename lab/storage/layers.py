"""Storage layers as data: a recipe each, by which the agent and the engine make fresh volumes of one filesystem.

The built-in ones and those that are registered. Nothing that runs a recipe knows a filesystem by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lab.engine.errors import UsageError

SIZE_BYTES = 64 * 1024 * 1024  # of a fresh filesystem, where it has a size
MAX_NAME = 16  # characters: the width of a column
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*(:[a-z0-9][a-z0-9.-]*)?", re.ASCII)

Fill = Literal["template", "archive"]


@dataclass(frozen=True)
class Layer:
    """One way to make fresh volumes.

    A layer with `mkfs` has an image on a loop device for each volume: a copy of a template. One with `folders` has
    folders on the engine's disk, above one folder `lower` that all of its volumes share. One with neither is made by
    the engine when a container mounts it.
    """

    name: str  # FILESYSTEM or FILESYSTEM:VARIANT
    mkfs: tuple[tuple[str, ...], ...] = ()
    """Commands that make the template at `{image}`, a sparse file of `size_bytes`. `{content}` is a folder with the
    prepared state, for a mkfs that can take one; without it the agent mounts the template and unpacks the state there.
    `{uid}` and `{gid}` are the subject's."""
    folders: tuple[str, ...] = ()  # made for each volume; the first is the one that is written to, and owned by `uid`
    mount: str = ""
    """Options of the filesystem, not flags such as `noatime`. `{uid}`, `{gid}`, `{size_bytes}`, and each folder's name
    with its path."""
    audited: tuple[str, ...] = ()  # the mount options that a container must see in its mountinfo
    size_bytes: int = SIZE_BYTES  # of a filesystem that has a size
    can_be_cut: bool = False  # its filesystem can be shut down under a mount without flushing its log: a power cut

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME or not NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} names no storage layer: FILESYSTEM[:VARIANT], at most {MAX_NAME} characters"
            )
        if self.mkfs and self.folders:
            raise ValueError(f"storage layer {self.name} has both an image and folders")

    @property
    def filesystem(self) -> str:
        """Its type, as the engine mounts it and mountinfo shows it."""
        return self.name.partition(":")[0]

    @property
    def fill(self) -> Fill:
        """How a fresh volume gets the prepared state: "template", it has it; "archive", it is empty, exists only while
        a container holds it, and the trial has to put the archive into it."""
        return "template" if self.mkfs or self.folders else "archive"

    def options(self, **values: object) -> str:
        """`mount` with its placeholders filled in."""
        return self.mount.format(size_bytes=self.size_bytes, **values)

    def audited_options(self, options: str) -> Mapping[str, str]:
        """Those of `options` that mountinfo must repeat."""
        pairs = (option.partition("=") for option in options.split(","))
        return {name: value for name, _, value in pairs if name in self.audited}

    def recipe(self) -> dict[str, Any]:
        """As the storage agent takes it."""
        return {
            "filesystem": self.filesystem,
            "mkfs": [list(command) for command in self.mkfs],
            "folders": list(self.folders),
            "mount": self.mount,
            "size_bytes": self.size_bytes,
        }


MKFS_EXT4 = (
    # Prezeroed: no kernel thread goes on writing inode tables under a trial. No reserved blocks: a full disk is full.
    ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "root_owner={uid}:{gid},assume_storage_prezeroed=1",
     "-d", "{content}", "{image}"),
    # lost+found is root's, 0700: no subject could walk its own volume.
    ("debugfs", "-w", "-R", "rmdir lost+found", "{image}"),
)  # fmt: skip

BUILT_IN = (
    Layer("ext4", mkfs=MKFS_EXT4, can_be_cut=True),
    Layer("ext4:journal", mkfs=MKFS_EXT4, mount="data=journal", audited=("data",), can_be_cut=True),
    # Its files count towards the memory limit of the container that writes them.
    Layer("tmpfs", mount="size={size_bytes},uid={uid},gid={gid},mode=0755", audited=("size",)),
    # The prepared state is the lower layer of every volume, so that copy-up, whiteouts and renames across layers
    # happen. A volume has no size limit of its own: it is on the engine's disk.
    Layer(
        "overlay",
        folders=("upper", "work"),
        mount="lowerdir={lower},upperdir={upper},workdir={work}",
        audited=("lowerdir", "upperdir"),
    ),
)
DEFAULT = ("ext4", "tmpfs", "overlay")  # what a campaign runs on if no layer is named

_layers = {layer.name: layer for layer in BUILT_IN}


def register(layer: Layer) -> None:
    """Add a layer, for `--storage` and `lab doctor`. Raises ValueError if there is one of that name."""
    if layer.name in _layers:
        raise ValueError(f"there is a storage layer {layer.name} already")
    _layers[layer.name] = layer


def names() -> tuple[str, ...]:
    return tuple(_layers)


def find(name: str) -> Layer:
    """The layer of that name. Raises UsageError."""
    if name not in _layers:
        raise UsageError(f"no storage layer {name!r}", f"There are: {', '.join(_layers)}.")
    return _layers[name]
