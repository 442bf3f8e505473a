"""Fuzz trials again: one of a stored run, a script that still fails, or stored evidence before today's oracle."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.campaigns import frame
from lab.campaigns.frame import Request, Say
from lab.campaigns.fuzz import Stage, build, recorded_tags, stage
from lab.engine.client import connect
from lab.engine.errors import UsageError
from lab.fuzz import store
from lab.fuzz.model import CAMPAIGN, FuzzResult, FuzzTrial
from lab.fuzz.run import breaks
from lab.fuzz.trial import FuzzOutcome, run_trial
from lab.model import Kind, Verdict, Word
from lab.plan.plan_file import plan_of
from lab.plan.schedule import Draw
from lab.report.table import labelled
from lab.report.text import one_line
from lab.run import reproducer as scripts
from lab.run.load import recorded_subject
from lab.run.record import Record
from lab.trial.worker import Worker

WHY_LIMIT = 600  # characters of a line that says how one attempt ended
_CARETS = re.compile(r"(?:\| )?(?<!\S)[~^]+(?!\S) ?")


def replay_trial(record: Record, ident: int, times: int, say: Say) -> int:
    """Run one trial of a stored run again; 0 if it ends as it is recorded, each time."""
    recorded = {r.trial.ident: r for r in store.results(record)}.get(ident)
    if recorded is None:
        raise UsageError(
            f"run {record.path.name} has finished no trial {ident}", f"`lab show {record.path.name}` lists them."
        )
    header, subject = record.header(), recorded_subject(record)
    trial = _drawn_again(record, recorded)
    say(f"replay   trial {ident} of {record.path.name}: seed {trial.scenario.name} on {trial.storage}")
    say(f"image    {header.subject_image}, as that run had it; a script is replayed on today's")
    request = Request(CAMPAIGN, header.subject, header.seed, (trial.storage,), 1, keep_evidence=True)
    before = recorded.verdict
    with frame.interruptible(say) as stop, stage(_name(), request, subject, recorded_tags(record), stop) as ready:
        same = number = 0
        for number, outcome in _run(trial, times, ready):
            folder = f"replays/{ident:04d}/{number}"
            store.write_evidence(record, folder, outcome.evidence, outcome.verdict, outcome.home)
            now = outcome.verdict
            same += (now.word, now.property) == (before.word, before.property) or breaks(now, before.property)
            say(_line(number, now, str(record.path / folder)))
    frame.all_ran(number, times)
    say(f"the same as recorded ({frame.in_words(before)}): {same} of {times}")
    return 0 if same == times else 2


def replay_script(path: Path, times: int, say: Say) -> int:
    """Run a script; 0 if the promise that it is about breaks each time, 2 if it does not."""
    script = scripts.read(path)
    request = Request(CAMPAIGN, script.subject, script.scenario.seed, (script.storage,), 1, keep_evidence=True)
    subject = frame.checked(replace(request, bug=script.bug))
    scripts.check_operations(script, plan_of(subject), path)
    hooks = {hook.name for hook in subject.hooks}
    for kill in script.scenario.kills:
        if kill.at == "hook" and kill.hook not in hooks:
            raise UsageError(f"{path} kills at the hook {kill.hook!r}, which {subject.name} does not have")
    for line in scripts.lines(script, path):
        say(line)
    trial = FuzzTrial(1, Kind.POINT, script.storage, script.scenario, script.bug)
    client = connect()
    frame.collect_dead(client, say)
    tags = build(subject, say)
    with frame.interruptible(say) as stop, stage(_name(), request, subject, tags, stop) as ready:
        broke = number = 0
        for number, outcome in _run(trial, times, ready):
            broke += breaks(outcome.verdict, script.property)
            say(_line(number, outcome.verdict, ""))
    frame.all_ran(number, times)
    say(f"{script.property} broken: {broke} of {times}")
    return 0 if broke == times else 2


def _run(trial: FuzzTrial, times: int, ready: Stage) -> Iterator[tuple[int, FuzzOutcome]]:
    """The trial again and again, by itself. Closed by its reader or at its end."""

    def attempt(worker: Worker, task: FuzzTrial) -> FuzzOutcome:
        return run_trial(task, ready.setting, worker, keep_evidence=True)

    with contextlib.closing(ready.crew.each([trial] * times, attempt)) as outcomes:
        yield from enumerate(outcomes, 1)


def _drawn_again(record: Record, result: FuzzResult) -> FuzzTrial:
    """The trial with its scenario: as it was kept, or else drawn again from its seed and number."""
    if result.evidence is not None:
        return store.read_evidence(record, result.evidence).trial
    plan, _, _ = store.read_plan(record)
    name = result.trial.scenario
    draw = Draw(plan, recorded_subject(record).hooks, name.seed, record.header().storages)
    return draw.trial(
        result.trial.ident, result.trial.kind, name.number, result.trial.storage, result.trial.bug, name.seed
    )


def _name() -> str:
    return f"replay-{uuid.uuid4().hex[:8]}"


def _line(number: int, verdict: Verdict, folder: str) -> str:
    """How one attempt ended; a daemon's last words without the carets of its traceback, the evidence has them."""
    why = f": {one_line(_CARETS.sub('', one_line(verdict.why)), WHY_LIMIT)}" if verdict.word is not Word.PASS else ""
    lines = labelled(f"{number:>6}", frame.in_words(verdict) + why, width=9)
    if folder:
        lines += labelled("evidence", folder, indent=9, width=9)
    return "\n".join(lines)
