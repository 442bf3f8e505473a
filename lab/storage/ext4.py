"""ext4 on a loop device: a sparse copy of a template image for each volume."""

from __future__ import annotations

from lab.model import Json
from lab.storage.base import SIZE_BYTES, AgentLayer, Volume
from lab.storage.mountinfo import Expected


class Ext4(AgentLayer):
    name = "ext4"
    filesystem = "ext4"

    def prepare(self, tar: bytes) -> None:
        self._hand_over(tar, size_bytes=SIZE_BYTES)

    def _mountable(self, name: str, made: Json) -> Volume:
        device = str(made["device"])
        return self._create(name, {"type": "ext4", "device": device}, Expected(self.filesystem, source=device))
