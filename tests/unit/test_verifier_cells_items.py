"""consume-once: passed with facts, failed by each fault, and no false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cells_store import Trial, facts, failed, trials

New = Callable[..., Trial]
LOOKS = ("killed", "recovered", "end")
CLAIM = {"op": "claim", "item": "x", "by": "racer"}


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[New]:
    yield from trials(tmp_path, monkeypatch)


def parked(new: New, racers: int = 0) -> Trial:
    trial = new("consume-once", racers=racers)
    trial.do("create", session="s")
    trial.do("park", session="s", item="x")
    return trial


def claim(trial: Trial, by: str, won: bool = True, **more: Any) -> None:
    trial.do("claim", item="x", by=by, won=won, **more)
    if won and more.get("effect", True):
        trial.item("x", "claimed", by)


def taken_over(new: New, reaped: bool) -> Trial:
    """Claimed by one that died; claimed again and finished by the next."""
    trial = parked(new)
    claim(trial, "worker")
    trial.die()
    trial.judge("killed")
    trial.start()
    if reaped:
        trial.item("x", "parked")
    assert failed(trial.judge("recovered")) == {}
    claim(trial, "resumer")
    trial.do("finish", item="x", by="resumer")
    return trial


@pytest.mark.parametrize("reaped", [True, False])
def test_a_claim_of_a_dead_boot_is_claimed_again_whenever_the_store_reaps(new: New, reaped: bool) -> None:
    """The control; and the false alarm: a store may free a dead owner's claim at its start, or when it is asked."""
    answer = taken_over(new, reaped).judge("end")
    assert failed(answer) == {}
    assert facts(answer, "consume-once") > 3


def test_a_claim_that_is_never_free_again_is_limbo(new: New) -> None:
    """Planted bugs: limbo; a claim whose owner is a process id, which the next container has again."""
    trial = parked(new)
    claim(trial, "worker")
    trial.die()
    trial.start()
    claim(trial, "resumer", won=False)
    trial.do("finish", item="x", by="resumer", answer="fail", effect=False)
    answer = trial.judge("end")
    assert failed(answer) == {"consume-once": "claims of x: process 2, claim 1"}
    assert answer["consume-once"]["differs"]["why"].startswith("limbo")


def test_an_item_that_was_parked_and_cannot_be_claimed_is_limbo(new: New) -> None:
    """Nobody won, nobody crashed: and yet it is lost."""
    trial = parked(new)
    claim(trial, "worker", won=False)
    assert list(failed(trial.judge("end"))) == ["consume-once"]


@pytest.mark.parametrize("by", ["worker", "other"])
def test_two_claims_that_win_in_one_boot_are_found(new: New, by: str) -> None:
    """Planted bug: claim by read-then-write."""
    trial = parked(new)
    claim(trial, "worker")
    claim(trial, by)
    for look in LOOKS:
        answer = trial.judge(look)
        assert failed(answer) == {"consume-once": "claims of x"}
        assert answer["consume-once"]["differs"]["found"] == "process 1, claim 3 and process 1, claim 4"


def test_what_is_done_is_done(new: New) -> None:
    """A recovery that parks a finished item has it done twice."""
    trial = taken_over(new, reaped=True)
    trial.item("x", "parked")
    assert failed(trial.judge("end")) == {"consume-once": "items[x]"}
    trial.die()
    trial.start()
    claim(trial, "third")
    assert failed(trial.judge("end")) == {"consume-once": "claims of x"}


def test_a_claim_that_loses_because_it_is_done_or_may_be_passes(new: New) -> None:
    """False alarm to avoid: the finish was not answered, and the next claim says what became of it."""
    for landed in (True, False):
        trial = parked(new)
        claim(trial, "worker")
        trial.do("finish", item="x", by="worker", answer=None, effect=landed)
        trial.die()
        assert failed(trial.judge("killed")) == {}
        trial.start()
        claim(trial, "resumer", won=not landed)
        assert failed(trial.judge("end")) == {}


@pytest.mark.parametrize("landed", [True, False])
def test_an_unanswered_claim_or_park_may_have_landed_or_not(new: New, landed: bool) -> None:
    """False alarm to avoid: killed in it."""
    trial = parked(new)
    claim(trial, "worker", won=True, effect=landed, answer=None)
    trial.die()
    assert failed(trial.judge("killed")) == {}
    other = new("consume-once")
    other.do("create", session="s")
    other.do("park", session="s", item="x", answer=None, effect=landed)
    other.die()
    other.start()
    claim(other, "resumer", won=landed)
    assert failed(other.judge("end")) == {}


@pytest.mark.parametrize(("state", "owner"), [("parked", None), ("claimed", "other"), ("done", None)])
def test_a_row_that_is_not_what_was_answered_is_found_at_the_kill(new: New, state: str, owner: str | None) -> None:
    """An acknowledged claim that is not durable, or another's."""
    trial = parked(new)
    claim(trial, "worker")
    trial.item("x", state, owner)
    trial.die()
    assert failed(trial.judge("killed")) == {"consume-once": "items[x]"}


