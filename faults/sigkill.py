"""SIGKILL: the process dies at once; the page cache lives on. Tests process crash, not power loss."""

from __future__ import annotations

from typing import ClassVar

from faults.base import Fault, Target


class SigKill(Fault):
    name: ClassVar[str] = "sigkill"
    loses_page_cache: ClassVar[bool] = False

    def strike(self, target: Target) -> None:
        """Kill the subject that stands at its hook and wait until it is really gone."""
        target.kill()
        target.wait_until_gone()


FAULT = SigKill()
