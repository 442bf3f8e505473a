"""SIGKILL: the process dies at once; the page cache lives on. Tests process crash, not power loss."""

from __future__ import annotations

from typing import ClassVar

from faults.base import Fault, Site
from lab.storage import Layer


class SigKill(Fault):
    name: ClassVar[str] = "sigkill"
    loses_page_cache: ClassVar[bool] = False

    def available(self, layer: Layer) -> str | None:
        return None

    def strike(self, site: Site) -> None:
        """Kill the process that stands at its crash point; return once it is really gone."""
        site.process.kill()
        site.process.wait_until_gone()


FAULT = SigKill()
