"""`lab hooks`: a subject's hook catalogue with what a seed's workloads reach of it, by a real census."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lab.campaigns.frame import Request, checked, interruptible, new_stage
from lab.campaigns.matrix import WORKLOADS, Options, census
from lab.prepare import workloads

STORAGE = ("tmpfs",)  # the quickest; hooks do not depend on the layer, which every campaign's census shows


def print_hooks(subject_name: str, seed: int, say: Callable[[str], None]) -> int:
    """Print it; 0 if every hook of the catalogue was reached. A hook that is not reached is an error of the census."""
    request = Request("hooks", subject_name, seed, STORAGE, workers=2, keep_evidence=False)
    subject = checked(request)
    scripts = workloads(subject, seed, WORKLOADS)
    with interruptible(say) as stop, new_stage(request, subject, scripts, stop, say) as stage:
        found = census(stage.setting, stage.crew, Options(STORAGE, 1, exhaustive=False, bug=None), say)
    by_hook = [Counter(hit.hook for hit in hits) for hits in found.runs]
    in_recovery = Counter(hit.hook for _, hits in found.recoveries for hit in hits)
    width = max(len(hook.name) for hook in subject.hooks)
    say(f"{'hook':<{width}}  {'runs':>5}  {'per workload':<{4 * len(by_hook)}}  {'recoveries':>10}  meaning")
    for hook in subject.hooks:
        counts = [hits[hook.name] for hits in by_hook]
        each = "".join(f"{count:>4}" for count in counts)
        say(f"{hook.name:<{width}}  {sum(counts):>5}  {each}  {in_recovery[hook.name]:>10}  {hook.meaning}")
    total = sum(len(hits) for hits in found.runs)
    say(f"{len(subject.hooks)} hooks, {total:,} crash points in {len(found.runs)} workloads, seed {seed}")
    say(f"recoveries: {len(found.recoveries)} looked at, each after another first crash point")
    return 0
