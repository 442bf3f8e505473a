"""consume-once and outbox-exactly-once: passed with facts, failed by each fault, and no false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cells_store import Trial, facts, failed, trials

New = Callable[..., Trial]
LOOKS = ("killed", "recovered", "end")
CLAIM = {"op": "claim", "item": "x", "by": "racer"}
SWEEP = {"op": "sweep"}


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[New]:
    yield from trials(tmp_path, monkeypatch)


# ---- consume-once


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


# ---- outbox-exactly-once


def recorded(new: New) -> Trial:
    trial = new("outbox-exactly-once")
    trial.do("create", session="s")
    trial.do("record", delivery="d", session="s", content="hello")
    return trial


def sweep(trial: Trial, sent: int = 0, *, marked: bool = False) -> None:
    for _ in range(sent):
        trial.copy("d", "hello", marked=marked)
    if sent:
        trial.row("d", "delivered")
    trial.do("sweep", sent=sent)


def killed_at(new: New, point: str) -> Trial:
    """Killed at a point of the first send, as docs/cells.md counts them."""
    trial = recorded(new)
    if point != "recorded":
        trial.do("send", delivery="d", answer=None, effect=False)
        trial.row("d", "delivered" if point == "delivered" else "attempting")
    if point in ("sent", "delivered"):
        trial.copy("d", "hello")
    trial.die()
    assert failed(trial.judge("killed")) == {}
    trial.start()
    return trial


@pytest.mark.parametrize(
    ("point", "sent", "marked"),
    [("recorded", 1, False), ("attempting", 1, True), ("sent", 1, True), ("delivered", 0, False)],
)
def test_a_kill_at_each_point_of_a_send_and_what_a_careful_store_does(
    new: New, point: str, sent: int, marked: bool
) -> None:
    """The controls: `recorded` is sent plainly, what may have landed is sent again and marked."""
    trial = killed_at(new, point)
    sweep(trial, sent, marked=marked)
    sweep(trial)
    answer = trial.judge("end")
    assert failed(answer) == {}
    assert facts(answer, "outbox-exactly-once") > 6


@pytest.mark.parametrize("point", ["attempting", "sent"])
@pytest.mark.parametrize("landed", [True, False])
def test_a_second_kill_inside_the_redelivery_allows_one_more_marked_copy(new: New, point: str, landed: bool) -> None:
    """False alarm to avoid: two crashes, each of which may have sent."""
    trial = killed_at(new, point)
    if landed:
        trial.copy("d", "hello", marked=True)
    trial.die()
    assert failed(trial.judge("killed")) == {}
    trial.start()
    sweep(trial, 1, marked=True)
    sweep(trial)
    assert failed(trial.judge("end")) == {}


def test_a_request_that_the_ledger_held_lands_after_the_marked_one(new: New) -> None:
    """False alarm to avoid: the first copy arrives last, and is the unmarked one."""
    trial = killed_at(new, "attempting")
    sweep(trial, 1, marked=True)
    trial.copy("d", "hello")
    sweep(trial)
    assert failed(trial.judge("end")) == {}


def test_a_lost_reply_explains_a_marked_copy_without_a_crash(new: New) -> None:
    """False alarm to avoid: the store lives, and cannot know."""
    trial = recorded(new)
    trial.do("send", delivery="d", answer="info", effect=False)
    trial.copy("d", "hello")
    trial.ledger["requests"][0]["reply"] = "lost"
    sweep(trial, 1, marked=True)
    assert failed(trial.judge("end")) == {}


def unmarked_again(trial: Trial) -> None:
    sweep(trial, 1)


def never_sent(trial: Trial) -> None:
    trial.row("d", "failed")
    trial.ledger["effects"].clear()


def left_on_its_way(trial: Trial) -> None:
    sweep(trial)


def sent_by_the_second_sweep(trial: Trial) -> None:
    sweep(trial)
    sweep(trial, 1, marked=True)


def row_is_gone(trial: Trial) -> None:
    sweep(trial, 1, marked=True)
    trial.sql.execute("DELETE FROM d")


def other_content(trial: Trial) -> None:
    trial.copy("d", "hell", marked=True)
    trial.row("d", "delivered")


def both_gateways(trial: Trial) -> None:
    sweep(trial, 1, marked=True)
    trial.copy("d", "hello", marked=True)


def from_nowhere(trial: Trial) -> None:
    sweep(trial, 1, marked=True)
    trial.copy("ghost", "boo")


@pytest.mark.parametrize(
    ("fault", "fact"),
    [
        (unmarked_again, "deliveries[d] copies"),
        (never_sent, "deliveries[d] copies"),
        (left_on_its_way, "deliveries[d]"),
        (sent_by_the_second_sweep, "process 2, sweep 2 sent"),
        (row_is_gone, "deliveries[d]"),
        (other_content, "deliveries[d] request 3 (marked) content"),
        (both_gateways, "deliveries[d] copies"),
        (from_nowhere, "deliveries[ghost]"),
    ],
)
def test_each_way_of_delivering_wrongly_after_a_kill_is_found(
    new: New, fault: Callable[[Trial], None], fact: str
) -> None:
    """Planted bugs: redeliver without a marker; both gateways send; a sweep that forgets, or sends twice."""
    trial = killed_at(new, "sent")
    fault(trial)
    assert failed(trial.judge("end")) == {"outbox-exactly-once": fact}


def test_a_row_that_says_delivered_before_anything_was_sent_is_found_at_the_kill(new: New) -> None:
    """Planted bug: mark delivered before send."""
    trial = recorded(new)
    trial.do("send", delivery="d", answer=None, effect=False)
    trial.row("d", "delivered")
    trial.die()
    assert failed(trial.judge("killed")) == {"outbox-exactly-once": "deliveries[d] copies"}


def test_a_marked_copy_without_any_crash_and_a_second_one_are_found(new: New) -> None:
    """A mark on everything says nothing; and a crash after the acknowledgement explains no copy."""
    trial = recorded(new)
    trial.copy("d", "hello", marked=True)
    assert failed(trial.judge("killed")) == {"outbox-exactly-once": "deliveries[d] copies"}
    sent = recorded(new)
    sent.do("send", delivery="d", effect=False)
    sent.row("d", "delivered")
    sent.copy("d", "hello")
    sent.die()
    assert failed(sent.judge("killed")) == {}
    sent.start()
    sweep(sent, 1, marked=True)
    assert failed(sent.judge("end")) == {"outbox-exactly-once": "deliveries[d] copies"}


def test_an_acknowledged_record_or_send_that_is_lost_is_found(new: New) -> None:
    """The outbox is durable, or none."""
    trial = recorded(new)
    trial.do("send", delivery="d", effect=False)
    trial.row("d", "attempting")
    trial.copy("d", "hello")
    assert failed(trial.judge("killed")) == {"outbox-exactly-once": "deliveries[d]"}
    trial.sql.execute("DELETE FROM d")
    assert failed(trial.judge("killed")) == {"outbox-exactly-once": "deliveries[d]"}


@pytest.mark.parametrize("landed", [True, False])
def test_an_unanswered_record_may_be_there_and_is_then_sent(new: New, landed: bool) -> None:
    """False alarm to avoid: what was not acknowledged may be lost; if it is there it is owed."""
    trial = new("outbox-exactly-once")
    trial.do("create", session="s")
    trial.do("record", delivery="d", session="s", content="hello", answer=None, effect=landed)
    trial.die()
    assert failed(trial.judge("killed")) == {}
    trial.start()
    sweep(trial, int(landed))
    assert failed(trial.judge("end")) == {}


def test_gateways_that_race_may_share_the_work_but_not_the_delivery(new: New) -> None:
    """The ledger tells which of them sent; a sweep by racers needs no single winner."""
    trial = recorded(new)
    trial.do("race_processes", racers=3, do=SWEEP, exits=[10, 0, 10])
    trial.copy("d", "hello")
    trial.row("d", "delivered")
    assert failed(trial.judge("end")) == {}
    trial.copy("d", "hello")
    assert failed(trial.judge("end")) == {"outbox-exactly-once": "deliveries[d] copies"}


def test_a_gateway_that_crashes_in_a_race_is_found(new: New) -> None:
    """One that sends and seven that fail on a locked database would look like exactly once."""
    trial = recorded(new)
    trial.do("race_processes", racers=3, do=SWEEP, exits=[70, 0, 70])
    trial.copy("d", "hello")
    trial.row("d", "delivered")
    fact = "process 1, race_processes 3 exits other than 0 and 10"
    assert failed(trial.judge("end")) == {"outbox-exactly-once": fact}


def test_a_copy_that_does_not_say_whether_it_is_marked_is_found(new: New) -> None:
    """docs/cells.md: `marked` is true or false."""
    trial = recorded(new)
    trial.copy("d", "hello")
    trial.ledger["effects"][0]["args"] = {"content": "hello"}
    assert failed(trial.judge("killed")) == {"outbox-exactly-once": "request 1 marked"}


def test_without_a_delivery_there_is_nothing_to_see(new: New) -> None:
    """A kill before the first record must not count."""
    assert new("outbox-exactly-once").judge("killed")["outbox-exactly-once"] == {"facts": 0, "differs": None}
