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
from lab.engine.services import LABEL_ROLE, LABEL_RUN
from lab.model import Evidence, Json, Look, Result, Verdict, Word
from lab.prepare import promises_of
from lab.record import Record
from lab.stored import recorded_subject
from lab.subject import Subject
from lab.verdict import judge
from lab.verifier import Verifier

MEMORY_MB = 512


def rejudge(name: str, say: Callable[[str], None]) -> int:
    """Ask today's verifier about every look that was kept. 0: the same verdicts; 1: some differ; 2: none to judge."""
    record = Record.find(name)
    subject = recorded_subject(record)
    workloads, prepared = record.inputs()
    client = connect()
    image = images.resolve(client, subject.verifier.image, subject.folder, say)
    judged = differing = 0
    results = record.results()
    for result in results:
        evidence, volumes = record.evidence(result.evidence) if result.evidence else (None, ())
        if evidence is None or len(volumes) < len(evidence.looks) or not evidence.looks:
            continue
        with _verifier(client, image, subject) as verifier:
            told = {"workload": workloads[result.trial.workload], "prepared": prepared.told}
            verdict = _judge_again(evidence, volumes, verifier, told, subject)
        judged += 1
        differing += _tell(result, verdict, say)
    say(f"verify   {judged:,} judged again, {differing:,} differ; {len(results) - judged:,} were not kept whole")
    if judged == 0:
        say("verify   nothing to judge: run with `--evidence all` to keep every trial whole")
        return 2
    return 1 if differing else 0


def _judge_again(
    evidence: Evidence, volumes: tuple[bytes, ...], verifier: Verifier, told: Json, subject: Subject
) -> Verdict:
    looks: list[Look] = []
    for look, volume in zip(evidence.looks, volumes, strict=True):
        request = {
            **told,
            "history": list(evidence.history[: look.history]),
            "ledger": look.ledger,
            "volume": base64.b64encode(volume).decode(),
        }
        again = verifier.look(look.name, look.process, request, subject.deadlines.look)
        looks.append(replace(again, mount=look.mount))  # where it lies today says nothing about the trial
    promises = promises_of(subject, told["workload"])
    return judge(replace(evidence, looks=tuple(looks)), promises, subject.verifier.audits)


def _tell(result: Result, verdict: Verdict, say: Callable[[str], None]) -> bool:
    """Say what became of a verdict; True if it is another."""
    before = result.verdict
    # Evidence alone cannot tell these two apart.
    was = Word.VIOLATION if before.word is Word.UNREPRODUCED else before.word
    if (was, before.property) == (verdict.word, verdict.property):
        return False
    now = f"{verdict.word} {verdict.property}"
    say(f"verify   trial {result.trial.ident}: was {before.word} {before.property}, is {now}")
    if verdict.why:
        say(f"         {verdict.why}")
    return True


@contextmanager
def _verifier(client: docker.DockerClient, image: str, subject: Subject) -> Iterator[Verifier]:
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
    verifier = Verifier(client, spec, threading.Event())
    try:
        verifier.start()
        verifier.hello(subject.deadlines.ready)
        yield verifier
        verifier.finish()
    finally:
        verifier.remove()
