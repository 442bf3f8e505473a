"""Which trials a fuzz run consists of, in which order: canaries, seeds that once failed, then scenario after scenario.

Pure. A run that is bounded by time has no last trial; the caller stops asking.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.fuzz.model import FuzzTrial
from lab.model import Kind
from lab.plan.plan_file import PlanFile, Seed
from lab.plan.scenarios import scenario
from lab.subject.load import Bug, Hook


@dataclass(frozen=True)
class Draw:
    """All that scenarios are drawn from."""

    plan: PlanFile
    hooks: tuple[Hook, ...]
    seed: int
    storages: tuple[str, ...]

    def trial(self, ident: int, kind: Kind, number: int, storage: str, bug: str | None, seed: int) -> FuzzTrial:
        return FuzzTrial(ident, kind, storage, scenario(self.plan, self.hooks, seed, number), bug)

    def layer(self, number: int) -> str:
        """The layers in turn."""
        return self.storages[number % len(self.storages)]


def groups(
    draw: Draw, bugs: Sequence[Bug], corpus: Sequence[Seed], bug: Bug | None, trials: int | None
) -> Iterator[tuple[FuzzTrial, ...]]:
    """The run's trials; those of one group run one after the other until one is caught.

    `trials` are the run's own, canaries and corpus not counted; None is without an end. With a planted `bug` there is
    nothing but its trials, as many as it may take.
    """
    idents = itertools.count(1)
    if bug is not None:
        for number in range(1, (trials or bug.within or 1) + 1):
            yield (draw.trial(next(idents), Kind.POINT, number, draw.layer(number), bug.name, draw.seed),)
        return
    for planted in bugs:
        if planted.canary:
            numbers = range(1, (planted.within or 1) + 1)
            yield tuple(
                draw.trial(next(idents), Kind.CANARY, n, draw.layer(n), planted.name, draw.seed) for n in numbers
            )
    for once in corpus:
        for storage in draw.storages:
            yield (draw.trial(next(idents), Kind.POINT, once.number, storage, None, once.seed),)
    for number in itertools.count(1) if trials is None else range(1, trials + 1):
        yield (draw.trial(next(idents), Kind.POINT, number, draw.layer(number), None, draw.seed),)
