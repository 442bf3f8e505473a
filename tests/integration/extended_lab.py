"""The `lab` command with one fault, one storage layer, one family of operations and one campaign more.

Each is added by its public registration, from outside the package, as a user's own would be.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import faults
from faults import Site
from lab.campaigns import base, matrix
from lab.cli import main
from lab.model import CrashScript, Kind
from lab.models import Role, add_family
from lab.plan.points import Drawn, Plan, bug_plan, canaries, laid_out
from lab.report.reports import MATRIX
from lab.storage import Layer
from lab.storage.layers import MKFS_EXT4
from lab.storage.layers import register as register_layer
from lab.trial.setting import Setting

NOTES = Path(__file__).parents[2] / "images" / "subjects" / "notes" / "subject.toml"


class TwoSignals:
    """A process that is killed twice is no deader than one that is killed once."""

    name: ClassVar[str] = "twosignals"
    loses_page_cache: ClassVar[bool] = False

    def available(self, layer: Layer) -> str | None:
        return "not on a RAM disk" if layer.filesystem == "tmpfs" else None

    def strike(self, site: Site) -> None:
        site.process.kill()
        site.process.wait_until_gone()


def _every_third(planning: base.Planning) -> tuple[Plan, Mapping[str, Any]]:
    """Every third point of the census, at most six, and the planted bugs."""
    request, subject = planning.request, planning.setting.subject
    census = matrix.census(planning, exhaustive=False)
    if request.bug is not None:
        return bug_plan(request.seed, 6, request.storages, request.faults, subject.bug(request.bug), census), {}
    points = census.first_points()[::3][:6]
    draws = [Drawn(CrashScript(first.workload, (first.point,)), "every third") for first in points]
    draws += canaries(request.seed, subject.bugs, census)
    trials = tuple(laid_out(draws, request.storages, request.faults))
    return Plan(trials, len(census.first_points()), (), whole=len(trials)), {}


def _plan_line(plan: Plan, request: base.Request, setting: Setting) -> str:
    return f"plan     {sum(t.kind is Kind.POINT for t in plan.trials)} trials"


faults.register(TwoSignals())
register_layer(Layer("ext4:slow", mkfs=MKFS_EXT4, mount="commit=300", audited=("commit",)))
add_family("label", {"write": Role(needs=True)})
base.register(
    base.Campaign(
        name="thirds",
        summary="Kill at every third hook of one workload.",
        subject=str(NOTES),
        driven_by="itself",
        options=(),
        inputs=matrix.inputs,
        plan=_every_third,
        plan_line=_plan_line,
        report=MATRIX,
    )
)

if __name__ == "__main__":
    main.main()
