"""muxd is killed at each hook of its catalogue, in a run and in the recovery of another kill; it keeps its promises."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterator

import pytest
from kernel_process import Record
from muxd_process import MUXD, Client, Home, Homes

HOOKS: list[Record] = tomllib.loads((MUXD / "hooks.toml").read_text())["hook"]
# Which hit of a hook is the interesting one: in the middle, where something has been promised already.
OCCURRENCES = {"rpc": 8, "create": 2, "chat": 6, "journal": 5, "compact": 2}
ONLY_ONE = "compact.old-removed"  # the first generation replaces none
# A second kill in the recovery from a first: at each hook of a start, and behind each kill that a recovery repairs.
SECOND = [
    *(("removal.durable", hook["name"]) for hook in HOOKS if hook["name"].startswith("start.")),
    *((first, hook["name"]) for hook in HOOKS for first in hook.get("after", [])),
]
WATCHES = [f"/w/{number}" for number in range(42)]  # more than a generation of the journal holds
SCRIPT: list[tuple[str, Record]] = [
    ("chat/new", {"chat": "c"}),
    ("chat/new", {"chat": "d"}),
    ("draft/set", {"chat": "c", "text": "d3"}),
    ("prompt/send", {"chat": "c", "prompt": "p4", "text": "slow 100"}),
    ("prompt/send", {"chat": "c", "prompt": "p5", "text": "reply 2"}),
    ("prompt/send", {"chat": "c", "prompt": "p6", "text": "reply 2"}),
    ("queue/remove", {"chat": "c", "prompt": "p6"}),
    ("outbox/send", {"message": "m8", "text": "hello"}),
    *(("watch/add", {"chat": "d", "path": path}) for path in WATCHES),
    ("chat/rename", {"chat": "d", "title": "t50"}),
    ("outbox/send", {"message": "m51", "text": "again"}),
]


@pytest.fixture(scope="module")
def homes() -> Iterator[Homes]:
    made = Homes()
    yield made
    made.close()


@pytest.mark.parametrize("hook", [hook["name"] for hook in HOOKS if hook["where"] == "run"])
def test_a_kill_at_any_hook_of_a_run_breaks_no_promise(homes: Homes, hook: str) -> None:
    """The fuzz campaign's own first question, without its chance: what each place leaves is recovered from."""
    home = homes.make()
    try:
        answered = work_until(home, hook)
        check(home, home.start(), answered)
    finally:
        home.close()


@pytest.mark.parametrize(("first", "second"), SECOND)
def test_a_kill_in_a_recovery_breaks_no_promise(homes: Homes, first: str, second: str) -> None:
    """A kill may hit the recovery from the kill before, and leaves what that one has half done."""
    home = homes.make()
    try:
        answered = work_until(home, first)
        home.launch(hook=f"{second}#1")
        home.kill_at_hook()
        check(home, home.start(), answered)
    finally:
        home.close()


def test_every_hook_that_is_reached_is_listed_and_each_one_of_a_run_is_reached(homes: Homes) -> None:
    """A hook that is not in the catalogue is killed at by nobody."""
    home = homes.make()
    try:
        client = home.start(census="1")
        for method, params in SCRIPT:
            client.ask(method, **params)
        home.settle(client)
        hits = {record["hit"] for record in home.kill().records}
    finally:
        home.close()
    assert hits == {hook["name"] for hook in HOOKS if hook["where"] == "run"}


def work_until(home: Home, hook: str) -> list[Record]:
    """Do the script until the daemon stands at the hook, and kill it there. Returns what was answered."""
    answered: list[Record] = []
    occurrence = 1 if hook == ONLY_ONE else OCCURRENCES.get(hook.split(".")[0], 1)
    process = home.launch(hook=f"{hook}#{occurrence}")
    worker = threading.Thread(target=work, args=(home, answered))
    if not hook.startswith("start."):  # nobody is served there
        worker.start()
    process.await_hit()
    home.kill()
    if worker.ident:
        worker.join()
    return answered


def work(home: Home, answered: list[Record]) -> None:
    try:
        client = home.connect()
        for method, params in SCRIPT:
            answered.append({"op": method, **params, "result": client.ask(method, **params)})
    except (OSError, ValueError, AssertionError):
        return  # cut by the kill


def check(home: Home, client: Client, answered: list[Record]) -> None:
    """What was answered holds, at once and when all has run."""
    promised = Promised(answered)
    check_chats(client, promised)
    check_outside(home, promised)
    home.settle(client)
    check_chats(client, promised)
    check_outside(home, promised)
    assert {f"message:{message}" for message in promised.messages} <= set(home.effects())
    for chat in client.ask("chat/list")["chats"]:
        read = client.ask("chat/read", chat=chat)
        assert (read["queue"], read["running"]) == ([], None)


class Promised:
    """What the answers of a life promise."""

    def __init__(self, answered: list[Record]) -> None:
        def values(method: str, param: str) -> set[str]:
            return {op[param] for op in answered if op["op"] == method}

        self.chats = values("chat/new", "chat")
        self.drafts = values("draft/set", "text") or {None, "d3"}  # without an answer it may be there, or not
        self.removed = {op["prompt"] for op in answered if op["op"] == "queue/remove" and op["result"]["removed"]}
        self.prompts = values("prompt/send", "prompt") - {"p6"}  # whose removal may be cut
        self.messages = values("outbox/send", "message")
        self.watches = values("watch/add", "path")


def check_chats(client: Client, promised: Promised) -> None:
    chats = client.ask("chat/list")["chats"]
    assert len(chats) == len(set(chats)) and set(chats) >= promised.chats
    for chat in chats:
        read = client.ask("chat/read", chat=chat)
        places = [*read["queue"], read["running"], *(entry["prompt"] for entry in read["log"])]
        if chat == "c":
            assert read["draft"] in promised.drafts
            assert set(places) >= promised.prompts and not promised.removed & set(places)
        else:
            assert set(read["watches"]) >= promised.watches
        assert len(places) == len(set(places))


def check_outside(home: Home, promised: Promised) -> None:
    effects = home.effects()
    assert len(effects) == len(set(effects))
    assert not {f"run:{prompt}" for prompt in promised.removed} & set(effects)
