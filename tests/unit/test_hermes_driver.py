"""The driver of hermes-agent 0.19.0 and its store, killed for real: what it keeps, and what it does not.

What the store does not keep is asserted as it is seen: the version is pinned, and test_hermes_store.py shows each
finding again by the package's own calls, without the driver.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hermes_process import HERMES, Home, op, workload
from kernel_process import LedgerService, Record

APPENDS = workload(
    [op("create", session="s"), op("append", session="s", role="user", content="message {n}", repeat=3000)]
)
OWED = [op("create", session="s"), op("record", delivery="d", session="s", content="hello")]
OUTBOX = workload([*OWED, op("send", delivery="d")])


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    service = LedgerService(tmp_path_factory.mktemp("ledger"))
    yield service
    service.end()


@pytest.fixture
def home(service: LedgerService, tmp_path: Path) -> Iterator[Home]:
    home = Home(service, "hermes", tmp_path)
    yield home
    home.close()


@pytest.mark.parametrize("answers", [2, 57, 230])
def test_a_kill_leaves_every_acknowledged_append_and_at_most_one_more(home: Home, answers: int) -> None:
    """Cell prefix-durability. Planted: an answer written before the store's own; the last message is missing."""
    process = home.start("run", APPENDS)
    process.await_answers(answers)
    assert process.kill() == -9
    acknowledged = sum(r.get("type") == "ok" and r["op"] == "append" for r in process.records)
    contents = [content for _, _, _, content in home.view("messages")]
    assert contents == [f"message {n}" for n in range(1, len(contents) + 1)]
    assert acknowledged >= answers - 1
    assert len(contents) - acknowledged in (0, 1)
    home.finish("recover", APPENDS)
    assert [content for _, _, _, content in home.view("messages")] == contents


def test_an_edit_and_a_rewind_leave_the_chosen_prefix_after_a_restart(home: Home) -> None:
    """Cell fork-determinism. Planted: `keep` counted from one, or the abandoned rows shown."""
    talk = [op("append", session="s", role=("user", "assistant")[n % 2], content=f"m{n}") for n in range(6)]
    rewound = workload([op("create", session="s"), *talk, op("rewind", session="s", keep=4)],
                       [op("edit", session="s", keep=2, content="better")])  # fmt: skip
    home.finish("run", rewound)
    assert [row[3] for row in home.view("messages")] == ["m0", "m1", "m2", "m3"]
    home.finish("recover", rewound)
    assert home.view("messages") == [("s", 0, "user", "m0"), ("s", 1, "assistant", "m1"), ("s", 2, "user", "better")]


@pytest.mark.parametrize(
    ("deaths", "copies"),
    [
        (["outbox.recorded"], ["plain"]),
        (["outbox.attempting"], ["marked"]),
        (["outbox.sent"], ["plain", "marked"]),
        (["outbox.recorded", "redelivery.claimed"], ["plain"]),
        (["outbox.attempting", "redelivery.sent"], ["marked", "marked"]),
        (["outbox.sent", "redelivery.sent"], ["plain", "marked", "marked"]),
        # The finding: a start sends what is `pending` without saying so in its row, so the next start knows of no copy.
        (["outbox.recorded", "redelivery.sent"], ["plain", "plain"]),
    ],
    ids=" > ".join,
)
def test_a_response_is_redelivered_once_and_marked_where_it_may_be_a_copy(
    home: Home, deaths: list[str], copies: list[str]
) -> None:
    """Cell outbox-exactly-once, each kill point; the last one is a silent duplicate of this version."""
    for command, hook in zip(["run", "recover"], deaths, strict=False):
        home.kill_at(command, OUTBOX, f"{hook}#1")
    home.finish("recover", OUTBOX)
    home.finish("recover", OUTBOX)  # a further boot sends nothing
    assert ["marked" if marked else "plain" for marked in home.copies()] == copies
    assert home.view("deliveries") == [("d", "delivered")]


def test_of_gateways_that_boot_at_once_one_redelivers(home: Home) -> None:
    """Cell outbox-exactly-once. Planted: racers that skip the gateway's own lock on its home."""
    home.kill_at("run", workload(OWED), "outbox.recorded#1")
    race = workload([], race=op("race_processes", racers=8, do=op("sweep")))
    records = home.finish("race", race, racer="1")
    assert sorted(records[-1]["exits"]) == [0] + [10] * 7
    assert home.copies() == [False]


def test_a_second_gateway_does_not_start_while_one_runs(home: Home) -> None:
    """Planted: start-up without the gateway's own guard; two gateways of one home would be a fault of the driver's."""
    first = home.start("recover", OUTBOX, barrier="recovery.done")
    first.await_hit()
    second = home.start("recover", OUTBOX)
    assert second.wait() == 10
    assert "gateway" in second.log
    first.release()
    assert first.wait() == 0


def test_a_released_barrier_leaves_the_hook_armed(home: Home) -> None:
    """Disarmed at the barrier, no gateway that had recovered was ever killed in the work that it resumes."""
    resumed = workload([], resume=[op("create", session="s"), op("record", delivery="d", session="s", content="x")])
    process = home.start("recover", resumed, barrier="recovery.done", hook="outbox.recorded#1")
    assert process.await_hit()["barrier"] is True
    process.release()
    assert process.await_another_hit() == ("outbox.recorded", 1)
    process.kill()


def test_one_of_eight_racers_claims_a_hand_off(home: Home) -> None:
    """Cell consume-once, its first half. Planted: racers over the parent's connection."""
    race = op("race_processes", racers=8, do=op("claim", item="i", by="racer"))
    records = home.finish("run", workload([op("create", session="s"), op("park", session="s", item="i"), race]))
    assert sorted(records[-1]["exits"]) == [0] + [10] * 7
    assert home.view("items") == [("i", "claimed", None)]


