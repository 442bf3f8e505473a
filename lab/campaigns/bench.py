"""The lab's trial rate against the engine's own floor, in one run: what isolation costs, and what the lab adds to it.

The floor of a trial is the engine's own cycle as often as a trial starts containers: create, attach, start, kill,
wait, remove; hardened, without a network and with volumes mounted as the lab's are. No fresh filesystem, no subject's
work, no verifier. (Two of a trial's three containers end by themselves, which is cheaper than a kill: the lab may use
that.)
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable

from lab.campaigns.base import Request
from lab.campaigns.matrix import MATRIX_CAMPAIGN
from lab.campaigns.session import checked, interruptible
from lab.campaigns.stage import new_stage
from lab.engine.container import Container, Mount, Spec
from lab.engine.errors import LabError
from lab.engine.host import Say
from lab.engine.services import LABEL_ROLE, LABEL_RUN, SOCKETS, pool_volume
from lab.engine.stream import LineParser
from lab.model import ANSWER, CrashScript, Kind, Trial, Word
from lab.plan.census import FirstPoint
from lab.run.pool import Pool
from lab.storage import DEFAULT
from lab.trial import run_trial, take_census
from lab.trial.setting import Setting
from lab.trial.worker import Worker

BLOCKS = 4  # floor and lab take turns, so that a machine whose speed drifts slows both
STARTS = 3  # containers of a trial with one crash
WAIT_S = 30.0


def measure(trials: int, workers: int, as_json: bool, say: Say) -> None:
    """Print both rates and their ratio. Raises LabError if a trial does not pass: a rate of failures says nothing."""
    request = Request("matrix", MATRIX_CAMPAIGN.subject, 1, DEFAULT, workers, keep_evidence=False)
    quiet: Say = (lambda _: None) if as_json else say
    floor_s = lab_s = 0.0
    subject = checked(request)
    inputs = MATRIX_CAMPAIGN.inputs(subject, request)
    run = f"bench-{uuid.uuid4().hex[:8]}"
    with interruptible(quiet) as stop, new_stage(run, request, subject, inputs, stop, quiet) as stage:
        hits = stage.pool.all(range(len(inputs.workloads)), lambda worker, n: _points(worker, n, stage.setting))
        planned = _spread([point for workload in hits for point in workload], trials)
        blocks = [planned[n::BLOCKS] for n in range(BLOCKS)]
        for block in blocks:
            floor_s += _timed(stage.pool, block, lambda worker, trial: _floor(worker, stage.services.images.base))
            lab_s += _timed(stage.pool, block, lambda worker, trial: _lab(worker, trial, stage.setting))
    count = len(planned)
    rates = {
        "floor_trials_per_second": round(count / floor_s, 3),
        "lab_trials_per_second": round(count / lab_s, 3),
        "ratio": round(floor_s / lab_s, 3),
    }
    if as_json:
        say(json.dumps(rates, indent=1))
        return
    say(f"floor    {rates['floor_trials_per_second']:.2f} × {STARTS} container starts a second, {workers} workers")
    say(f"lab      {rates['lab_trials_per_second']:.2f} trials a second, {STARTS} starts each, {count} trials")
    say(f"ratio    {rates['ratio']:.2f} of the floor")


def _points(worker: Worker, workload: int, setting: Setting) -> list[FirstPoint]:
    hits = take_census(setting, worker, workload, "tmpfs", None).hits
    return [FirstPoint(workload, hit) for hit in hits if hit.hook != ANSWER]


def _spread(points: list[FirstPoint], count: int) -> list[Trial]:
    """`count` single-crash trials, evenly over the census and in turn over the layers."""
    chosen = [points[i * len(points) // count] for i in range(count)]
    scripts = [CrashScript(p.workload, (p.point,)) for p in chosen]
    return [Trial(i + 1, Kind.POINT, DEFAULT[i % len(DEFAULT)], s) for i, s in enumerate(scripts)]


def _timed(pool: Pool, block: list[Trial], do: Callable[[Worker, Trial], None]) -> float:
    began = time.monotonic()
    pool.all(block, do)
    return time.monotonic() - began


def _lab(worker: Worker, trial: Trial, setting: Setting) -> None:
    verdict = run_trial(trial, setting, worker, keep_evidence=False).verdict
    if verdict.word is not Word.PASS:
        raise LabError(f"a trial of the benchmark ended in {verdict.word}: {verdict.why}")


def _floor(worker: Worker, image: str) -> None:
    """The engine's cycle, as often as a trial starts containers."""
    for _ in range(STARTS):
        container = Container(worker.client, _spec(worker, image), LineParser(), worker.stop)
        try:
            container.start()
            container.kill()
            container.wait(WAIT_S)
        finally:
            container.remove()


def _spec(worker: Worker, image: str) -> Spec:
    return Spec(
        image=image,
        command=["cat"],
        name=f"lab-floor-{uuid.uuid4().hex[:12]}",
        labels={**worker.labels, LABEL_ROLE: "floor"},
        user="1000:1000",
        network=f"container:{worker.holder}",
        mounts=[Mount(pool_volume(worker.labels[LABEL_RUN]), path, read_only=True) for path in ("/data", SOCKETS)],
    )
