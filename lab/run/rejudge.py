"""Judges stored evidence again, without running a trial: `lab verify`.

Only a trial whose evidence was kept whole can be judged; the rest are counted, and the command is not green about them.
"""

from __future__ import annotations

import base64
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import docker

from lab.engine import images
from lab.engine.client import connect
from lab.engine.container import Spec
from lab.engine.errors import Interrupted, LabError
from lab.engine.services import LABEL_ROLE, LABEL_RUN
from lab.model import Evidence, Verdict, Word
from lab.run.record import Record
from lab.subject.spec import Subject
from lab.trial.checker import Checker
from lab.trial.judge import judge
from lab.trial.setting import Setting

MEMORY_MB = 512


def rejudge(name: str, say: Callable[[str], None]) -> int:
    """Ask today's verifier about every look that was kept.

    0: the same verdicts; 1: some differ; 3: some could not be judged; 2: there are none to judge.
    """
    record = Record.find(name)
    setting = record.setting()
    subject = setting.subject
    client = connect()
    image = images.resolve(client, subject.verifier.image, subject.folder, say)
    results = record.results()
    judged = differing = failed = 0
    for result in results:
        try:
            evidence, volumes = record.evidence(result.evidence) if result.evidence else (None, ())
            if evidence is None or not evidence.looks or len(volumes) < len(evidence.looks):
                continue
            with _open_checker(client, image, subject) as checker:
                now = _judge_again(evidence, volumes, checker, setting)
        except Interrupted:
            raise
        except LabError as error:
            failed += 1
            say(f"verify   trial {result.trial.ident} could not be judged: {error.what}")
            continue
        judged += 1
        differing += _tell(result.trial.ident, result.verdict, now, say)
    rest = f"{len(results) - judged - failed:,} were not kept whole"
    rest += f"; {failed:,} could not be judged" if failed else ""
    say(f"verify   {judged:,} judged again, {differing:,} differ; {rest}")
    if failed:
        return 1 if differing else LabError.exit_code
    if judged == 0:
        say("verify   nothing to judge: run with `--evidence all` to keep every trial whole")
        return 2
    return 1 if differing else 0


def _judge_again(evidence: Evidence, volumes: tuple[bytes, ...], checker: Checker, setting: Setting) -> Verdict:
    script, subject = evidence.trial.script, setting.subject
    looks = []
    for look, volume in zip(evidence.looks, volumes, strict=True):
        request = {
            "workload": setting.told(script),
            "prepared": setting.prepared.told,
            "history": list(evidence.history[: look.history]),
            "ledger": look.ledger,
            "volume": base64.b64encode(volume).decode(),
        }
        again = checker.look(look.name, look.process, request, subject.deadlines.look)
        looks.append(replace(again, mount=look.mount, history=look.history, ledger=look.ledger))
    failure = evidence.failure
    if failure is not None and failure.word is Word.ERROR and failure.phase.startswith("look:"):
        failure = None  # the verifier had raised, which it is asked about again here
    again_seen = replace(evidence, looks=tuple(looks), failure=failure)
    return judge(again_seen, setting.promised(script), subject.verifier.audits)


def _tell(ident: int, before: Verdict, verdict: Verdict, say: Callable[[str], None]) -> bool:
    """Say what became of a verdict; True if it is another."""
    if (before.word, before.property) == (verdict.word, verdict.property):
        return False
    now = f"{verdict.word} {verdict.property}"
    say(f"verify   trial {ident}: was {before.word} {before.property}, is {now}")
    if verdict.why:
        say(f"         {verdict.why}")
    return True


@contextmanager
def _open_checker(client: docker.DockerClient, image: str, subject: Subject) -> Iterator[Checker]:
    uid = subject.subject.uid
    run = f"verify-{uuid.uuid4().hex[:8]}"
    spec = Spec(
        image=image,
        command=subject.verifier.command,
        name=f"lab-{run}",
        labels={LABEL_RUN: run, LABEL_ROLE: "agent"},  # alive while it runs, as a run is while its agent does
        user=f"{uid}:{uid}",
        network="none",
        environment={"LAB_DATA": "/"},
        memory_mb=MEMORY_MB,
        tmp_mb=64,
    )
    checker = Checker(client, spec, threading.Event())
    try:
        checker.start()
        checker.hello(subject.deadlines.ready)
        yield checker
        checker.finish()
    finally:
        checker.remove()
