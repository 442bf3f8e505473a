"""outbox-exactly-once: passed with facts, failed by each fault, and no false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cells_store import Trial, facts, failed, trials

New = Callable[..., Trial]
SWEEP = {"op": "sweep"}


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[New]:
    yield from trials(tmp_path, monkeypatch)


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


def test_only_a_crash_that_came_after_the_record_explains_a_copy(new: New) -> None:
    """Two crashes before there was anything to send."""
    trial = new("outbox-exactly-once")
    trial.do("create", session="s")
    for _ in range(2):
        trial.die()
        trial.start()
    trial.do("record", delivery="d", session="s", content="hello")
    sweep(trial, 1, marked=True)
    assert failed(trial.judge("end")) == {"outbox-exactly-once": "deliveries[d] copies"}


def test_a_first_process_that_is_killed_in_a_sweep_may_have_sent(new: New) -> None:
    """False alarm to avoid: no `send` was asked for, and yet a copy is out."""
    trial = recorded(new)
    trial.do("sweep", answer=None)
    trial.copy("d", "hello")
    trial.row("d", "attempting")
    trial.die()
    trial.start()
    sweep(trial, 1, marked=True)
    assert failed(trial.judge("end")) == {}


def test_a_sweep_that_comes_after_something_new_or_after_a_death_may_send(new: New) -> None:
    """False alarms to avoid: what a living gateway still owes is not swept, and is once it has died."""
    trial = recorded(new)
    sweep(trial)
    trial.do("record", delivery="e", session="s", content="more")
    trial.do("sweep", sent=1)
    trial.copy("e", "more")
    trial.row("e", "delivered")
    assert failed(trial.judge("killed")) == {}
    dead = recorded(new)
    sweep(dead)
    dead.die()
    dead.start()
    sweep(dead, 1)
    assert failed(dead.judge("end")) == {}


def test_a_send_that_says_it_sent_nothing_has_not_delivered(new: New) -> None:
    """False alarm to avoid: it was not this process's to send."""
    trial = recorded(new)
    trial.do("send", delivery="d", sent=0)
    assert failed(trial.judge("killed")) == {}


def test_another_tool_is_found(new: New) -> None:
    """docs/cells.md: a delivery is sent as `deliver`."""
    trial = recorded(new)
    trial.copy("d", "hello")
    trial.ledger["effects"][0]["tool"] = "charge"
    assert failed(trial.judge("killed")) == {"outbox-exactly-once": "request 1 tool"}


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
