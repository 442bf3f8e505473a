"""Which trials a fuzz run consists of, in which order: canaries, seeds that once failed, then scenario after scenario.

Pure. A run that is bounded by time has no last trial; the caller stops asking.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lab.model import SIGKILL, Kind, Scenario, Trial
from lab.plan.plan_file import PlanFile, Seed
from lab.plan.points import with_faults
from lab.plan.scenarios import scenario
from lab.subject.spec import Bug, Hook


@dataclass(frozen=True)
class Draw:
    """All that scenarios are drawn from."""

    plan: PlanFile
    hooks: tuple[Hook, ...]
    seed: int
    storages: tuple[str, ...]
    faults: tuple[str, ...] = (SIGKILL,)

    def trial(
        self,
        ident: int,
        kind: Kind,
        number: int,
        storage: str,
        bug: str | None = None,
        seed: int | None = None,
        faults: str = SIGKILL,
    ) -> Trial:
        """A trial of one scenario, of the run's own seed or of one that failed once."""
        drawn = scenario(self.plan, self.hooks, self.seed if seed is None else seed, number)
        why = "random" if seed is None else "corpus"
        return Trial(ident, kind, storage, _struck_by(drawn, faults), bug, why, faults)

    def layer(self, number: int) -> str:
        return self.storages[number % len(self.storages)]


def _struck_by(drawn: Scenario, faults: str) -> Scenario:
    kills = iter(with_faults(drawn.kills, faults))
    lives = (replace(life, kill=None if life.kill is None else next(kills)) for life in drawn.lives)
    return replace(drawn, lives=tuple(lives))


def groups(
    draw: Draw, bugs: Sequence[Bug], corpus: Sequence[Seed], bug: Bug | None, trials: int | None
) -> Iterator[tuple[Trial, ...]]:
    """The run's trials; those of one group run one after the other until one is caught.

    `trials` are the run's own, canaries and corpus not counted; None is without an end. With a planted `bug` there is
    nothing but its trials, as many as it may take. Each scenario runs once for each spelling of faults.
    """
    idents = itertools.count(1)

    def alone(number: int, storage: str, planted: str | None = None, seed: int | None = None) -> Iterator[tuple[Trial]]:
        for faults in draw.faults:
            yield (draw.trial(next(idents), Kind.POINT, number, storage, planted, seed, faults),)

    if bug is not None:
        for number in range(1, (trials or bug.within or 1) + 1):
            yield from alone(number, draw.layer(number), bug.name)
        return
    for planted, faults in itertools.product((b for b in bugs if b.canary), draw.faults):
        yield tuple(
            draw.trial(next(idents), Kind.CANARY, n, draw.layer(n), planted.name, faults=faults)
            for n in range(1, (planted.within or 1) + 1)
        )
    for once, storage in itertools.product(corpus, draw.storages):
        yield from alone(once.number, storage, seed=once.seed)
    for number in itertools.count(1) if trials is None else range(1, trials + 1):
        yield from alone(number, draw.layer(number))
