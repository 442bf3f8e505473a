"""`lab hooks`: a subject's hook catalogue with what a seed's workloads reach of it, by a real census."""

from __future__ import annotations

import textwrap
import uuid
from collections import Counter

from lab.campaigns.base import Planning, Request
from lab.campaigns.matrix import MATRIX_CAMPAIGN, census
from lab.campaigns.session import interruptible
from lab.campaigns.stage import new_stage
from lab.engine.host import Say
from lab.subject.load import load
from lab.subject.spec import Subject

WIDTH = 100
STORAGE = ("tmpfs",)  # the quickest; hooks do not depend on the layer, which every campaign's census shows


def print_hooks(subject_name: str, seed: int, say: Say) -> int:
    """Print it; 0 if every hook of the catalogue was reached. A hook that is not reached is an error of the census."""
    subject = load(subject_name)
    if subject.driven_by != MATRIX_CAMPAIGN.driven_by:
        return _print_names(subject, say)
    request = Request("matrix", subject_name, seed, STORAGE, workers=2, keep_evidence=False)
    inputs = MATRIX_CAMPAIGN.inputs(subject, request)
    run = f"hooks-{uuid.uuid4().hex[:8]}"
    with interruptible(say) as stop, new_stage(run, request, subject, inputs, stop, say) as stage:
        found = census(Planning(request, inputs, stage.setting, stage.pool, say), exhaustive=False)
    by_hook = [Counter(hit.hook for hit in hits) for hits in found.runs]
    in_recovery = Counter(hit.hook for recovery in found.recoveries for hit in (*recovery.hits, *recovery.work))
    say("hook: what it means, then its hits in all runs, in each workload, and in the recoveries looked at")
    for hook in subject.hooks:
        counts = [hits[hook.name] for hits in by_hook]
        each = "".join(f"{count:>4}" for count in counts)
        say("\n".join(textwrap.wrap(f"{hook.name}: {hook.meaning}", WIDTH, subsequent_indent=" " * 4)))
        say(f"    runs {sum(counts):>5}   workloads {each}   recoveries {in_recovery[hook.name]:>3}")
    total = sum(len(hits) for hits in found.runs)
    say(f"{len(subject.hooks)} hooks, {total:,} crash points in {len(found.runs)} workloads, seed {seed}")
    say(f"recoveries: {len(found.recoveries)} looked at, with the work behind them, each after another first point")
    return 0


def _print_names(subject: Subject, say: Say) -> int:
    """A daemon has no census: what it reaches depends on who talks to it, and when."""
    for hook in subject.hooks:
        say("\n".join(textwrap.wrap(f"{hook.name}: {hook.meaning} ({hook.where})", WIDTH, subsequent_indent=" " * 4)))
    say(f"{len(subject.hooks)} hooks of a daemon: `lab run fuzz` says which were killed at")
    return 0
