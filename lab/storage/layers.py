"""The storage layers that there are: the built-in ones, each an entry of data, and those that are registered."""

from __future__ import annotations

from lab.engine.errors import UsageError
from lab.storage.layer import Layer

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
