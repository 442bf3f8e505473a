"""Runs the candidates of the shrinker: from a trial that broke a promise to a reproducer, on a pool of workers."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from lab.engine.errors import Interrupted
from lab.model import Evidence, Scenario, Trial, Verdict
from lab.plan.shrink import Shrunk, shrink
from lab.run.pool import Pool
from lab.run.scheduler import breaks
from lab.trial import run_trial
from lab.trial.setting import Setting
from lab.trial.worker import Worker

MAX_CANDIDATES = 400  # of one shrinking; its time is bounded as well


def shrunk(evidence: Evidence, prop: str, setting: Setting, pool: Pool, seconds: float) -> Shrunk:
    """The shortest scenario found within so many seconds that breaks the promise `prop` on the same layer.

    An interrupt ends the search; what was found by then is not lost.
    """
    trial = evidence.trial
    assert isinstance(trial.script, Scenario)
    until_s = time.monotonic() + seconds
    interrupted = False

    def attempt(worker: Worker, task: tuple[int, Trial]) -> tuple[int, Verdict]:
        return task[0], run_trial(task[1], setting, worker, keep_evidence=False).verdict

    def fails(candidates: Sequence[Scenario]) -> int | None:
        nonlocal interrupted
        tasks = [(at, replace(trial, script=script)) for at, script in enumerate(candidates)]
        try:
            broke = [at for at, found in pool.all(tasks, attempt) if breaks(found, prop)]
        except Interrupted:
            interrupted = True
            return None
        return min(broke, default=None)

    return shrink(
        trial.script,
        fails,
        MAX_CANDIDATES,
        about=_step_of(evidence, prop),
        showed=_life_of(evidence, trial.script, prop),
        order=[line["step"] for line in evidence.history if line.get("event") == "invoke" and line["step"]],
        expired=lambda: interrupted or time.monotonic() > until_s,
        at_once=pool.size,
    )


def _step_of(evidence: Evidence, prop: str) -> int | None:
    """The operation that the property's first difference names."""
    for look in evidence.looks:
        finding = look.properties.get(prop)
        if finding is not None and finding.differs is not None:
            found = re.match(r"step=(\d+) ", finding.differs.fact)
            return int(found[1]) if found else None
    return None


def _life_of(evidence: Evidence, script: Scenario, prop: str) -> int | None:
    """The life that most likely showed the break: the one a trial came to, or else the one after its operation's."""
    step = _step_of(evidence, prop)
    if evidence.failure is not None:
        return len(evidence.processes)
    return next((n for n, life in enumerate(script.lives[:-1], 2) if any(op.step == step for op in life.ops)), None)
