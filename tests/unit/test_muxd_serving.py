"""What muxd answers while it lives: the operations of docs/fuzz.md, side by side, with the errors of JSON-RPC."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator

import pytest
from kernel_process import Record
from muxd_process import Client, Home, Homes, Refused


@pytest.fixture(scope="module")
def homes() -> Iterator[Homes]:
    made = Homes()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(homes: Homes) -> Iterator[Home]:
    """A daemon that several tests use, each with chats of its own."""
    home = homes.make()
    home.start()
    yield home
    home.close()


@pytest.fixture
def home(homes: Homes) -> Iterator[Home]:
    """A home whose daemon the test starts."""
    fresh = homes.make()
    yield fresh
    fresh.close()


@pytest.fixture
def client(shared: Home) -> Client:
    return shared.connect()


@pytest.fixture
def chat(client: Client, numbers: Callable[[], int]) -> str:
    name = f"c{numbers()}"
    client.ask("chat/new", chat=name)
    return name


@pytest.fixture(scope="module")
def numbers() -> Callable[[], int]:
    count = itertools.count(1)
    return lambda: next(count)


# The operations


def test_a_chat_reads_back_what_was_asked_for(client: Client, chat: str) -> None:
    """The whole of `chat/read`, by the contract of docs/fuzz.md."""
    for method, params in (
        ("draft/set", {"text": "d1"}), ("watch/add", {"path": "/w/2"}), ("watch/add", {"path": "/w/3"}),
        ("watch/add", {"path": "/w/2"}), ("watch/rm", {"path": "/w/3"}), ("watch/rm", {"path": "/w/9"}),
        ("chat/rename", {"title": "t7"}), ("chat/set_mode", {"mode": "o8"}), ("chat/mark_unread", {}),
    ):  # fmt: skip
        assert client.ask(method, chat=chat, **params) == {}
    assert client.ask("chat/read", chat=chat) == {
        "draft": "d1", "queue": [], "running": None, "log": [], "watches": ["/w/2"], "title": "t7", "mode": "o8",
        "unread": True, "decisions": {},
    }  # fmt: skip


def test_a_chat_that_is_made_again_is_the_same(client: Client, chat: str) -> None:
    """Also by two at once, of whom neither has an answer yet."""
    client.ask("draft/set", chat=chat, text="d1")
    assert client.ask("chat/new", chat=chat) == {}
    twice = [client.send("chat/new", chat=f"{chat}-new") for _ in range(2)]
    assert [client.answer(ident) for ident in twice] == [{}, {}]
    assert client.ask("chat/read", chat=chat)["draft"] == "d1"
    assert client.ask("chat/list")["chats"].count(f"{chat}-new") == 1


def test_a_prompt_is_accepted_behind_a_running_turn_at_once(shared: Home, client: Client, chat: str) -> None:
    """And one runs at a time, in the order in which they came."""
    client.ask("prompt/send", chat=chat, prompt="p1", text="slow 200")
    client.ask("prompt/send", chat=chat, prompt="p2", text="reply 1")
    client.ask("prompt/send", chat=chat, prompt="p3", text="reply 1")
    assert client.ask("chat/read", chat=chat)["log"] == []
    shared.settle(client)
    assert client.ask("chat/read", chat=chat)["log"] == [{"prompt": p, "outcome": "done"} for p in ("p1", "p2", "p3")]


def test_chats_run_side_by_side(shared: Home, client: Client, chat: str) -> None:
    """A turn of one chat keeps no other chat's waiting."""
    client.ask("chat/new", chat=f"{chat}-b")
    client.ask("prompt/send", chat=chat, prompt="side-1", text="slow 600")
    client.ask("prompt/send", chat=f"{chat}-b", prompt="side-2", text="reply 1")
    until = time.monotonic() + 5
    while not client.ask("chat/read", chat=f"{chat}-b")["log"]:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert client.ask("chat/read", chat=chat)["log"] == []


@pytest.mark.parametrize(("text", "outcome"), [
    ("reply 3", "done"), ("slow 200", "done"), ("ask", "done"), ("crash", "crashed"), ("hang", "hung"), ("hm", "done"),
])  # fmt: skip
def test_an_agent_ends_as_its_script_says(shared: Home, client: Client, chat: str, text: str, outcome: str) -> None:
    """Each outcome of docs/fuzz.md but the one of a crash; each run reaches the outside world once."""
    client.ask("prompt/send", chat=chat, prompt=f"{chat}-p", text=text)
    shared.settle(client)
    assert client.ask("chat/read", chat=chat)["log"] == [{"prompt": f"{chat}-p", "outcome": outcome}]
    assert shared.effects().count(f"run:{chat}-p") == 1