def test_a_claim_that_loses_against_one_without_an_answer_passes(new: New) -> None:
    """False alarm to avoid: the other one may have won."""
    trial = parked(new)
    claim(trial, "worker", answer="info")
    claim(trial, "other", won=False)
    assert failed(trial.judge("killed")) == {}


def test_a_claim_may_be_reaped_before_the_recovery_has_said_anything(new: New) -> None:
    """False alarm to avoid: a store that reaps before it says that it is open."""
    trial = parked(new)
    claim(trial, "worker")
    trial.die()
    trial.item("x", "parked")
    assert failed(trial.judge("recovered")) == {}
    assert failed(trial.judge("killed")) == {"consume-once": "items[x]"}


def test_what_a_lost_claim_says_about_an_unanswered_finish_binds_the_row(new: New) -> None:
    """It lost because the item was done: then done it is. And a claim of what is done cannot take it."""
    trial = parked(new)
    claim(trial, "worker")
    trial.do("finish", item="x", by="worker", answer=None)
    trial.die()
    trial.start()
    claim(trial, "resumer", won=False)
    assert failed(trial.judge("end")) == {}
    trial.item("x", "parked")
    assert failed(trial.judge("end")) == {"consume-once": "items[x]"}
    other = parked(new)
    claim(other, "worker")
    other.do("finish", item="x", by="worker")
    other.die()
    other.start()
    claim(other, "thief", answer=None)
    assert failed(other.judge("end")) == {"consume-once": "items[x]"}


def test_a_store_that_keeps_no_owner_passes(new: New) -> None:
    """docs/cells.md: the view may show null."""
    trial = parked(new)
    claim(trial, "worker")
    trial.item("x", "claimed")
    assert failed(trial.judge("killed")) == {}


@pytest.mark.parametrize(
    ("exits", "fact"),
    [
        ([10, 0, 10, 10], ""),
        ([10, 0, 0, 10], "claims of x"),
        ([10, 10, 10, 10], "claims of x: process 1, race_processes 3, racer 1"),
        ([1, 0, 1, 1], "process 1, race_processes 3 exits other than 0 and 10"),
        ([10, 0, -9, 10], "process 1, race_processes 3 exits other than 0 and 10"),
        ([10, 0], "process 1, race_processes 3 racers"),
        ([0, 10, 10, 10], "items[x]"),
    ],
)
def test_of_racing_processes_exactly_one_wins_and_none_crashes(new: New, exits: list[int], fact: str) -> None:
    """Seven crashes and one winner are not a proof; and the row names the one that said it won."""
    trial = parked(new)
    trial.do("race_processes", racers=4, do=CLAIM, exits=exits)
    trial.item("x", "claimed", "racer-2")
    assert failed(trial.judge("end")) == ({"consume-once": fact} if fact else {})


@pytest.mark.parametrize("owner", [None, "racer-3"])
def test_a_race_that_is_killed_may_have_had_any_winner_or_none(new: New, owner: str | None) -> None:
    """False alarm to avoid."""
    trial = parked(new)
    trial.do("race_processes", racers=4, do=CLAIM, answer=None)
    if owner:
        trial.item("x", "claimed", owner)
    trial.die()
    assert failed(trial.judge("killed")) == {}


@pytest.mark.parametrize(
    ("codes", "fact"),
    [
        ((10, 0, 10), ""),
        ((0, 0, 10), "claims of x"),
        ((10, 0, 1), "racer 3 exit code"),
        ((137, 0, 10), "racer 1 exit code"),
    ],
)
def test_of_racing_containers_exactly_one_wins_and_none_crashes(new: New, codes: tuple[int, ...], fact: str) -> None:
    """The same as containers on one volume; a racer that crashed has left a claim without an answer."""
    trial = parked(new, racers=3)
    for number, code in enumerate(codes, start=1):
        trial.racer(number, code, op="claim", item="x", by=f"racer-{number}")
    trial.item("x", "claimed", "racer-2")
    assert failed(trial.judge("end")) == ({"consume-once": fact} if fact else {})


def test_a_race_with_too_few_racers_is_the_labs_error(new: New) -> None:
    """A race against nobody proves nothing, and is no fault of the store."""
    trial = parked(new, racers=8)
    trial.racer(1, 0, op="claim", item="x", by="racer-1")
    with pytest.raises(ValueError, match="1 racers have ended, but the workload asks for 8"):
        trial.judge("end")


def test_a_claim_of_what_was_never_parked_cannot_win(new: New) -> None:
    """Killed before the item was parked: the resumed claim must find nothing."""
    trial = new("consume-once")
    trial.start()
    claim(trial, "resumer", won=False)
    assert failed(trial.judge("end")) == {}
    claim(trial, "resumer", effect=False)
    assert failed(trial.judge("end")) == {"consume-once": "claims of x"}


def test_without_a_claim_there_is_nothing_to_see(new: New) -> None:
    """A kill before the first claim must not count."""
    assert parked(new).judge("killed")["consume-once"] == {"facts": 0, "differs": None}
