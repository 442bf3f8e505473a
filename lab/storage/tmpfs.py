"""tmpfs: the engine makes it when the first container starts on it, and forgets it with the last.

So it cannot be prepared beforehand: the trial puts the archive into it (`fill`) while a container holds it. Its files
count towards the memory limit of the container that writes them.
"""

from __future__ import annotations

from lab.storage.base import SIZE_BYTES, StorageLayer, Volume
from lab.storage.mountinfo import Expected


class Tmpfs(StorageLayer):
    name = "tmpfs"
    filesystem = "tmpfs"
    fill = "archive"

    def prepare(self, tar: bytes) -> None:
        """Nothing to do: see `fill`."""

    def fresh(self, name: str) -> Volume:
        options = f"size={SIZE_BYTES},uid={self.site.uid},gid={self.site.uid},mode=0755"
        expected = Expected(self.filesystem, options={"size": str(SIZE_BYTES)})
        return self._create(name, {"type": "tmpfs", "device": "tmpfs", "o": options}, expected)
