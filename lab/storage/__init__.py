"""Storage layers by name: a new one is a module of this package and a line here. See docs/storage.md."""

from lab.storage.base import StorageLayer
from lab.storage.ext4 import Ext4
from lab.storage.overlay import Overlay
from lab.storage.tmpfs import Tmpfs

LAYERS: dict[str, type[StorageLayer]] = {layer.name: layer for layer in (Ext4, Tmpfs, Overlay)}
