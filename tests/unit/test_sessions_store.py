"""What the session store answers, and what its driver tells the lab: real processes and the real ledger."""

from __future__ import annotations

import itertools
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kernel_process import LedgerService, Process, Record
from sessions_process import (
    MODES,
    SESSIONS,
    Folder,
    append,
    claim,
    op,
    race_processes,
    record,
    send,
    workload,
)

from lab.workloads import session_cells

S1 = op("create", session="s1")
PARKED = (S1, op("park", session="s1", item="i1"))
NOTHING = workload()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    service = LedgerService(tmp_path_factory.mktemp("ledger"))
    yield service
    service.end()


@pytest.fixture
def new_folder(service: LedgerService, request: pytest.FixtureRequest) -> Iterator[Callable[..., Folder]]:
    numbers, made = itertools.count(1), []

    def new(copy_of: Folder | None = None, **rules: list[str]) -> Folder:
        name = f"{abs(hash(request.node.name)) % 10**9}-{next(numbers)}"
        made.append(Folder(service, name, copy_of.path if copy_of else None, **rules))
        return made[-1]

    yield new
    for folder in made:
        folder.close()


@pytest.fixture
def folder(new_folder: Callable[..., Folder]) -> Folder:
    return new_folder()


def answers(records: list[Record]) -> list[Record]:
    """What each op was answered, without the opening."""
    return [record for record in records if record.get("type") in ("ok", "fail", "info") and record["id"] > 0]


def contents(folder: Folder, session: str) -> list[str]:
    return [content for name, _, _, content in folder.view("messages") if name == session]


def test_every_op_is_invoked_and_answered_and_the_opening_says_what_it_really_has(folder: Folder) -> None:
    """docs/cells.md: the verifier judges by these records."""
    records = folder.finish("run", workload(S1, append("s1", "hello")))
    opened, *rest = [{name: r[name] for name in r if name != "lab"} for r in records]
    assert opened.pop("sqlite").startswith("3.")
    assert opened == {"op": "open", "type": "ok", "id": 0, "journal_mode": "wal", "store": "sessions 1.0"}
    assert rest == [
        {"op": "create", "type": "invoke", "id": 1, "do": S1}, {"op": "create", "type": "ok", "id": 1},
        {"op": "append", "type": "invoke", "id": 2, "do": append("s1", "hello")},
        {"op": "append", "type": "ok", "id": 2},
    ]  # fmt: skip


def test_a_repeated_op_is_done_and_told_one_by_one(folder: Folder) -> None:
    """A workload of 29,500 appends must fit its environment variable, and each append be acknowledged for itself."""
    records = folder.finish("run", workload(S1, append("s1", "turn {n}", repeat=3)))
    told = [r["do"] for r in records if r.get("type") == "invoke"]
    assert told[1:] == [append("s1", f"turn {n}") for n in (1, 2, 3)]
    assert contents(folder, "s1") == ["turn 1", "turn 2", "turn 3"]


@pytest.mark.parametrize("mode", MODES)
def test_the_journal_mode_is_the_one_that_was_asked_for_whatever_the_file_was_in(folder: Folder, mode: str) -> None:
    """A leg that silently runs in another mode proves nothing: the prepared state is in the default, which is WAL."""
    folder.finish("run", workload(S1))
    records = folder.finish("run", workload(append("s1", "hello"), journal_mode=mode))
    assert records[0]["journal_mode"] == mode
    header = (folder.path / "sessions.db").read_bytes()[18:20]
    assert header == (b"\x02\x02" if mode == "wal" else b"\x01\x01")
    assert (folder.path / "sessions.db-journal").exists() == (mode in ("truncate", "persist"))


