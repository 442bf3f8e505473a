"""prefix-durability, rotation-atomicity, fork-determinism: passed with facts, failed by each fault, no false alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cells_store import Trial, facts, failed, trials

New = Callable[..., Trial]
LOOKS = ("killed", "recovered", "end")
MODES = ("default", "delete", "wal", "truncate", "persist", "memory", "off")


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[New]:
    yield from trials(tmp_path, monkeypatch)


def say(trial: Trial, session: str, content: str, **more: Any) -> None:
    trial.do("append", session=session, role="user", content=content, **more)


def talked(new: New, mode: str = "wal", count: int = 205) -> Trial:
    """Two sessions, and enough appends."""
    trial = new("prefix-durability", mode)
    for session in ("a", "b"):
        trial.do("create", session=session)
    for n in range(count):
        say(trial, "ab"[n % 2], f"message {n}")
    return trial


# ---- prefix-durability


@pytest.mark.parametrize("mode", MODES)
def test_a_store_that_keeps_everything_passes_in_every_mode_with_a_fact_for_each_message(new: New, mode: str) -> None:
    """The control: the same story, and nothing lost; in DELETE to PERSIST with a transaction under way at the kill."""
    trial = talked(new, mode)
    if mode not in ("memory", "off"):
        trial.sql.execute("BEGIN")
        say(trial, "a", "under way" * 9000, answer=None)  # more than the cache: a hot journal, or a WAL without commit
    trial.die()
    killed = trial.judge("killed")
    assert failed(killed) == {}
    assert facts(killed, "prefix-durability") > 205
    assert facts(killed, "journal-mode") >= 2
    if trial.sql.in_transaction:
        trial.sql.execute("ROLLBACK")
    trial.start()
    assert failed(trial.judge("recovered")) == {}
    trial.do("create", session="after")
    say(trial, "after", "more")
    trial.sql.close()
    assert failed(trial.judge("end")) == {}


def test_a_hot_journal_is_rolled_back_and_without_it_the_database_is_another(new: New) -> None:
    """The trap: a copy of the database alone shows half a transaction."""
    trial = talked(new, "delete")
    trial.sql.execute("BEGIN")
    trial.sql.execute("UPDATE m SET content = content || hex(zeroblob(3000))")
    trial.die()
    files = trial.files()
    assert files["box/store.db-journal"]
    assert failed(trial.judge("killed", files)) == {}
    alone = {path: content for path, content in files.items() if not path.endswith("-journal")}
    assert "prefix-durability" in failed(trial.judge("killed", alone))


def test_a_torn_tail_of_the_wal_is_no_loss_and_a_torn_acknowledged_frame_is(new: New) -> None:
    """A frame that was being written at the kill is cut; what stands before it counts."""
    trial = talked(new)
    trial.die()
    files = trial.files()
    wal = files["box/store.db-wal"]
    assert failed(trial.judge("killed", {**files, "box/store.db-wal": wal + wal[-900:]})) == {}
    torn = trial.judge("killed", {**files, "box/store.db-wal": wal[:-900]})
    assert list(failed(torn)) == ["prefix-durability"]
    assert "the end is lost" in torn["prefix-durability"]["differs"]["why"]


def test_fewer_than_two_hundred_acknowledged_appends_before_the_kill_are_no_fact(new: New) -> None:
    """An early kill shows nothing, and must not count as a pass; appends after the recovery do not make up for it."""
    trial = talked(new, count=199)
    trial.die()
    trial.start()
    say(trial, "a", "one more")
    for look in LOOKS:
        assert trial.judge(look)["prefix-durability"] == {"facts": 0, "differs": None}


def test_what_is_lost_after_fewer_appends_is_lost_all_the_same(new: New) -> None:
    """A fire is never silenced."""
    trial = talked(new, count=20)
    trial.sql.execute("DELETE FROM m WHERE content = 'message 19'")
    trial.die()
    assert failed(trial.judge("killed")) == {"prefix-durability": "messages[b][9]"}


@pytest.mark.parametrize(
    ("fault", "fact", "why"),
    [
        ("DELETE FROM m WHERE content = 'message 204'", "messages[a][102]", "the end is lost"),
        ("DELETE FROM m WHERE content = 'message 100'", "messages[a][50]", "a hole"),
        ("INSERT INTO m VALUES ('b', 500, 'user', 'message 9', 1)", "messages[b][102]", "it is there twice"),
        ("UPDATE m SET place = 3.5 WHERE content = 'message 50'", "messages[a][4]", "stands before"),
        ("UPDATE m SET content = 'mess' WHERE content = 'message 8'", "messages[a][4]", "another message"),
        ("UPDATE m SET role = 'system' WHERE content = 'message 8'", "messages[a][4]", ""),
        ("INSERT INTO m VALUES ('a', 500, 'user', 'from nowhere', 1)", "messages[a][103]", "nobody appended it"),
        ("DELETE FROM s WHERE name = 'b'", "sessions[b]", "made it"),
        ("INSERT INTO s VALUES ('c', NULL, '')", "sessions[c]", "only if it was asked for"),
        ("INSERT INTO m VALUES ('ghost', 0, 'user', 'boo', 1)", "sessions[ghost]", "only if it was asked for"),
    ],
)  # fmt: skip
def test_each_way_of_not_being_a_prefix_is_found_at_every_look(new: New, fault: str, fact: str, why: str) -> None:
    """Planted bugs: acknowledge before commit; a loss in the middle; a retried append that lands twice."""
    trial = talked(new)
    trial.sql.execute(fault)
    trial.die()
    for look in LOOKS:
        answer = trial.judge(look)
        assert failed(answer) == {"prefix-durability": fact}
        assert why in answer["prefix-durability"]["differs"]["why"]


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("answer", [None, "info"])
def test_an_unanswered_append_may_have_landed_or_not(new: New, landed: bool, answer: str | None) -> None:
    """False alarm to avoid; and the session goes on behind it in the next process, which settles nothing by itself."""
    trial = talked(new)
    say(trial, "a", "unanswered", effect=landed, answer=answer)
    trial.die()
    assert failed(trial.judge("killed")) == {}
    trial.start()
    say(trial, "a", "afterwards")
    say(trial, "a", "unanswered again", effect=landed, answer=None)
    trial.die()
    assert failed(trial.judge("killed")) == {}


def test_an_append_that_was_refused_may_not_be_there(new: New) -> None:
    """`fail` says that it surely did not happen."""
    trial = talked(new)
    say(trial, "a", "refused", answer="fail")
    assert failed(trial.judge("end")) == {"prefix-durability": "messages[a][103]"}


def test_the_prepared_state_is_judged_as_well_but_does_not_count_as_appended(new: New) -> None:
    """What was finished long ago must survive, too; but the 200 are of this trial."""
    trial = new("prefix-durability")
    script = [
        {"op": "create", "session": "old"},
        {"op": "append", "session": "old", "role": "user", "content": "old {n}", "repeat": 300},
    ]
    trial.prepared = {"workload": {"work": script}, "ledger": {"requests": [], "effects": []}}
    trial.apply(script[0])
    for n in range(1, 301):
        trial.message("old", "user", f"old {n}")
    assert trial.judge("killed")["prefix-durability"] == {"facts": 0, "differs": None}
    trial.sql.execute("DELETE FROM m WHERE content = 'old 300'")
    assert failed(trial.judge("killed")) == {"prefix-durability": "messages[old][299]"}


@pytest.mark.parametrize("damage", ["page", "header", "gone"])
def test_a_database_that_sqlite_finds_damaged_is_found(new: New, damage: str) -> None:
    """`integrity_check` is part of every cell; and unreadable data is a difference, never an error of the verifier."""
    trial = talked(new)
    trial.die()
    trial.sql.close()
    files = trial.files()
    whole = files["box/store.db"]
    files["box/store.db"] = {
        "page": whole[:4096] + b"\x0d" + b"\xff" * 4095 + whole[8192:],
        "header": b"\0" * 16 + whole[16:],
        "gone": b"",
    }[damage]
    if damage == "gone":
        del files["box/store.db"]
    assert "prefix-durability" in failed(trial.judge("killed", files))


def test_what_only_the_integrity_check_sees_is_found(new: New) -> None:
    """Every view reads well, and yet SQLite says that the file is not whole."""
    trial = talked(new)
    trial.sql.execute("CREATE TABLE other (n CHECK (n > 0))")
    trial.sql.execute("PRAGMA ignore_check_constraints = 1")
    trial.sql.execute("INSERT INTO other VALUES (0)")
    assert failed(trial.judge("killed")) == {"prefix-durability": "integrity_check"}


# ---- rotation-atomicity


def rotated(new: New, count: int = 52) -> Trial:
    trial = new("rotation-atomicity")
    trial.do("create", session="r0")
    for n in range(count):
        say(trial, f"r{n}", f"said {n}")
        trial.do("rotate", session=f"r{n}", child=f"r{n + 1}", summary=f"summary {n}")
    return trial


@pytest.mark.parametrize("landed", [True, False])
def test_whole_rotations_pass_also_one_without_an_answer(new: New, landed: bool) -> None:
    """The control, and the false alarm: an unanswered rotation is there whole, or not at all."""
    trial = rotated(new)
    trial.do("rotate", session="r52", child="r53", summary="the last", answer=None, effect=landed)
    trial.die()
    answer = trial.judge("killed")
    assert failed(answer) == {}
    assert facts(answer, "rotation-atomicity") > 52 * 5


@pytest.mark.parametrize(
    ("fault", "fact"),
    [
        ("UPDATE s SET closed = 'compacted' WHERE name = 'r52'", "sessions[r52]"),
        ("UPDATE s SET closed = '' WHERE name = 'r7'", "sessions[r8].parent.closed"),
        ("DELETE FROM m WHERE content = 'summary 51'", "messages[r52][0]"),
        ("INSERT INTO s VALUES ('r53', 'r52', '')", "sessions[r53].parent.closed"),
        ("UPDATE s SET parent = 'r3' WHERE name = 'r9'", "sessions[r8]"),
    ],
)
def test_each_half_of_a_rotation_is_found(new: New, fault: str, fact: str) -> None:
    """Planted bug: rotation in two transactions, killed between them; acknowledged or not."""
    trial = rotated(new)
    trial.do("rotate", session="r52", child="r53", summary="the last", answer=None, effect=False)
    trial.sql.execute(fault)
    trial.die()
    for look in LOOKS:
        assert failed(trial.judge(look)) == {"rotation-atomicity": fact}


def test_an_acknowledged_rotation_that_is_wholly_gone_is_found(new: New) -> None:
    """Not half, and yet lost."""
    trial = rotated(new)
    for fault in ("UPDATE s SET closed = '' WHERE name = 'r51'", "DELETE FROM s WHERE name = 'r52'"):
        trial.sql.execute(fault)
    trial.sql.execute("DELETE FROM m WHERE session = 'r52'")
    assert failed(trial.judge("killed")) == {"rotation-atomicity": "sessions[r51].closed"}


def test_fewer_than_fifty_rotations_are_no_fact_but_half_of_one_is_found(new: New) -> None:
    """Too short a story shows nothing."""
    trial = rotated(new, 49)
    assert trial.judge("killed")["rotation-atomicity"] == {"facts": 0, "differs": None}
    trial.sql.execute("UPDATE s SET closed = 'compacted' WHERE name = 'r49'")
    assert failed(trial.judge("killed")) == {"rotation-atomicity": "sessions[r49]"}


# ---- fork-determinism


def forked(new: New) -> Trial:
    trial = new("fork-determinism")
    trial.do("create", session="f")
    for n in range(5):
        say(trial, "f", f"said {n}")
    trial.do("edit", session="f", keep=4, content="edited")
    trial.do("rewind", session="f", keep=2)
    say(trial, "f", "on the chosen branch")
    return trial


@pytest.mark.parametrize("look", LOOKS)
def test_the_chosen_prefix_and_nothing_of_the_abandoned_branch_passes(new: New, look: str) -> None:
    """The control."""
    trial = forked(new)
    answer = trial.judge(look)
    assert failed(answer) == {}
    assert facts(answer, "fork-determinism") > 3


@pytest.mark.parametrize(
    ("fault", "fact"),
    [
        ("UPDATE m SET active = 1 WHERE content = 'said 3'", "messages[f][2]"),
        ("UPDATE m SET active = 1 WHERE content = 'edited'", "messages[f][2]"),
        ("UPDATE m SET active = 1, place = 99 WHERE content = 'said 4'", "messages[f][3]"),
        ("UPDATE m SET active = 0 WHERE content = 'said 1'", "messages[f][1]"),
        ("UPDATE m SET place = 1 WHERE content = 'on the chosen branch'", "messages[f] position"),
    ],
)
def test_a_branch_that_comes_back_or_a_prefix_that_is_another_is_found(new: New, fault: str, fact: str) -> None:
    """Planted bugs: rewind that leaves rows; recovery that takes abandoned messages back."""
    trial = forked(new)
    trial.sql.execute(fault)
    for look in LOOKS:
        assert failed(trial.judge(look)) == {"fork-determinism": fact}


@pytest.mark.parametrize("steps", [[], ["rewind"], ["edit"]])
def test_an_unanswered_edit_is_not_begun_rewound_or_done(new: New, steps: list[str]) -> None:
    """docs/cells.md: a store may do an edit in two steps, and be killed between them."""
    trial = forked(new)
    edit = {"session": "f", "keep": 1, "content": "edited again"}
    trial.do("edit", **edit, answer=None, effect=False)
    for op in steps:
        trial.apply({"op": op, **edit})
    trial.die()
    assert failed(trial.judge("killed")) == {}


def test_without_a_fork_there_is_nothing_to_see(new: New) -> None:
    """A kill before the first fork must not count."""
    trial = new("fork-determinism")
    trial.do("create", session="f")
    assert trial.judge("killed")["fork-determinism"] == {"facts": 0, "differs": None}


def test_an_answer_to_what_cannot_be_done_is_found(new: New) -> None:
    """A store that says ok to a rewind of a session that it does not have."""
    trial = forked(new)
    trial.do("rewind", session="nowhere", keep=1, effect=False)
    assert failed(trial.judge("killed")) == {"fork-determinism": "process 1, rewind 10"}
