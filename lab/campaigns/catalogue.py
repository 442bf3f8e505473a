"""`lab hooks`: a subject's hook catalogue with what a seed's workloads reach of it, by a real census."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable

from lab.campaigns.frame import Request, interruptible, new_stage
from lab.campaigns.matrix import WORKLOADS, Options, census
from lab.subject.load import Subject, load
from lab.trial.prepare import workloads

WIDTH = 100
STORAGE = ("tmpfs",)  # the quickest; hooks do not depend on the layer, which every campaign's census shows


def print_hooks(subject_name: str, seed: int, say: Callable[[str], None]) -> int:
    """Print it; 0 if every hook of the catalogue was reached. A hook that is not reached is an error of the census."""
    subject = load(subject_name)
    if subject.fuzz is not None:
        return _print_names(subject, say)
    request = Request("hooks", subject_name, seed, STORAGE, workers=2, keep_evidence=False)
    scripts = workloads(subject, seed, WORKLOADS)
    with interruptible(say) as stop, new_stage(request, subject, scripts, stop, say) as stage:
        found = census(stage.setting, stage.crew, Options(STORAGE, 1, exhaustive=False, bug=None), say)
    by_hook = [Counter(hit.hook for hit in hits) for hits in found.runs]
    in_recovery = Counter(hit.hook for _, hits in found.recoveries for hit in hits)
    say("hook: what it means, then its hits in all runs, in each workload, and in the recoveries looked at")
    for hook in subject.hooks:
        counts = [hits[hook.name] for hits in by_hook]
        each = "".join(f"{count:>4}" for count in counts)
        say("\n".join(textwrap.wrap(f"{hook.name}: {hook.meaning}", WIDTH, subsequent_indent=" " * 4)))
        say(f"    runs {sum(counts):>5}   workloads {each}   recoveries {in_recovery[hook.name]:>3}")
    total = sum(len(hits) for hits in found.runs)
    say(f"{len(subject.hooks)} hooks, {total:,} crash points in {len(found.runs)} workloads, seed {seed}")
    say(f"recoveries: {len(found.recoveries)} looked at, each after another first crash point")
    return 0


def _print_names(subject: Subject, say: Callable[[str], None]) -> int:
    """A daemon has no census: what it reaches depends on who talks to it, and when."""
    for hook in subject.hooks:
        say("\n".join(textwrap.wrap(f"{hook.name}: {hook.meaning} ({hook.where})", WIDTH, subsequent_indent=" " * 4)))
    say(f"{len(subject.hooks)} hooks of a daemon: `lab run fuzz` says which were killed at")
    return 0
