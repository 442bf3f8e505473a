"""Judges stored evidence again, without running a trial: `lab verify`.

Only a trial whose evidence was kept whole can be judged; the rest are counted, and the command is not green about them.
"""

from __future__ import annotations

import base64
import io
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import docker

from lab.engine import images
from lab.engine.client import connect
from lab.engine.container import Spec
from lab.engine.services import LABEL_ROLE, LABEL_RUN
from lab.fuzz import store
from lab.fuzz.model import FuzzResult
from lab.fuzz.verdict import judge as fuzz_judge
from lab.model import Evidence, Json, Look, Result, Verdict, Word, to_json
from lab.run.load import recorded_subject
from lab.run.record import Record
from lab.subject.load import Subject
from lab.trial.checker import Verifier
from lab.trial.judge import judge
from lab.trial.prepare import promises_of

MEMORY_MB = 512
OpenVerifier = Callable[[], AbstractContextManager[Verifier]]


def rejudge(name: str, say: Callable[[str], None]) -> int:
    """Ask today's verifier about every look that was kept. 0: the same verdicts; 1: some differ; 2: none to judge."""
    record = Record.find(name)
    subject = recorded_subject(record)
    client = connect()
    image = images.resolve(client, subject.verifier.image, subject.folder, say)
    results: Sequence[Result | FuzzResult] = store.results(record) if subject.fuzz else record.results()
    judged = differing = 0
    again = _fuzz_trials if subject.fuzz else _trials
    for ident, before, now in again(record, subject, lambda: _open_verifier(client, image, subject)):
        judged += 1
        differing += _tell(ident, before, now, say)
    say(f"verify   {judged:,} judged again, {differing:,} differ; {len(results) - judged:,} were not kept whole")
    if judged == 0:
        say("verify   nothing to judge: run with `--evidence all` to keep every trial whole")
        return 2
    return 1 if differing else 0


def _trials(record: Record, subject: Subject, open_verifier: OpenVerifier) -> Iterator[tuple[int, Verdict, Verdict]]:
    """Each trial that was kept whole: its number, its verdict, and today's."""
    workloads, prepared = record.inputs()
    for result in record.results():
        evidence, volumes = record.evidence(result.evidence) if result.evidence else (None, ())
        if evidence is None or len(volumes) < len(evidence.looks) or not evidence.looks:
            continue
        with open_verifier() as verifier:
            told = {"workload": workloads[result.trial.workload], "prepared": prepared.told}
            yield result.trial.ident, result.verdict, _judge_again(evidence, volumes, verifier, told, subject)


def _fuzz_trials(
    record: Record, subject: Subject, open_verifier: OpenVerifier
) -> Iterator[tuple[int, Verdict, Verdict]]:
    """The same of a fuzz run, where the history is all that the oracle is told."""
    for result in store.results(record):
        evidence = store.read_evidence(record, result.evidence) if result.evidence else None
        if evidence is None or evidence.look is None:
            continue
        request = {
            "workload": to_json(evidence.trial.scenario),
            "prepared": {},
            "history": list(evidence.history[: evidence.look.history]),
            "ledger": evidence.look.ledger,
            "volume": _no_volume(),
        }
        with open_verifier() as verifier:
            look = verifier.look(evidence.look.name, evidence.look.process, request, subject.deadlines.look)
        look = replace(look, mount=evidence.look.mount)
        now = fuzz_judge(replace(evidence, look=look), subject.promises, subject.verifier.audits)
        yield result.trial.ident, result.verdict, now


def _no_volume() -> str:
    """An archive with nothing in it: the oracle of a fuzz run reads no volume."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz"):
        pass
    return base64.b64encode(buffer.getvalue()).decode()


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


def _tell(ident: int, before: Verdict, verdict: Verdict, say: Callable[[str], None]) -> bool:
    """Say what became of a verdict; True if it is another."""
    # Evidence alone cannot tell these two apart.
    was = Word.VIOLATION if before.word is Word.UNREPRODUCED else before.word
    if (was, before.property) == (verdict.word, verdict.property):
        return False
    now = f"{verdict.word} {verdict.property}"
    say(f"verify   trial {ident}: was {before.word} {before.property}, is {now}")
    if verdict.why:
        say(f"         {verdict.why}")
    return True


@contextmanager
def _open_verifier(client: docker.DockerClient, image: str, subject: Subject) -> Iterator[Verifier]:
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