def test_a_decision_reaches_the_agent_that_asks_and_nobody_else(shared: Home, client: Client, chat: str) -> None:
    """-32002 before it asks, and when it has been answered."""
    decide = {"chat": chat, "prompt": "p1", "allow": True}
    assert refused(client, "permission/decide", **decide) == -32002
    client.ask("prompt/send", chat=chat, prompt="p1", text="ask")
    until = time.monotonic() + 5
    while True:
        try:
            client.ask("permission/decide", **decide)
            break
        except Refused as error:
            assert error.code == -32002 and time.monotonic() < until
    shared.settle(client)
    read = client.ask("chat/read", chat=chat)
    assert (read["decisions"], read["log"]) == ({"p1": True}, [{"prompt": "p1", "outcome": "done"}])
    assert refused(client, "permission/decide", **decide) == -32002


def test_a_prompt_that_is_sent_again_is_the_same_and_a_removed_one_stays_removed(
    shared: Home, client: Client, chat: str
) -> None:
    """A client that had no answer asks again: nothing may run twice, or come back, by that."""
    client.ask("prompt/send", chat=chat, prompt=f"{chat}-1", text="slow 100")
    for prompt in (f"{chat}-2", f"{chat}-2", f"{chat}-3"):
        client.ask("prompt/send", chat=chat, prompt=prompt, text="reply 1")
    assert client.ask("queue/list", chat=chat) == {"queue": [f"{chat}-2", f"{chat}-3"]}
    assert client.ask("queue/remove", chat=chat, prompt=f"{chat}-3") == {"removed": True}
    assert client.ask("queue/remove", chat=chat, prompt=f"{chat}-3") == {"removed": False}
    client.ask("prompt/send", chat=chat, prompt=f"{chat}-3", text="reply 1")
    shared.settle(client)
    client.ask("prompt/send", chat=chat, prompt=f"{chat}-1", text="reply 1")
    assert client.ask("status")["idle"]
    assert [entry["prompt"] for entry in client.ask("chat/read", chat=chat)["log"]] == [f"{chat}-1", f"{chat}-2"]


def test_a_prompt_clears_the_unread_mark(client: Client, chat: str) -> None:
    """Whoever sends one sees the chat."""
    client.ask("chat/mark_unread", chat=chat)
    client.ask("prompt/send", chat=chat, prompt="p1", text="reply 1")
    assert client.ask("chat/read", chat=chat)["unread"] is False


def test_a_message_whose_answer_was_lost_is_sent_again_and_lands_once(homes: Homes) -> None:
    """Its key is its own, so that the outside world knows it again."""
    home = homes.make(lose_reply=["message:m1"])
    try:
        client = home.start()
        for _ in range(2):
            client.ask("outbox/send", message="m1", text="hello")
        home.settle(client)
        assert home.effects() == ["message:m1"]
        assert [request["result"] for request in home.ledger()["requests"]] == ["landed", "deduped"]
    finally:
        home.close()


# Side by side


def test_a_request_that_stands_still_holds_nobody_elses(home: Home) -> None:
    """A save of one chat hangs: other chats, other connections, and the same connection go on."""
    client = home.start(hook="chat.synced#3")
    client.ask("chat/new", chat="c")
    client.ask("chat/new", chat="d")
    hanging = client.send("draft/set", chat="c", text="d1")
    assert home.process
    home.process.await_hit()
    for other in (client, home.connect()):
        assert other.ask("draft/set", chat="d", text="d2") == {}
        assert other.ask("watch/add", chat="c", path="/w") == {}
        assert other.ask("chat/new", chat=f"e{id(other)}") == {}
        assert other.ask("chat/read", chat="c")["draft"] is None, "nobody is shown what is not durable"
    assert hanging not in client.answered


def test_changes_that_wait_share_a_save(home: Home) -> None:
    """Group commit: a hundred drafts at once are a few writes, and the last one is there."""
    client = home.start(census="1")
    client.ask("chat/new", chat="c")
    for ident in [client.send("draft/set", chat="c", text=f"d{number}") for number in range(100)]:
        client.answer(ident)
    assert client.ask("chat/read", chat="c")["draft"] == "d99"
    saves = [record for record in home.kill().records if record.get("hit") == "chat.durable"]
    assert 2 <= len(saves) < 60


# Errors


