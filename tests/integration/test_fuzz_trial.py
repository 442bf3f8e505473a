"""Fuzz trials on real containers, one by one: what each kind of failure is called, and that two never share a home."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import docker
import pytest
from conftest import staged
from remains import left_by_trials

from lab.campaigns.base import Request
from lab.campaigns.stage import Stage
from lab.model import (
    ANSWER,
    END,
    INVOKE,
    RECOVERS,
    START,
    CrashPoint,
    Kind,
    Life,
    Limits,
    Op,
    Scenario,
    Trial,
    Word,
)
from lab.storage import Provisioner, Volume
from lab.trial import Outcome, run_trial
from lab.trial.worker import Worker

pytestmark = pytest.mark.docker

NEW = Op(1, 1, "chat/new", {"chat": "c1"})
DRAFT = Op(2, 2, "draft/set", {"chat": "c1", "text": "d2"})
PROMPT = Op(3, 3, "prompt/send", {"chat": "c1", "prompt": "p3", "text": "reply 1"})
LAST = Life((), None)
AT_END = CrashPoint(1, END)


def scenario(*lives: Life, adapter: str = "jsonrpc", **limits: float) -> Scenario:
    return Scenario(1, 1, adapter, 3, replace(Limits(), **limits), lives)  # type: ignore[arg-type]


def kills(outcome: Outcome) -> list[str]:
    """Where its lives were really struck."""
    return [str(process.hit) for process in outcome.evidence.processes if process.killed]


ONE_KILL = scenario(Life((NEW, DRAFT, PROMPT), AT_END), LAST)


class Bench:
    """The services of a fuzz run of muxd, ready; trials are run on it one by one, or side by side."""

    def __init__(self, stage: Stage, engine: docker.DockerClient) -> None:
        self.stage = stage
        self._engine = engine

    def run(
        self, script: Scenario, bug: str | None = None, storage: str = "tmpfs", layer: Provisioner | None = None
    ) -> Outcome:
        (outcome,) = self.run_all([(script, bug)], storage, layer)
        assert left_by_trials(self._engine, self.stage.setting.run) == []
        return outcome

    def run_all(
        self, scripts: list[tuple[Scenario, str | None]], storage: str = "tmpfs", layer: Provisioner | None = None
    ) -> list[Outcome]:
        def work(worker: Worker, trial: Trial) -> Outcome:
            layers = worker.layers if layer is None else {storage: layer}
            return run_trial(trial, self.stage.setting, replace(worker, layers=layers), keep_evidence=False)

        trials = [Trial(n, Kind.POINT, storage, script, bug) for n, (script, bug) in enumerate(scripts, 1)]
        return self.stage.pool.all(trials, work)


@pytest.fixture(scope="module")
def bench(engine: docker.DockerClient) -> Iterator[Bench]:
    with staged(engine, Request("fuzz", "muxd", 1, ("ext4", "tmpfs", "overlay"), 2, keep_evidence=False)) as stage:
        yield Bench(stage, engine)


@pytest.mark.parametrize("storage", ["ext4", "tmpfs", "overlay"])
def test_a_daemon_that_keeps_its_promises_passes_with_every_link_seen(bench: Bench, storage: str) -> None:
    """On each layer: killed for real, back on the same volume, read back whole."""
    outcome = bench.run(ONE_KILL, storage=storage)
    assert outcome.verdict.word is Word.PASS, outcome.verdict
    first, last = outcome.evidence.processes
    assert (first.killed, first.exit_code, first.gone is not None, last.killed) == (True, 137, True, False)
    assert kills(outcome) == ["end#1"]
    assert all(outcome.verdict.facts[name] for name in ("chats-durable", "drafts-durable", "prompts-once"))


@pytest.mark.parametrize(
    ("kill", "struck"),
    [
        (CrashPoint(1, "chat.synced"), "chat.synced#1"),
        (CrashPoint(1, ANSWER, 2), "answer#2"),
        (CrashPoint(1, INVOKE), "invoke#1"),
        (CrashPoint(1, START, after_ms=60), "start#60"),
        (CrashPoint(1, "chat.synced", 99), "end#1"),
    ],
    ids=str,
)
def test_a_kill_strikes_where_it_was_to_or_at_the_end(bench: Bench, kill: CrashPoint, struck: str) -> None:
    """Each kind of place once, and a hook that is not reached."""
    outcome = bench.run(scenario(Life((NEW, DRAFT, PROMPT), kill), LAST))
    assert kills(outcome) == [struck]
    assert outcome.verdict.word in (Word.PASS, Word.NOTE, Word.INVALID), outcome.verdict
    if outcome.verdict.word is Word.INVALID:  # killed so early that there was nothing to check
        assert outcome.verdict.property == "work-done"


def test_a_kill_inside_the_recovery_is_survived(bench: Bench) -> None:
    """The second life stands at a hook before it listens; nothing is sent to it."""
    inside = Life((), CrashPoint(2, "start.locked"))
    outcome = bench.run(scenario(Life((NEW, DRAFT, PROMPT), AT_END), inside, LAST))
    assert kills(outcome) == ["end#1", "start.locked#1"]
    assert outcome.verdict.word is Word.PASS, outcome.verdict


def test_a_refused_start_is_a_finding_with_a_diagnosis(bench: Bench) -> None:
    """Planted: a lock that is a file's existence. Nobody holds it, and that is what is said; the home is kept."""
    outcome = bench.run(ONE_KILL, bug="lock-is-a-file")
    assert (outcome.verdict.word, outcome.verdict.property) == (Word.VIOLATION, RECOVERS)
    assert "exit code 75" in outcome.verdict.why
    assert "Nobody holds a lock" in outcome.evidence.diagnosis
    assert outcome.volumes