def test_what_the_state_forbids_is_refused_and_changes_nothing(folder: Folder) -> None:
    """A resume finds what the crash left: an op that cannot be done is told as `fail`, and the script goes on."""
    refused = (
        S1, append("s0", "x"), op("rotate", session="s1", child="s1", summary="x"), append("closed", "x"),
        op("rewind", session="s1", keep=1), op("edit", session="s1", keep=7, content="x"),
        op("park", session="s1", item="i1"), op("finish", item="i1", by="nobody"), record("d1"), send("d2"),
    )  # fmt: skip
    setup = workload(
        *PARKED, append("s1", "only"), record("d1"), op("create", session="closed"),
        op("rotate", session="closed", child="child", summary="so far"),
    )  # fmt: skip
    folder.finish("run", setup)
    views = ("sessions", "messages", "items", "deliveries")
    before = [folder.view(view) for view in views]
    assert [answer["type"] for answer in answers(folder.finish("run", workload(*refused)))] == ["fail"] * len(refused)
    assert [folder.view(view) for view in views] == before
    assert folder.copies() == []


def test_a_fork_keeps_the_abandoned_branch_and_shows_the_chosen_one(folder: Folder) -> None:
    """Clause fork determinism: rewind and edit, twice over the same place."""
    script = (
        S1, *(append("s1", f"turn {n}") for n in range(4)), op("rewind", session="s1", keep=2), append("s1", "other 2"),
        op("edit", session="s1", keep=1, content="other 1"),
    )  # fmt: skip
    folder.finish("run", workload(*script))
    folder.finish("recover", NOTHING)
    assert contents(folder, "s1") == ["turn 0", "other 1"]
    with closing(sqlite3.connect(folder.path / "sessions.db")) as database:
        kept = database.execute("SELECT content, abandoned FROM messages WHERE abandoned IS NOT NULL ORDER BY content")
        assert kept.fetchall() == [("other 2", 2), ("turn 1", 2), ("turn 2", 1), ("turn 3", 1)]


def test_an_orphan_of_an_older_version_is_open_again_after_a_start(folder: Folder) -> None:
    """A version that rotated in two transactions left parents closed without a child: nobody could go on with them."""
    script = workload(S1, append("s1", "hello"), op("rotate", session="s1", child="s2", summary="so far"))
    folder.kill_at("run", script, "rotate.durable#1", "rotation-in-two-transactions")
    assert folder.view("sessions") == [("s1", None, "compacted")]
    told = answers(folder.finish("recover", workload(resume=(append("s1", "and on"),))))
    assert [answer["type"] for answer in told] == ["ok"]
    assert folder.view("sessions") == [("s1", None, "")]
    assert contents(folder, "s1") == ["hello", "and on"]


def standing_racers(folder: Folder, script: Record, count: int = 8) -> list[Process]:
    """Racers as the lab starts them, each a process of its own, all at the barrier."""
    racers = [folder.start("race", script, barrier="race.ready", racer=str(n)) for n in range(1, count + 1)]
    for racer in racers:
        racer.await_hit()
    return racers


def test_one_of_eight_racers_at_the_barrier_wins_and_the_item_is_its_own(folder: Folder) -> None:
    """Cell consume-once: exit codes are disjoint, 0 won and 10 lost; a crash is neither."""
    folder.finish("run", workload(*PARKED))
    racers = standing_racers(folder, workload(race=claim("i1", "racer")))
    for racer in racers:
        racer.release()
    exits = [racer.wait() for racer in racers]
    assert sorted(exits) == [0, *[10] * 7], [racer.log for racer in racers]
    assert folder.view("items") == [("i1", "claimed", f"racer-{exits.index(0) + 1}")]


@pytest.mark.parametrize("mode", MODES)
def test_one_of_eight_forked_racers_wins(folder: Folder, mode: str) -> None:
    """The same as processes of one container, and the driver goes on with a connection of its own."""
    script = workload(*PARKED, race_processes(claim("i1", "racer")), append("s1", "on"), journal_mode=mode)
    told = answers(folder.finish("run", script))
    exits = told[2]["exits"]
    assert sorted(exits) == [0, *[10] * 7]
    assert folder.view("items") == [("i1", "claimed", f"racer-{exits.index(0) + 1}")]
    assert contents(folder, "s1") == ["on"]


def test_a_racer_that_crashes_is_neither_a_winner_nor_a_loser(folder: Folder) -> None:
    """Seven crashes and one winner are not a proof: the provider is not there, so no racer can do its op."""
    process = folder.start("run", workload(S1, record("d1"), race_processes(send("d1"), 2)), ledger="/nonexistent")
    assert process.wait() == 0
    assert sorted(answers(process.records)[-1]["exits"]) == [10, 70]
    assert "ProviderError" in process.log