@pytest.mark.parametrize(("line", "code"), [
    (b"{", -32700),
    (b"\xff", -32700),
    (b"NaN", -32700),
    (b"[" * 5000, -32700),
    (b"1", -32600),
    (b"[]", -32600),
    (b"{}", -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"status"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"status"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"status","params":7}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/burn"}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"__init__"}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/new"}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/new","params":["c"]}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/new","params":{"chat":"c","more":1}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/new","params":{"chat":""}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/new","params":{"chat":"\\ud800"}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/new","params":{"chat":7}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/new","params":{"chat":"' + b"c" * 257 + b'"}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"permission/decide","params":{"chat":"c","prompt":"p","allow":1}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"chat/read","params":{"chat":"nowhere"}}', -32001),
    (b'{"jsonrpc":"2.0","id":1,"method":"permission/decide","params":{"chat":"nowhere","prompt":"p","allow":true}}',
     -32001),
], ids=lambda value: value[-40:].decode(errors="replace") if isinstance(value, bytes) else str(value))  # fmt: skip
def test_a_malformed_request_is_answered_with_its_error(client: Client, line: bytes, code: int) -> None:
    """Each error of JSON-RPC 2.0 and of docs/fuzz.md; the daemon lives on."""
    client.send_line(line)
    answer = client.read_line()
    assert answer["error"]["code"] == code and answer["jsonrpc"] == "2.0"
    is_call = b'"id":1' in line
    assert answer["id"] == (1 if is_call else None)
    assert client.ask("status")


@pytest.mark.parametrize("method", [
    "chat/read", "draft/set", "prompt/send", "queue/list", "queue/remove", "watch/add", "watch/rm", "chat/rename",
    "chat/mark_unread", "chat/set_mode",
])  # fmt: skip
def test_no_operation_takes_a_chat_that_is_not_there(client: Client, method: str) -> None:
    """-32001, by each of them."""
    more: Record = {
        "draft/set": {"text": "d"}, "prompt/send": {"prompt": "p", "text": "x"}, "queue/remove": {"prompt": "p"},
        "watch/add": {"path": "/w"}, "watch/rm": {"path": "/w"}, "chat/rename": {"title": "t"},
        "chat/set_mode": {"mode": "o"},
    }.get(method, {})  # fmt: skip
    assert refused(client, method, chat="nowhere", **more) == -32001


def test_a_batch_is_answered_as_one_and_a_notification_not_at_all(client: Client) -> None:
    """JSON-RPC 2.0, sections 4.1 and 6."""
    status = {"jsonrpc": "2.0", "method": "status"}
    client.send_line(json.dumps(status).encode())
    client.send_line(json.dumps([status, status]).encode())
    client.send_line(json.dumps([status | {"id": "a"}, status, 1, status | {"id": 2, "method": "x"}]).encode())
    first, second, third = client.read_line()
    assert first["id"] == "a" and first["result"]
    assert (second["id"], second["error"]["code"]) == (None, -32600)
    assert (third["id"], third["error"]["code"]) == (2, -32601)


def test_a_line_without_end_is_refused_and_no_other_connection_suffers(shared: Home, client: Client) -> None:
    """Bounded: what a client sends is never kept whole before it is known to be short."""
    other = shared.connect()
    client.send_line(b'"' + b"x" * 70_000)
    assert client.read_line()["error"]["code"] == -32600
    assert client.read_line() is None
    assert other.ask("status")


def test_requests_beyond_the_outstanding_ones_wait_and_are_answered(client: Client, chat: str) -> None:
    """More than a connection may have at once: nothing is lost, nothing refused."""
    idents = [client.send("draft/set", chat=chat, text=f"d{number}") for number in range(300)]
    assert [client.answer(ident) for ident in idents] == [{}] * 300


def test_what_has_a_limit_says_so_and_goes_on(home: Home) -> None:
    """-32000: the 65th chat, the 257th waiting prompt, the 65th client."""
    client = home.start()
    for number in range(64):
        client.ask("chat/new", chat=f"c{number}")
    assert refused(client, "chat/new", chat="c64") == -32000
    assert client.ask("chat/new", chat="c63") == {}
    client.ask("prompt/send", chat="c0", prompt="first", text="slow 5000")
    sent = [client.send("prompt/send", chat="c0", prompt=f"p{number}", text="reply 1") for number in range(258)]
    codes = [code for ident in sent if (code := code_of(client, ident))]
    assert codes and set(codes) == {-32000}
    others = [home.connect() for _ in range(63)]
    assert all(other.ask("status") for other in others)
    assert home.connect().read_line()["error"]["code"] == -32000
    assert client.ask("status")["chats"] == 64


def refused(client: Client, method: str, **params: object) -> int | None:
    """The code of the error that it is answered with."""
    return code_of(client, client.send(method, **params))


def code_of(client: Client, ident: int) -> int | None:
    try:
        client.answer(ident)
    except Refused as error:
        return int(error.code)
    return None
