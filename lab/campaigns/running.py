"""The commands that run trials: a new campaign, one that is resumed, one trial that is replayed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from lab.campaigns import cells, fuzz, fuzz_replay, matrix
from lab.campaigns.frame import (
    Request,
    Say,
    Stage,
    all_ran,
    carry_out,
    checked,
    collect_dead,
    in_words,
    interruptible,
    new_record,
    new_stage,
    old_stage,
)
from lab.engine.client import connect
from lab.engine.errors import Interrupted, UsageError
from lab.engine.services import LABEL_KEPT, LABEL_RUN
from lab.fuzz.model import CAMPAIGN
from lab.fuzz.store import Bounds
from lab.model import Kind, Verdict, Word, to_json
from lab.plan import points as plans
from lab.plan.points import Plan
from lab.report import write as reports
from lab.report.fuzz_progress import LineFuzz, fuzz_progress_for
from lab.report.progress import CampaignProgress, LineProgress, progress_for
from lab.report.text import plural
from lab.run.pool import Stop
from lab.run.record import Record
from lab.trial.life import run_trial
from lab.trial.prepare import workloads

MakeProgress = Callable[[str, tuple[str, ...]], CampaignProgress]


def run_matrix(
    request: Request, options: matrix.Options, shard: tuple[int, int] | None, say: Say, progress: MakeProgress
) -> int:
    """A whole matrix campaign; the command's exit code."""
    subject = checked(request)
    scripts = workloads(subject, request.seed, matrix.WORKLOADS)
    with interruptible(say) as stop:
        with new_stage(request, subject, scripts, stop, say) as stage:
            record = new_record(request, stage)
            with record.locked():
                found = matrix.census(stage.setting, stage.crew, options, say)
                plan = matrix.make_plan(stage.setting, options, found)
                if shard is not None:
                    plan = plans.shard(plan, *shard)
                record.write("census.json", to_json(found))
                record.write_plan(plan)
                say(_plan_line(plan, stage, request, found))
                _run(record, plan, stage, stop, progress)
        return _end(record, stop, say)


def run_cells(request: Request, options: cells.Options, say: Say, progress: MakeProgress) -> int:
    """A whole cells campaign; the command's exit code."""
    subject = checked(request)
    legs, scripts = cells.scripts(subject, request.seed, options)
    with interruptible(say) as stop:
        with new_stage(request, subject, scripts, stop, say) as stage:
            record = new_record(request, stage)
            with record.locked():
                offered = sum(leg.workload is not None for leg in legs)
                say(f"census   {offered} legs, each twice; {len(legs) - offered} not offered")
                found = cells.census(stage.setting, stage.crew, options, legs)
                plan = cells.make_plan(stage.setting, options, legs, found)
                record.write("census.json", to_json(found))
                record.write("legs.json", to_json(legs))
                record.write_plan(plan)
                say(_cells_plan_line(plan, legs, request))
                _run(record, plan, stage, stop, progress)
        return _end(record, stop, say)


def run_fuzz(request: Request, bounds: Bounds, screen: Console, verbose: bool, say: Say) -> int:
    """A whole fuzz run; the command's exit code."""
    return fuzz.run_fuzz(request, bounds, say, _fuzz_progress(screen, verbose, say))


def resume(name: str, screen: Console, verbose: bool, say: Say) -> int:
    """Finish a run that was stopped, each trial exactly once; the command's exit code."""
    record = Record.find(name)
    header = record.header()
    if header.campaign == CAMPAIGN:
        return fuzz.resume_fuzz(record, say, _fuzz_progress(screen, verbose, say))
    progress = progress_maker(screen, verbose, say)
    with interruptible(say) as stop:
        with record.locked():
            plan = record.plan()
            _collect(record, say)
            left = len(plan.trials) - len(record.results())
            say(f"resume   {header.run}: {left:,} of {len(plan.trials):,} trials left")
            with old_stage(record, header.storages, header.workers, stop) as stage:
                _run(record, plan, stage, stop, progress)
            _collect(record, say)
        return _end(record, stop, say)


