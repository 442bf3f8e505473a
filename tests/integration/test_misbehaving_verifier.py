"""A verifier that fails is an error, never a pass; and one that looks at another filesystem makes a trial invalid."""

from __future__ import annotations

import time

import pytest
from conftest import RunOne

from lab.campaigns.stage import Stage
from lab.model import Word
from lab.storage import Backend, Layer, Provisioner, Volume
from lab.storage.mountinfo import Expected

pytestmark = pytest.mark.docker

QUICK_S = 20.0


@pytest.mark.parametrize(
    ("how", "phase", "says"),
    [
        ("dies-at-start", "hello", "no memory for a verifier"),
        ("silent", "hello", "waited 6 s for the verifier's hello"),
        ("greets-oddly", "hello", "last words: hello there"),
        ("dies-at-look", "look:killed", "the verifier lost its mind"),
        ("silent-at-look", "look:killed", "waited 5 s for the verifier's look at `killed`"),
        ("talks-nonsense", "look:killed", "last words: everything is fine"),
        ("answers-a-list", "look:killed", "last words: [1, 2]"),
        ("has-no-properties", "look:killed", "is not one"),
        ("has-odd-properties", "look:killed", "is not one"),
        ("has-negative-facts", "look:killed", "is not one"),
        ("counts-without-end", "look:killed", "look:killed"),
        ("answers-another-look", "look:killed", "the verifier was asked about `killed`, and answered"),
        ("answers-error", "look:killed", "cannot read page 7"),
    ],
)
def test_a_verifier_that_cannot_judge_is_an_error(run_one: RunOne, how: str, phase: str, says: str) -> None:
    """Planted: "no difference was reported" read as a pass (etcd's robustness tests count a timeout as one)."""
    began = time.monotonic()
    outcome = run_one(verifier=how)
    assert outcome.verdict.word is Word.ERROR, outcome.verdict
    assert outcome.evidence.failure is not None
    assert outcome.evidence.failure.phase == phase
    assert says in outcome.verdict.why
    assert time.monotonic() - began < QUICK_S


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("sees-no-facts", "kept was checked on no fact"),
        ("forgets-a-property", "the verifier said nothing of kept at `killed`"),
    ],
)
def test_a_promise_that_was_not_checked_makes_the_trial_invalid(run_one: RunOne, how: str, why: str) -> None:
    """Planted: an empty check passes; so does a property whose name was misspelt."""
    outcome = run_one(verifier=how)
    assert outcome.verdict.word is Word.INVALID
    assert outcome.verdict.why == why


def test_a_loss_that_nobody_promised_to_prevent_is_a_note(run_one: RunOne) -> None:
    """Planted: every difference is a violation; a subject is then blamed for what it never claimed."""
    outcome = run_one(verifier="finds-a-loss-nobody-promised")
    assert (outcome.verdict.word, outcome.verdict.property) == (Word.NOTE, "colour")
    assert outcome.verdict.differs is not None
    assert outcome.verdict.differs.found == "red"


def test_a_broken_promise_is_named_before_a_loss_that_nobody_promised(run_one: RunOne) -> None:
    """Planted: the first difference in alphabetical order; the promise is then hidden behind a note."""
    outcome = run_one(verifier="finds-a-broken-promise")
    assert (outcome.verdict.word, outcome.verdict.property) == (Word.VIOLATION, "kept")
    assert outcome.verdict.broken == ("colour", "kept")


class PlainVolume(Provisioner):
    """Promises a filesystem and makes a folder on the engine's own disk: a mount that silently did not happen."""

    def __init__(self, backend: Backend, pretended: str) -> None:
        super().__init__(Layer(pretended), backend)

    def fresh(self, name: str) -> Volume:
        self.backend.client.volumes.create(name, labels=dict(self.backend.labels))
        return Volume(name, Expected(self.filesystem), self.layer)


@pytest.mark.parametrize("pretended", ["ext4", "tmpfs"])
def test_a_volume_on_another_filesystem_than_asked_makes_the_trial_invalid(
    run_one: RunOne, stage: Stage, pretended: str
) -> None:
    """Planted: the filesystem is taken from the request; a run "on tmpfs" then tells about the engine's own disk."""
    (backend,) = stage.pool.all([pretended], lambda worker, name: worker.layers[name].backend)
    layer = PlainVolume(backend, pretended)
    outcome = run_one(storage=pretended, layers={pretended: layer})
    assert outcome.verdict.word is Word.INVALID, outcome.verdict
    assert outcome.verdict.why.startswith(f"not on {pretended}: ")