def test_a_claim_is_free_again_when_its_owner_has_died_and_not_before(folder: Folder) -> None:
    """No limbo, and no stealing: another start must leave the claims of a living owner alone."""
    script = workload(*PARKED, claim("i1", "ann"), append("s1", "x"), resume=(claim("i1", "bob"),))
    living = folder.start("run", script, hook="append.before#1")
    living.await_hit()
    assert answers(folder.finish("recover", script))[-1]["won"] is False
    assert folder.view("items") == [("i1", "claimed", "ann")]
    living.kill()
    assert answers(folder.finish("recover", script))[-1]["won"] is True


def test_an_item_that_is_done_stays_done(folder: Folder) -> None:
    """Never twice: its owner is gone, and it is not claimable again."""
    script = workload(*PARKED, claim("i1", "ann"), op("finish", item="i1", by="ann"), resume=(claim("i1", "bob"),))
    folder.finish("run", script)
    assert answers(folder.finish("recover", script))[-1]["won"] is False


def test_gateways_that_boot_at_once_send_what_was_left_once(folder: Folder) -> None:
    """Cell outbox: eight recoveries of one crash, as the lab starts them; further boots send nothing."""
    folder.kill_at("run", workload(S1, record("d1"), record("d2")), "record.durable#2")
    gateways = [folder.start("recover", NOTHING) for _ in range(8)]
    assert [gateway.wait() for gateway in gateways] == [0] * 8, [gateway.log for gateway in gateways]
    folder.finish("recover", NOTHING)
    assert sorted(folder.copies()) == [("d1", False), ("d2", False)]
    assert folder.view("deliveries") == [("d1", "delivered"), ("d2", "delivered")]


def test_a_gateway_that_boots_leaves_the_attempt_of_a_living_one_alone(folder: Folder) -> None:
    """A second gateway that starts in the middle of a send must not send, marked or not."""
    living = folder.start("run", workload(S1, record("d1"), send("d1")), hook="outbox.attempting#1")
    living.await_hit()
    folder.finish("recover", NOTHING)
    assert folder.copies() == []
    living.kill()
    folder.finish("recover", NOTHING)
    assert folder.copies() == [("d1", True)]


def test_a_lost_reply_is_told_as_unknown_and_its_delivery_sent_again_with_a_mark(
    new_folder: Callable[..., Folder],
) -> None:
    """The provider did it and the answer never came: neither silence nor a second unmarked copy."""
    folder = new_folder(lose_reply=["d1"])
    told = answers(folder.finish("run", workload(S1, record("d1"), send("d1"), op("sweep"), op("sweep"))))
    assert [(answer["type"], answer.get("sent")) for answer in told[2:]] == [("info", None), ("ok", 1), ("ok", 0)]
    assert folder.copies() == [("d1", False), ("d1", True)]
    assert folder.view("deliveries") == [("d1", "delivered")]


def test_a_declined_delivery_has_failed_for_good(new_folder: Callable[..., Folder]) -> None:
    """`failed` is terminal: no boot tries it again."""
    folder = new_folder(decline=["d1"])
    told = answers(folder.finish("run", workload(S1, record("d1"), send("d1"))))
    assert told[-1]["type"] == "fail" and "declined" in told[-1]["why"]
    folder.finish("recover", NOTHING)
    assert folder.view("deliveries") == [("d1", "failed")]
    assert len(folder.ledger()["requests"]) == 1