def replay(name: str, trial: int | None, times: int, keep: bool, say: Say) -> int:
    """Run one trial of a stored run again, or a script, by itself; 0 if it ends as it is recorded, each time."""
    script = Path(name)
    if trial is None and not script.is_file():
        raise UsageError(f"which trial of {name}?", "`lab replay RUN TRIAL`, or `lab replay SCRIPT` of a fuzz run.")
    record = None if trial is None else Record.find(name)
    if record is None or record.header().campaign == CAMPAIGN:
        if keep:
            raise UsageError("--keep is for crash points", "What a fuzz trial leaves is in its evidence: home.tgz.")
        if record is None or trial is None:
            return fuzz_replay.replay_script(script, times, say)
        return fuzz_replay.replay_trial(record, trial, times, say)
    assert trial is not None
    found = [t for t in record.plan().trials if t.ident == trial]
    if not found:
        raise UsageError(
            f"run {record.path.name} has no trial {trial}",
            f"They are numbered 1 to {max((t.ident for t in record.plan().trials), default=0)}.",
        )
    recorded = {r.trial.ident: r.verdict for r in record.results()}.get(trial)
    points = " then ".join(str(point) for point in found[0].points) or f"a race of {found[0].racers}"
    say(f"replay   trial {trial} of {record.path.name}: {points} on {found[0].storage}")
    same = ran = 0
    with interruptible(say) as stop, old_stage(record, (found[0].storage,), 1, stop, keep=keep) as stage:
        for number in range(1, times + 1):
            folder = f"replays/{trial:04d}/{number}"
            for outcome in stage.crew.each(
                found,
                lambda worker, t: run_trial(t, stage.setting, worker, keep_evidence=True, keep_containers=keep),
            ):
                record.write_evidence(folder, outcome.evidence, outcome.verdict, outcome.volumes)
                same += _same(recorded, outcome.verdict)
                ran += 1
                say(_replay_line(number, outcome.verdict, str(record.path / folder)))
        if keep:
            say("kept     containers and volume: `docker exec -it …-keeper sh`; `lab gc` removes them")
            for container in stage.services.client.containers.list(
                all=True,
                filters={"label": [LABEL_KEPT, f"{LABEL_RUN}={stage.services.run}"], "name": "-process-|-keeper"},
            ):
                say(f"         {container.name}")
    all_ran(ran, times)
    if recorded is None:
        return 0
    say(f"the same as recorded ({in_words(recorded)}): {same} of {times}")
    return 0 if same == times else 2


def _fuzz_progress(screen: Console, verbose: bool, say: Say) -> fuzz.MakeProgress:
    if verbose:
        return lambda storages: LineFuzz(say)
    return lambda storages: fuzz_progress_for(CAMPAIGN, storages, screen)


def progress_maker(console: Console, verbose: bool, say: Say) -> MakeProgress:
    """How progress is shown: a line a trial if asked for, else a bar on a terminal, else lines now and then."""
    if verbose:
        return lambda campaign, storages: LineProgress(say)
    return lambda campaign, storages: progress_for(campaign, storages, console)


def _run(record: Record, plan: Plan, stage: Stage, stop: Stop, make: MakeProgress) -> None:
    header = record.header()
    done = {r.trial.ident for r in record.results()}
    progress = make(header.campaign, header.storages)
    progress.start(len([t for t in plan.trials if t.ident not in done and t.kind is not Kind.CANARY]) + _canaries(plan))
    try:
        carry_out(record, plan, stage, stop, progress.finished)
    except Interrupted as error:
        raise Interrupted("in the middle of its trials", f"`lab resume {header.run}` finishes it.") from error
    finally:
        with contextlib.suppress(OSError):  # a closed terminal must not hide why a run ended
            progress.stop()


def _end(record: Record, stop: Stop, say: Say) -> int:
    code = reports.finish(record, say)
    if stop.soon.is_set():
        say(f"stopped  `lab resume {record.path.name}` finishes it")
        return 130
    return code


def _collect(record: Record, say: Say) -> None:
    collect_dead(connect(), say, dead_run=record.path.name)


def _canaries(plan: Plan) -> int:
    return len({(t.bug, t.storage) for t in plan.trials if t.kind is Kind.CANARY})


def _plan_line(plan: Plan, stage: Stage, request: Request, found: plans.Census) -> str:
    points = [t for t in plan.trials if t.kind is Kind.POINT]
    layers = len(request.storages)
    each = f"{plural(len(points) // layers, 'point')} × {plural(layers, 'layer')}"
    parts = [f"{plural(len(points), 'trial')} = {each}"]
    parts += [f"{len(found.runs)} workloads", f"{len(stage.setting.subject.hooks)} hooks"]
    probes = sum(t.kind is Kind.PROBE for t in plan.trials)
    if probes:
        parts.append(f"{probes:,} probes")
    if _canaries(plan):
        parts.append(f"{_canaries(plan)} canaries")
    return "plan     " + " · ".join(parts)


def _cells_plan_line(plan: Plan, legs: Sequence[cells.Leg], request: Request) -> str:
    trials = sum(t.kind is Kind.POINT for t in plan.trials)
    races = sum(bool(t.racers) for t in plan.trials)
    names = {leg.cell for leg in legs if leg.workload is not None}
    parts = [f"{plural(trials, 'trial')} on {plural(len(request.storages), 'layer')}", plural(len(names), "cell")]
    parts += [plural(races, "race"), f"{_canaries(plan)} canaries"]
    return "plan     " + " · ".join(parts)


def _same(recorded: Verdict | None, now: Verdict) -> bool:
    return recorded is not None and (recorded.word, recorded.property) == (now.word, now.property)


def _replay_line(number: int, verdict: Verdict, folder: str) -> str:
    why = f": {verdict.why}" if verdict.word is not Word.PASS else ""
    return f"{number:>6}   {in_words(verdict)}{why}\n         evidence {folder}"
