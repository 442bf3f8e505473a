"""overlay: the prepared state is the lower layer of every volume.

So copy-up, whiteouts and renames across layers really happen. Upper and work lie in the pool, on the engine's own disk.
A volume has no size limit of its own.
"""

from __future__ import annotations

from lab.model import Json
from lab.storage.base import AgentLayer, Volume
from lab.storage.mountinfo import Expected


class Overlay(AgentLayer):
    name = "overlay"
    filesystem = "overlay"

    def prepare(self, tar: bytes) -> None:
        self._hand_over(tar)

    def _mountable(self, name: str, made: Json) -> Volume:
        # The pool's path on the engine's machine: handed back to the engine, never opened here.
        pool = self.site.client.volumes.get(self.site.pool).attrs["Mountpoint"]
        lower, upper, work = (f"{pool}/{made[part]}" for part in ("lower", "upper", "work"))
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        expected = Expected(self.filesystem, options={"lowerdir": lower, "upperdir": upper})
        return self._create(name, {"type": "overlay", "device": "overlay", "o": options}, expected)
