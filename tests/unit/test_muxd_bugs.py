"""Each planted bug of muxd, by a kill at its worst moment: the bad state that it leaves; the good daemon does not."""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kernel_process import Record
from muxd_process import MUXD, Home, Homes

BUGS: list[Record] = tomllib.loads((MUXD / "bugs.toml").read_text())["bug"]
NO_ANSWER_S = 1.5  # a start that does not listen by then never does: a good one takes 0.1

Scenario = Callable[[Home], Any]


@pytest.fixture(scope="module")
def homes() -> Iterator[Homes]:
    made = Homes()
    yield made
    made.close()


# Scenarios: each returns what a client, or the outside world, finds.


def stalled_prompt(home: Home) -> bool:
    """Is a prompt behind a running turn answered while that runs?"""
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="slow 300")
    client.ask("prompt/send", chat="c", prompt="p2", text="reply 1")
    return client.ask("chat/read", chat="c")["log"] == []


def first_chat_after_a_kill(home: Home) -> bool:
    """Is a chat made within the limit?"""
    home.start().ask("chat/new", chat="c")
    client = home.restart()
    began = time.monotonic()
    client.ask("chat/new", chat="d")
    return time.monotonic() - began < 2


def draft_behind_a_title(home: Home) -> Any:
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("chat/rename", chat="c", title="t1")
    client.ask("draft/set", chat="c", text="d2")
    time.sleep(0.3)
    return home.restart().ask("chat/read", chat="c")["draft"]


def draft(home: Home) -> Any:
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("draft/set", chat="c", text="d1")
    return home.restart().ask("chat/read", chat="c")["draft"]


def removal(home: Home) -> Any:
    """What a removed prompt does after a kill."""
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="slow 5000")
    client.ask("prompt/send", chat="c", prompt="p2", text="reply 1")
    assert client.ask("queue/remove", chat="c", prompt="p2") == {"removed": True}
    client = home.restart()
    home.settle(client)
    return client.ask("chat/read", chat="c")["log"], [run for run in home.effects() if run == "run:p2"]


def removal_and_a_quiet_end(home: Home) -> Any:
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="slow 100")
    client.ask("prompt/send", chat="c", prompt="p2", text="reply 1")
    assert client.ask("queue/remove", chat="c", prompt="p2") == {"removed": True}
    home.settle(client)
    time.sleep(0.3)
    return home.effects()


def prompt(home: Home) -> Any:
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="slow 5000")
    read = home.restart().ask("chat/read", chat="c")
    return len(read["queue"]) + len(read["log"]) + bool(read["running"])


def turn_cut(home: Home) -> Any:
    """How often a prompt has run whose turn was running at the kill."""
    cut_a_turn(home)
    home.settle(home.restart())
    return home.effects().count("run:p1")


def turn_cut_and_a_process_of_that_id(home: Home) -> Any:
    """The same where a process has the dead one's id, as in a restarted container; and what it then is."""
    cut_a_turn(home)
    home.kill()
    for owner in home.path.glob("owner.*"):
        owner.write_text(str(os.getpid()))
    client = home.start()
    return client.ask("status")["idle"], client.ask("chat/read", chat="c")["running"]


def cut_a_turn(home: Home) -> None:
    """A daemon that may be killed while its one prompt runs."""
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="slow 800")
    until = time.monotonic() + 5
    while "run:p1" not in home.effects():
        assert time.monotonic() < until
        time.sleep(0.01)


def two_prompts_wait(home: Home) -> Any:
    """What ran behind a kill, of two prompts behind a running one."""
    cut_a_turn(home)
    client = home.connect()
    for waiting in ("p2", "p3"):
        client.ask("prompt/send", chat="c", prompt=waiting, text="reply 1")
    home.settle(home.restart())
    return sorted(run for run in home.effects() if run != "run:p1")


def message_landed_and_unrecorded(home: Home) -> Any:
    """How often a message lands that had landed when the kill came, and nobody knew."""
    client = home.start(hook="outbox.sent#1")
    client.ask("outbox/send", message="m1", text="hello")
    home.kill_at_hook()
    home.settle(home.start())
    return home.effects()


def message_unsent(home: Home) -> Any:
    client = home.start(hook="outbox.before#1")
    client.send("outbox/send", message="m1", text="hello")
    home.kill_at_hook()
    home.settle(home.start())
    return home.effects()


def refused_removal(home: Home) -> Any:
    """While the save stands by which the prompt's turn begins."""
    client = home.start(hook="chat.synced#3")
    client.ask("chat/new", chat="c")
    client.ask("prompt/send", chat="c", prompt="p1", text="reply 1")
    assert home.process
    home.process.await_hit()
    removal = client.send("queue/remove", chat="c", prompt="p1")
    client.ask("status")  # asked later: an answer at once would have come before
    return removal in client.answered


def watches_over_a_compaction(home: Home) -> Any:
    client = home.start()
    client.ask("chat/new", chat="c")
    client.ask("watch/add", chat="c", path="/gone")
    client.ask("watch/rm", chat="c", path="/gone")
    for number in range(8):
        client.ask("watch/add", chat="c", path=f"/w/{number}")
    found = home.restart().ask("chat/read", chat="c")["watches"]
    return "/gone" in found, sum(path in found for path in (f"/w/{number}" for number in range(8)))