def test_two_recoveries_of_one_crash_do_the_same_and_a_third_changes_nothing(new_folder: Callable[..., Folder]) -> None:
    """Clause recovery determinism, with a claim, a delivery and an orphan to reap: hooks, views and sends."""
    crashed = new_folder()
    script = workload(
        *PARKED, claim("i1", "ann"), record("d1"), record("d2"), op("rotate", session="s1", child="s2", summary="x")
    )
    crashed.kill_at("run", script, "rotate.durable#1", "rotation-in-two-transactions")
    seen = []
    for copy in (new_folder(crashed), new_folder(crashed)):
        hits = [(r["hit"], r["n"]) for r in copy.finish("recover", NOTHING, census="1") if "hit" in r]
        views = [copy.view(view) for view in ("sessions", "messages", "items", "deliveries")]
        seen.append((hits, views, copy.copies()))
        copy.finish("recover", NOTHING)
        assert [copy.view(view) for view in ("sessions", "messages", "items", "deliveries")] == views
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        (workload(op("undo", session="s1")), 78, "there is no op 'undo'"),
        (workload(op("create")), 64, "has no session"),
        (workload(journal_mode="paper"), 64, "no journal mode 'paper'"),
        (NOTHING | {"version": 2}, 64, "version 2"),
        (workload(S1, record("d1"), send("d1")), 69, "cannot be reached"),
    ],
)
def test_what_cannot_be_worked_ends_the_driver_with_its_code_and_a_reason(
    folder: Folder, script: Record, code: int, words: str
) -> None:
    """`not offered` is told from a workload that is wrong, and that from an outside that is not there."""
    process = folder.start("run", script, ledger="/nonexistent")
    assert process.wait() == code
    assert words in process.log


def test_a_hook_that_is_armed_without_its_number_is_refused(folder: Folder) -> None:
    """A typing error must not become a run without a crash."""
    process = folder.start("run", NOTHING, hook="append.written")
    assert process.wait() == 64
    assert "NAME#N" in process.log


def test_a_released_barrier_leaves_the_hook_armed(folder: Folder) -> None:
    """Disarmed at the barrier, no process that had recovered was ever killed in the work that it resumes."""
    resumed = NOTHING | {"resume": [S1, append("s1", "after the recovery")]}
    process = folder.start("recover", resumed, barrier="recovery.done", hook="append.before#1")
    assert process.await_hit()["barrier"] is True
    process.release()
    assert process.await_another_hit() == ("append.before", 1)
    process.kill()


def test_a_barrier_whose_controller_is_gone_ends_the_process(folder: Folder) -> None:
    """Nobody will ever write the line: a container that waits for it would never go away."""
    process = folder.start("recover", NOTHING, barrier="recovery.done")
    process.await_hit()
    process.leave()
    assert process.wait() == 1
    assert "barrier recovery.done was never released" in process.log


def test_a_database_that_cannot_be_read_is_reported_as_corrupt(folder: Folder) -> None:
    """Never a new empty store in the place of a broken one."""
    folder.finish("run", workload(S1, append("s1", "hello", repeat=50)))
    database = folder.path / "sessions.db"
    database.write_bytes(database.read_bytes()[:4096] + b"\xff" * 4096)
    process = folder.start("recover", NOTHING)
    assert process.wait() == 65
    assert "sessions.db" in process.log


def test_a_session_with_a_hole_does_not_load(folder: Folder) -> None:
    """Clause checkpoint validity: what cannot be loaded is told at the start, not when somebody asks for it."""
    folder.finish("run", workload(S1, append("s1", "turn {n}", repeat=3)))
    with closing(sqlite3.connect(folder.path / "sessions.db")) as database, database:
        database.execute("DELETE FROM messages WHERE position = 1")
    process = folder.start("recover", NOTHING)
    assert process.wait() == 65
    assert "session s1" in process.log


def test_the_scripts_of_a_campaign_run_to_their_end_and_reach_every_hook(new_folder: Callable[..., Folder]) -> None:
    """The store is a subject like any other: a hook of a run that no script reaches could never be killed at."""
    hooks = tomllib.loads((SESSIONS / "hooks.toml").read_text())["hook"]
    points = tomllib.loads((SESSIONS / "cells.toml").read_text())["points"]
    prepared, reached = new_folder(), {}
    prepared.finish("run", session_cells.prepared(7))
    for cell in session_cells.CELLS:
        records = new_folder(prepared).finish("run", session_cells.generate(7, cell, "default"), census="1")
        reached[cell] = {record["hit"] for record in records if "hit" in record}
        assert {answer["type"] for answer in answers(records)} == {"ok"}
        firsts = {point.split(" > ")[0] for point in points[cell]}
        assert firsts <= reached[cell], f"{cell}: a point that its script never reaches"
    assert {hook["name"] for hook in hooks if hook["where"] == "run"} <= set().union(*reached.values())
