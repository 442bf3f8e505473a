"""Storage layers: data that says how fresh volumes are made, and what makes them. See docs/storage.md."""

from lab.storage.layers import DEFAULT, Layer, find, names, register
from lab.storage.provisioner import Backend, Provisioner, Volume

__all__ = ["DEFAULT", "Backend", "Layer", "Provisioner", "Volume", "find", "names", "register"]