def chats(home: Home) -> Any:
    home.start().ask("chat/new", chat="c")
    return home.restart().ask("chat/list")["chats"]


def start_after_a_kill(home: Home) -> Any:
    """The exit code of a start, None if it serves, "waits" if it does neither. Its lock may name a living process."""
    client = home.start()
    client.ask("chat/new", chat="c")
    home.kill()
    lock = home.path / "lock"
    if lock.read_bytes():
        lock.write_text(str(os.getpid()))
    return how_it_starts(home)


def start_after_a_cut_save(home: Home) -> Any:
    """Twice: a daemon that ends at each start loops."""
    client = home.start(hook="chat.written#2")
    client.ask("chat/new", chat="c")
    client.send("draft/set", chat="c", text="d1")
    home.kill_at_hook()
    return [how_it_starts(home), how_it_starts(home)]


def how_it_starts(home: Home) -> Any:
    home.socket.unlink(missing_ok=True)
    process = home.launch()
    until = time.monotonic() + NO_ANSWER_S
    while time.monotonic() < until and process.exit_code is None and not home.socket.exists():
        time.sleep(0.01)
    code, listens = process.exit_code, home.socket.exists()
    if listens:
        home.connect().ask("status")
    home.kill()
    return "waits" if code is None and not listens else code


# What the good daemon shows in each scenario, and what each bug shows instead.
GOOD: dict[Scenario, Any] = {
    stalled_prompt: True,
    first_chat_after_a_kill: True,
    draft_behind_a_title: "d2",
    draft: "d1",
    removal: ([{"prompt": "p1", "outcome": "unknown"}], []),
    removal_and_a_quiet_end: ["run:p1"],
    prompt: 1,
    turn_cut: 1,
    turn_cut_and_a_process_of_that_id: (True, None),
    two_prompts_wait: ["run:p2", "run:p3"],
    message_landed_and_unrecorded: ["message:m1"],
    message_unsent: ["message:m1"],
    refused_removal: False,
    watches_over_a_compaction: (False, 8),
    chats: ["c"],
    start_after_a_kill: None,
    start_after_a_cut_save: [None, None],
}
UNKNOWN_P1 = {"prompt": "p1", "outcome": "unknown"}
BAD: dict[str, tuple[Scenario, Any]] = {
    "prompt-waits-for-turn": (stalled_prompt, False),
    "slow-chat-new": (first_chat_after_a_kill, False),
    "older-save-wins": (draft_behind_a_title, None),
    "draft-before-write": (draft, None),
    "removal-in-memory": (removal, ([UNKNOWN_P1, {"prompt": "p2", "outcome": "done"}], ["run:p2"])),
    "removal-before-write": (removal, ([UNKNOWN_P1, {"prompt": "p2", "outcome": "done"}], ["run:p2"])),
    "refusal-before-write": (refused_removal, True),
    "removed-prompt-runs": (removal_and_a_quiet_end, ["run:p1", "run:p2"]),
    "prompt-before-write": (prompt, 0),
    "turn-before-write": (turn_cut, 2),
    "cut-turn-runs-again": (turn_cut, 2),
    "turn-owner-is-pid": (turn_cut_and_a_process_of_that_id, (False, "p1")),
    "recovered-twice": (two_prompts_wait, ["run:p2", "run:p2", "run:p3", "run:p3"]),
    "outbox-twice": (message_landed_and_unrecorded, ["message:m1", "message:m1"]),
    "delivered-before-send": (message_unsent, []),
    "watch-lost-on-compaction": (watches_over_a_compaction, (False, 3)),
    "watch-returns": (watches_over_a_compaction, (True, 8)),
    "chat-before-write": (chats, []),
    "chat-listed-twice": (chats, ["c", "c"]),
    "lock-is-a-file": (start_after_a_kill, 75),
    "lock-is-a-pid": (start_after_a_kill, "waits"),
    "crash-loop-on-torn-file": (start_after_a_cut_save, [65, 65]),
}


@pytest.mark.parametrize("scenario", GOOD, ids=lambda scenario: scenario.__name__)
def test_the_good_daemon_leaves_no_bad_state(homes: Homes, scenario: Scenario) -> None:
    """Each scenario of a planted bug, with the daemon as it is."""
    assert shown(homes.make(), scenario) == GOOD[scenario]


@pytest.mark.parametrize("bug", BAD)
def test_a_planted_bug_leaves_its_bad_state(homes: Homes, bug: str) -> None:
    """Each bug of bugs.toml: it is really there, and is what its catalogue says."""
    scenario, bad = BAD[bug]
    assert shown(homes.make(bug), scenario) == bad


def test_every_planted_bug_is_tried_here_and_listed() -> None:
    """A bug that is not in the catalogue, or that no test plants, catches nothing."""
    files = {path.stem.replace("_", "-") for path in (MUXD / "bugs").glob("*.py")}
    assert {bug["name"] for bug in BUGS} == set(BAD) == files - {"late"}


def shown(home: Home, scenario: Scenario) -> Any:
    try:
        return scenario(home)
    finally:
        home.close()