def test_a_start_that_never_answers_breaks_recovers_within_its_deadline(bench: Bench) -> None:
    """Planted: a lock known by a process id waits for itself for ever, for a restarted container is PID 1 again."""
    outcome = bench.run(replace(ONE_KILL, limits=Limits(up_s=1.5)), bug="lock-is-a-pid")
    assert (outcome.verdict.word, outcome.verdict.property) == (Word.VIOLATION, RECOVERS)
    assert "waited 1.5 s for its first answer" in outcome.verdict.why


def test_a_daemon_that_never_started_has_broken_no_promise(bench: Bench) -> None:
    """A wrong command or setting must not look like a finding."""
    subject = bench.stage.setting.subject
    table = subject.subject.model_copy(update={"run": ("muxd", "no-such-command")})
    setting = replace(bench.stage.setting, subject=subject.model_copy(update={"subject": table}))
    outcome = Bench(replace(bench.stage, setting=setting), bench._engine).run(ONE_KILL)
    assert outcome.verdict.word is Word.INVALID
    assert "ended by itself" in outcome.verdict.why


ENDS_AT_ITS_FOURTH_DRAFT = """
import os, sys
sys.path.insert(0, "/opt/muxd")
from muxd.main import main
from muxd.operations import Operations

async def draft_set(self, chat, text):
    return os._exit(3) if text == "d5" else {}

Operations.draft_set = draft_set
main(["serve"])
"""


def test_a_daemon_that_ends_in_the_middle_breaks_recovers_also_if_a_kill_comes_at_the_same_time(bench: Bench) -> None:
    """The clients see its end before the engine does, which still takes the kill: it passed for an `invalid` trial."""
    subject = bench.stage.setting.subject
    table = subject.subject.model_copy(update={"run": ("python3", "-c", ENDS_AT_ITS_FOURTH_DRAFT)})
    setting = replace(bench.stage.setting, subject=subject.model_copy(update={"subject": table}))
    drafts = tuple(Op(step, 1, "draft/set", {"chat": "c1", "text": f"d{step}"}) for step in range(2, 6))
    script = scenario(Life((NEW, *drafts), AT_END), LAST)
    outcomes = Bench(replace(bench.stage, setting=setting), bench._engine).run_all([(script, None)] * 3)
    for outcome in outcomes:
        assert (outcome.verdict.word, outcome.verdict.property) == (Word.VIOLATION, RECOVERS), outcome.verdict.why
        assert "ended by itself with exit code 3" in outcome.verdict.why


def test_clients_that_cannot_play_their_script_are_an_error(bench: Bench) -> None:
    """The lab's own fault is never the daemon's."""
    outcome = bench.run(replace(ONE_KILL, adapter="smoke_signals"))
    assert outcome.verdict.word is Word.ERROR
    assert "smoke_signals" in outcome.verdict.why


class OneHome:
    """Planted: a layer that gives two trials the same volume."""

    def __init__(self, layer: Provisioner) -> None:
        self._layer = layer
        self._lock = threading.Lock()
        self._volume: Volume | None = None
        self.filesystem, self.fill = layer.filesystem, layer.fill

    def fresh(self, name: str) -> Volume:
        with self._lock:
            self._volume = self._volume or self._layer.fresh(name)
        return self._volume

    def destroy(self, volume: Volume) -> None:
        """Not yet: the other may still be on it."""

    def close(self) -> None:
        assert self._volume is not None
        self._layer.destroy(self._volume)


def test_two_trials_never_share_a_home(bench: Bench) -> None:
    """A held lock would be another trial's. With homes of their own both pass; sharing one is seen, and by whom."""
    pauses = tuple(Op(step, 1, "pause", {"ms": 400}) for step in (4, 5))
    long = scenario(Life((NEW, DRAFT, PROMPT, *pauses), AT_END), Life((), AT_END), LAST)
    words = [outcome.verdict.word for outcome in bench.run_all([(long, None)] * 2)]
    assert words == [Word.PASS] * 2
    layers: list[Provisioner] = []
    bench.stage.pool.all([0], lambda worker, _: layers.append(worker.layers["tmpfs"]))
    shared = OneHome(layers[0])
    outcomes = bench.run_all([(long, None)] * 2, layer=shared)  # type: ignore[arg-type]
    shared.close()
    refused = [outcome for outcome in outcomes if "exit code 75" in outcome.verdict.why]
    assert len(refused) == 1
    assert "another container" in refused[0].evidence.diagnosis
