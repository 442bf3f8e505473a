"""What muxd makes of the home that it finds: torn, cut, damaged, or in use."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_process import PYTHON
from muxd_process import MUXD, Home, Homes

sys.path.insert(0, str(MUXD))
from muxd.chatfiles import ChatFiles
from muxd.chatstate import ChatState, decode, encode
from muxd.errors import CorruptError
from muxd.frames import frame, frames


@pytest.fixture(scope="module")
def homes() -> Iterator[Homes]:
    made = Homes()
    yield made
    made.close()


@pytest.fixture
def home(homes: Homes) -> Iterator[Home]:
    fresh = homes.make()
    yield fresh
    fresh.close()


def lived(home: Home) -> None:
    """A home that a daemon has been killed on: two chats, a draft and three watches."""
    client = home.start()
    for chat in ("c", "d"):
        client.ask("chat/new", chat=chat)
    client.ask("draft/set", chat="c", text="d1")
    for path in ("/w/1", "/w/2", "/w/3"):
        client.ask("watch/add", chat="c", path=path)
    home.kill()


def journal(home: Home) -> Path:
    (path,) = home.path.glob("journal.*")
    return path


def words_of_a_refused_start(home: Home, code: int) -> str:
    process = home.launch()
    assert process.wait() == code, process.log
    home.process = None
    return process.log


# The journal


@pytest.mark.parametrize("tail", [b"\x07", b"\x20\x00\x00\x00garbage", bytes(64), frame(9, b'{"do":"watch"}')[:-1]])
def test_a_torn_tail_of_the_journal_is_cut_and_what_was_there_stays(home: Home, tail: bytes) -> None:
    """The one thing that a cut append leaves; what is appended behind it must be found again."""
    lived(home)
    whole = journal(home).read_bytes()
    journal(home).write_bytes(whole + tail)
    client = home.start()
    assert journal(home).read_bytes() == whole
    client.ask("watch/add", chat="c", path="/w/4")
    assert home.restart().ask("chat/read", chat="c")["watches"] == ["/w/1", "/w/2", "/w/3", "/w/4"]


def test_a_journal_that_is_damaged_in_its_middle_is_reported(home: Home) -> None:
    """No crash damages what lies before a good frame: to cut there would lose what was acknowledged behind it."""
    lived(home)
    data = bytearray(journal(home).read_bytes())
    data[data.index(b"/w/1")] ^= 1
    journal(home).write_bytes(data)
    log = words_of_a_refused_start(home, 65)
    assert "a good frame behind them" in log and str(journal(home)) in log


def test_a_generation_without_its_snapshot_is_reported(home: Home) -> None:
    """It was whole before it got its name."""
    lived(home)
    journal(home).write_bytes(b"")
    assert "its first frame is bad" in words_of_a_refused_start(home, 65)


@pytest.mark.parametrize(
    "record",
    [
        b'{"do":"share","chat":"c"}',
        b'{"do":"unwatch","chat":"c","path":"/never"}',
        b'{"do":"unwatch","chat":"nobody","path":"/w/1"}',
        b'{"do":"delivered","message":"never"}',
    ],
)
def test_a_record_that_fits_nothing_before_it_is_reported(home: Home, record: bytes) -> None:
    """Of a newer version, or behind a lost one: to leave it out would lose what it promised."""
    lived(home)
    data = journal(home).read_bytes()
    last = frames(data, "")[0][-1][0]
    journal(home).write_bytes(data + frame(last + 1, record))
    assert "fits nothing before it" in words_of_a_refused_start(home, 65)


def test_the_newest_generation_counts_and_what_a_cut_compaction_left_is_removed(home: Home) -> None:
    """Killed between the switch and the removal of the old one, or before the new one had its name."""
    lived(home)
    old = journal(home)
    number = len(frames(old.read_bytes(), "")[0])
    snapshot = b'{"do":"snapshot","chats":{"c":1},"watches":{"c":["/new"]},"outbox":{}}'
    newer = old.with_name("journal.00000002")
    newer.write_bytes(frame(number + 1, snapshot))
    old.with_name("journal.00000003.tmp").write_bytes(b"half a ")
    client = home.start()
    assert client.ask("chat/read", chat="c")["watches"] == ["/new"]
    assert journal(home) == newer


def test_the_journal_stays_short(home: Home) -> None:
    """It is compacted after 8 records, so that a start never reads a long life."""
    client = home.start()
    client.ask("chat/new", chat="c")
    for number in range(100):
        client.ask("watch/add" if number % 2 == 0 else "watch/rm", chat="c", path="/w")
    found, _ = frames(journal(home).read_bytes(), "")
    assert len(found) <= 9 and journal(home).name == "journal.00000013"


def test_a_torn_frame_is_never_taken_for_a_good_one() -> None:
    """At every length of the tail, and with every byte of a frame changed."""
    good = frame(1, b"one") + frame(2, b"two")
    for length in range(len(frame(1, b"one")), len(good)):
        assert frames(good[:length], "")[0] == [(1, b"one")]
    for at in range(len(frame(1, b"one")), len(good)):
        changed = bytearray(good)
        changed[at] ^= 1
        assert frames(bytes(changed), "")[0] == [(1, b"one")]


def test_a_frame_out_of_its_order_is_damage() -> None:
    """A good frame with a wrong number was never appended there."""
    with pytest.raises(CorruptError, match="bad bytes at"):
        frames(frame(1, b"one") + frame(3, b"three"), "journal")


# Chats


def test_a_damaged_or_lost_chat_is_reported_not_forgotten(home: Home) -> None:
    """To begin it anew would lose its draft and its prompts without a word."""
    lived(home)
    path = home.path / "chats" / "1"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert "not one good frame" in words_of_a_refused_start(home, 65)
    path.unlink()
    assert "the journal lists it and it is not there" in words_of_a_refused_start(home, 65)
    path.write_bytes(whole)
    assert home.start().ask("chat/read", chat="c")["draft"] == "d1"


def test_chats_without_a_journal_are_not_thrown_away(home: Home) -> None:
    """A home that has lost its journal looks like a new one but for them."""
    lived(home)
    journal(home).unlink()
    assert "no journal that lists them" in words_of_a_refused_start(home, 65)
    assert (home.path / "chats" / "1").exists()


def test_a_chat_that_was_being_made_is_gone_and_can_be_made(home: Home) -> None:
    """Its file came first, and the kill before the journal had listed it."""
    client = home.start(hook="create.filed#1")
    client.send("chat/new", chat="c")
    home.kill_at_hook()
    assert list((home.path / "chats").iterdir())
    client = home.start()
    assert client.ask("chat/list") == {"chats": []}
    assert not list((home.path / "chats").iterdir())
    client.ask("chat/new", chat="c")
    assert client.ask("chat/read", chat="c")["draft"] is None


def test_an_older_version_never_replaces_a_newer_one(tmp_path: Path) -> None:
    """The last line of defence against a second writer of a chat."""
    files = ChatFiles(str(tmp_path), lambda hook: None)
    files.save(1, 2, ChatState(draft="new"))
    for version in (1, 2):
        with pytest.raises(AssertionError, match="would replace"):
            files.save(1, version, ChatState(draft="old"))
    assert files.load(1) == (2, ChatState(draft="new"))
    version = struct.unpack_from("<IQ", (tmp_path / "chats" / "1").read_bytes())[1]
    assert version == 2


def test_a_chat_is_read_back_as_it_was_written() -> None:
    """Every field of it, with text that is not ASCII."""
    state = ChatState(draft="ä", title="t", mode="m", unread=True).accept("p1", "x").accept("p2", "y").accept("p3", "")
    state = state.begin().decide("p1", True).end("done").begin().remove("p3")
    assert decode(encode(state)) == state
    assert state.prompts == ("p2", "p1", "p3")


# Turns and settings


def test_a_turn_that_was_cut_is_unknown_and_what_waits_behind_it_runs(home: Home) -> None:
    """Its agent may have done anything; its prompt never runs again, at no further restart."""
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="slow 5000")
    client.ask("prompt/send", chat="c", prompt="p2", text="reply 1")
    await_effect(home, "run:p1")
    client = home.restart()
    assert client.ask("chat/read", chat="c")["log"][0] == {"prompt": "p1", "outcome": "unknown"}
    home.settle(client)
    client = home.restart()
    assert client.ask("chat/read", chat="c")["log"] == [
        {"prompt": "p1", "outcome": "unknown"}, {"prompt": "p2", "outcome": "done"}
    ]  # fmt: skip
    assert home.effects() == ["run:p1", "run:p2"]


def test_a_setting_is_kept_after_a_moment_though_nobody_promised_it(home: Home) -> None:
    """Answered before it is durable, and saved soon."""
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("chat/rename", chat="c", title="t1")
    time.sleep(0.2)
    assert home.restart().ask("chat/read", chat="c")["title"] == "t1"


# The lock, and the end


def test_a_second_daemon_is_refused_and_the_first_serves_on(home: Home) -> None:
    """Exit 75, with what to do; and it has not touched the socket of the first."""
    client = home.start()
    client.ask("chat/new", chat="c")
    first = home.process
    log = words_of_a_refused_start(home, 75)
    assert "in use" in log and "lslocks" in log
    home.process = first
    assert home.connect().ask("chat/list") == {"chats": ["c"]}


def test_the_lock_is_free_after_a_kill_though_its_file_is_there_and_names_a_living_process(home: Home) -> None:
    """The kernel holds it: neither a file nor a process id in it says anything."""
    lived(home)
    (home.path / "lock").write_text(str(os.getpid()))
    assert home.start().ask("chat/list")


def test_an_agent_has_no_part_in_the_lock(home: Home) -> None:
    """One that outlives its daemon would keep the next one out."""
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="slow 800")
    await_effect(home, "run:p1")
    assert home.process
    (agent,) = home.process.children()
    opened = [fd.readlink() for fd in Path(f"/proc/{agent}/fd").iterdir()]
    assert opened and not [path for path in opened if path.is_relative_to(home.path)]


def test_a_disk_that_fails_ends_the_daemon_and_nothing_is_answered(home: Home) -> None:
    """Fail-stop: after a failed write nobody knows what is on the disk. Exit 74; a start finds what was promised."""
    lived(home)
    client = home.start()
    assert home.process
    resource.prlimit(home.process.pid, resource.RLIMIT_FSIZE, (64, 64))
    client.send("draft/set", chat="c", text="d2" * 100)
    assert client.read_line() is None
    assert home.process.wait() == 74 and "cannot write the home" in home.process.log
    home.process = None
    assert home.start().ask("chat/read", chat="c")["draft"] == "d1"


@pytest.mark.parametrize("how", ["in_thread(fail)", "ended_in_background()"])
def test_a_fault_of_its_own_in_a_write_or_a_turn_ends_the_daemon(how: str) -> None:
    """Fail-stop, exit 70: to answer this request with an error and serve on would hide what was lost."""
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(MUXD)!r})
from muxd.failstop import in_background, in_thread

def fail():
    raise AssertionError("an older version")

async def fail_too():
    fail()

async def ended_in_background():
    in_background(fail_too())
    await asyncio.sleep(10)

asyncio.run({how})
"""
    ended = subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, timeout=10)
    assert ended.returncode == 70 and "an older version" in ended.stderr


def test_a_command_line_that_is_wrong_says_what_is_right(home: Home) -> None:
    """Exit 64: an unset socket, and a hook that cannot be armed."""
    for lab in ({"socket": ""}, {"hook": "chat.synced"}):
        process = home.launch(**lab)
        assert process.wait() == 64 and "LAB_" in process.log
        home.process = None


def await_effect(home: Home, effect: str) -> None:
    until = time.monotonic() + 5
    while effect not in home.effects():
        assert time.monotonic() < until, f"{effect} never lands"
        time.sleep(0.01)
