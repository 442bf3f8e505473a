"""Runs again what was run before: one trial of a stored run, or a reproducer, as often as asked."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

from lab.campaigns.base import Inputs, Request, campaign_of
from lab.campaigns.session import checked, interruptible
from lab.campaigns.stage import Stage, collect_dead, new_stage, old_stage
from lab.engine.errors import Interrupted, UsageError
from lab.engine.host import Say
from lab.engine.services import LABEL_KEPT, LABEL_RUN
from lab.model import CrashScript, Kind, Trial, Verdict, Word
from lab.plan.plan_file import plan_of
from lab.report.script import reproducer_lines
from lab.report.text import labelled
from lab.run import reproducer
from lab.run.data import GREEN
from lab.run.record import Record
from lab.run.scheduler import breaks
from lab.text import one_line
from lab.trial import Outcome, run_trial

WHY_LIMIT = 600  # characters of a line that says how one attempt ended


def replay_trial(record: Record, ident: int, times: int, keep: bool, say: Say) -> int:
    """Run one trial of a stored run again; 0 if it ends as it is recorded, each time. `keep` leaves what it made."""
    trial = campaign_of(record).trial(record, ident)
    if trial is None:
        raise UsageError(f"run {record.path.name} has no trial {ident}", f"`lab show {record.path.name}` lists them.")
    recorded = {r.trial.ident: r.verdict for r in record.results()}.get(ident)
    say(f"replay   trial {ident} of {record.path.name}: {in_brief(trial)} on {trial.storage}")
    same = ran = 0
    ended: list[Verdict] = []
    with interruptible(say) as stop, old_stage(record, (trial.storage,), 1, stop, keep=keep) as stage:
        for ran, outcome in _run(trial, times, stage, keep):
            folder = f"replays/{ident:04d}/{ran}"
            record.write_evidence(folder, outcome, outcome.verdict)
            same += _same(recorded, outcome.verdict)
            ended.append(outcome.verdict)
            say(_line(ran, outcome.verdict, str(record.path / folder)))
        if keep:
            _say_what_is_kept(stage, say)
    _all_ran(ran, times)
    if recorded is None:  # it had not run yet: this is its first verdict
        words = {verdict.word for verdict in ended}
        return 1 if Word.VIOLATION in words else 3 if Word.ERROR in words else 0 if words <= GREEN else 2
    say(f"reproduced {same}/{times}: {_in_words(recorded)}")
    return 0 if same == times else 2


def replay_script(path: Path, times: int, say: Say) -> int:
    """Run a reproducer; 0 if the promise that it is about breaks each time, 2 if it does not."""
    script = reproducer.read(path)
    request = Request(
        "fuzz",
        script.subject,
        script.scenario.seed,
        (script.storage,),
        1,
        keep_evidence=True,
        bug=script.bug,
        faults=tuple({kill.fault: None for kill in script.scenario.kills}),
    )
    subject = checked(request)
    hooks = {hook.name for hook in subject.hooks}
    for kill in script.scenario.kills:
        if not kill.is_moment and kill.hook not in hooks:
            raise UsageError(f"{path} kills at the hook {kill.hook!r}, which {subject.name} does not have")
    reproducer.check_operations(script, plan_of(subject), path)
    planted = f", planted bug {script.bug}" if script.bug else ""
    breaks_there = f"{script.property} on {script.storage}, seed {script.scenario.name}{planted}; found in {script.run}"
    for line in reproducer_lines(script.scenario, path, breaks_there):
        say(line)
    trial = Trial(1, Kind.POINT, script.storage, script.scenario, script.bug)
    broke = ran = 0
    with interruptible(say) as stop:
        collect_dead(say)
        with new_stage(f"replay-{uuid.uuid4().hex[:8]}", request, subject, Inputs(), stop, say) as stage:
            for ran, outcome in _run(trial, times, stage, keep=False):
                broke += breaks(outcome.verdict, script.property)
                say(_line(ran, outcome.verdict, ""))
    _all_ran(ran, times)
    say(f"reproduced {broke}/{times}: violation of {script.property}")
    return 0 if broke == times else 2


def in_brief(trial: Trial) -> str:
    """Where a trial strikes, for a person."""
    script = trial.script
    if isinstance(script, CrashScript):
        return " then ".join(map(str, script.points)) or f"a race of {script.racers}"
    return f"seed {script.name}"


def _run(trial: Trial, times: int, stage: Stage, keep: bool) -> Iterator[tuple[int, Outcome]]:
    """The trial again and again, by itself."""
    again = stage.pool.each(
        [trial] * times,
        lambda worker, t: run_trial(t, stage.setting, worker, keep_evidence=True, keep_containers=keep),
    )
    with contextlib.closing(again) as outcomes:
        yield from enumerate(outcomes, 1)


def _say_what_is_kept(stage: Stage, say: Say) -> None:
    say("kept     containers and volume: `docker exec -it …-keeper sh`; `lab gc` removes them")
    labels = [LABEL_KEPT, f"{LABEL_RUN}={stage.services.run}"]
    for container in stage.services.client.containers.list(
        all=True, filters={"label": labels, "name": "-process-|-keeper"}
    ):
        say(f"         {container.name}")


def _all_ran(ran: int, times: int) -> None:
    """Raises Interrupted if a replay was stopped: what is left to run has neither come again nor not."""
    if ran < times:
        raise Interrupted(f"after {ran} of {times}")


def _same(recorded: Verdict | None, now: Verdict) -> bool:
    """The same verdict, or a violation that breaks the same promise among others."""
    return recorded is not None and (
        (recorded.word, recorded.property) == (now.word, now.property)
        or (recorded.word is Word.VIOLATION and breaks(now, recorded.property))
    )


def _in_words(verdict: Verdict) -> str:
    return f"{verdict.word} of {verdict.property}" if verdict.property else str(verdict.word)


def _line(number: int, verdict: Verdict, folder: str) -> str:
    why = f": {one_line(verdict.why, WHY_LIMIT)}" if verdict.word is not Word.PASS else ""
    also = [name for name in verdict.broken if name != verdict.property]
    if verdict.word is Word.VIOLATION and also:
        why += f"; also broke {', '.join(also)}"
    lines = labelled(f"{number:>6}", _in_words(verdict) + why, width=9)
    if folder:
        lines += labelled("evidence", folder, indent=9, width=9)
    return "\n".join(lines)