def test_a_racer_that_crashes_has_neither_won_nor_lost(home: Home) -> None:
    """Planted: any other exit code taken for a loss; seven crashes and one winner were called a proof."""
    (home.folder / "state.db").write_bytes(b"no database, but longer than the header of one" * 100)
    racer = home.start("race", workload([], race=op("claim", item="i", by="racer")), racer="1")
    assert racer.wait() not in (0, 10)
    assert "DatabaseError" in racer.log


def test_a_hand_off_whose_claimer_died_stays_claimed(home: Home) -> None:
    """Cell consume-once, its second half: limbo in this version. No start of a gateway takes it up again."""
    script = workload(
        [op("create", session="s"), op("park", session="s", item="i"), op("claim", item="i", by="ann")],
        [op("claim", item="i", by="bob"), op("park", session="s", item="i")],
    )
    home.kill_at("run", script, "claim.won#1")
    answers = [r for r in home.finish("recover", script) if r.get("type") in ("ok", "fail") and r["op"] != "open"]
    assert [(r["type"], r.get("won")) for r in answers] == [("ok", False), ("fail", None)]
    assert home.view("items") == [("i", "claimed", None)]


@pytest.mark.parametrize(
    ("hook", "sessions"),
    [
        ("rotate.closed", [("s", None, "compacted")]),
        ("rotate.created", [("c", "s", ""), ("s", None, "compacted")]),
    ],
)
def test_a_rotation_that_dies_between_its_calls_stays_half(home: Home, hook: str, sessions: list[object]) -> None:
    """Cell rotation-atomicity: rotation is several transactions here, and no start completes or undoes it."""
    talk = [op("create", session="s"), op("append", session="s", role="user", content="a")]
    script = workload([*talk, op("rotate", session="s", child="c", summary="short")])
    home.kill_at("run", script, f"{hook}#1")
    home.finish("recover", script)
    assert sorted(home.view("sessions")) == sessions
    assert home.view("messages") == [("s", 0, "user", "a")]


@pytest.mark.parametrize("mode", ["delete", "truncate", "persist", "memory", "off"])
def test_a_journal_mode_that_is_not_offered_is_refused_with_its_reason(home: Home, mode: str) -> None:
    """Planted: the mode ignored, and a leg of DELETE that ran in WAL counts as one of DELETE."""
    process = home.start("run", workload([], journal_mode=mode))
    assert process.wait() == 78
    assert "always ends in WAL" in process.log
    assert mode in tomllib.loads((HERMES / "cells.toml").read_text())["not_offered"]


def test_every_hook_of_the_catalogue_is_reached_and_no_other(home: Home) -> None:
    """Planted: a hook without its line in the catalogue; nobody would ever kill there."""
    catalogue = tomllib.loads((HERMES / "hooks.toml").read_text())["hook"]
    work = [
        *OUTBOX["work"],
        op("append", session="s", role="user", content="x"),
        op("rotate", session="s", child="c", summary="short"),
        op("park", session="c", item="i"),
        op("claim", item="i", by="ann"),
    ]
    ran = hits(home.finish("run", workload(work), census="1"))
    assert ran == {hook["name"] for hook in catalogue if hook["where"] == "run"}
    home.kill_at("run", workload([op("record", delivery="e", session="s", content="x")]), "outbox.recorded#1")
    recovered = hits(home.finish("recover", workload([]), census="1"))
    assert recovered == {hook["name"] for hook in catalogue if hook["where"] == "recovery"}
    subject = tomllib.loads((HERMES / "subject.toml").read_text())
    assert subject["hooks"]["expected"] == len(catalogue)


def hits(records: list[Record]) -> set[str]:
    return {record["hit"] for record in records if "hit" in record}


def test_every_kill_point_of_the_cells_is_a_hook_or_a_moment() -> None:
    """Planted: a point with a typing error; its cell would wait for a hook that never comes."""
    hooks = {hook["name"] for hook in tomllib.loads((HERMES / "hooks.toml").read_text())["hook"]}
    points = tomllib.loads((HERMES / "cells.toml").read_text())["points"]
    named = {name for at in points.values() for point in at for name in re.split(r" > ", point)}
    assert named - {"answer"} <= hooks


def test_an_op_that_the_state_refuses_is_answered_fail_and_the_driver_goes_on(home: Home) -> None:
    """Planted: `finish` of what another one has claimed; the package would complete it, its gateway never asks."""
    script = workload(
        [
            op("append", session="nowhere", role="user", content="x"),
            op("create", session="s"),
            op("rewind", session="s", keep=0),
            op("park", session="s", item="s"),  # an item may have the name of a session
            op("finish", item="s", by="ann"),
            op("claim", item="s", by="ann"),
            op("finish", item="s", by="ann"),
        ]
    )
    answers = [r["type"] for r in home.finish("run", script) if r.get("id") and r["type"] != "invoke"]
    assert answers == ["fail", "ok", "fail", "ok", "fail", "ok", "ok"]
    assert home.view("items") == [("s", "done", None)]
    assert home.view("sessions") == [("s", None, "")]


def test_a_sweep_of_the_running_gateway_sends_nothing_twice(home: Home) -> None:
    """Planted: a sweep that claims its own home a second time, is refused, and never sweeps at all."""
    home.kill_at("run", workload(OWED), "outbox.recorded#1")
    records = home.finish("recover", workload([], [op("sweep"), op("sweep")]))
    assert [r["sent"] for r in records if r.get("type") == "ok" and r["op"] == "sweep"] == [0, 0]
    assert not [r for r in records if "why" in r]
    assert home.copies() == [False]
