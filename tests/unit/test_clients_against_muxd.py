"""The clients and the session multiplexer daemon as real processes: what a trial does, without containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from clients_process import LIMITS, Clients, draft, op, scenario
from kernel_process import LedgerService
from muxd_process import Home

PATIENT = {**LIMITS, "timeout_ms": 5000, "settle_s": 10}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with ExitStack() as stack:
        service = LedgerService(tmp_path)
        stack.callback(service.end)
        home = Home(service, "t1")
        stack.callback(home.close)
        yield home


def test_two_lives_of_muxd_through_the_clients(home: Home) -> None:
    """Every part together: a kill at a hook with a request in flight, the check behind it, idle, a final check."""
    first = [op(1, 1, "chat/new", chat="c1"), draft(2, 1, "d2"), op(3, 1, "chat/new", chat="c2"), draft(4, 1, "d4")]
    second = [op(5, 2, "prompt/send", chat="c1", prompt="p5", text="reply 1"), op(6, 3, "chat/read", chat="c9")]
    clients = Clients(home.socket, scenario(first, second, limits=PATIENT))
    try:
        home.launch(hook="chat.synced#4")
        clients.say(do="life", life=1)
        home.kill_at_hook()
        clients.killed(1)
        home.launch()
        clients.say(do="life", life=2)
        clients.wait_for("done", life=2)
        clients.say(do="settle")
        final = clients.wait_for("check", final=True)["observed"]
    finally:
        clients.close()

    assert clients.lines("info") == [clients.ending(4)]
    assert clients.ending(4)["why"] == "cut"
    check = clients.wait_for("check", life=2)["observed"]
    assert check["chats"] == ["c1", "c2"]
    assert check["read"]["c1"]["draft"] in ("d2", "d4"), "the cut draft may have landed"
    assert clients.ending(6)["error"]["code"] == -32001
    assert clients.wait_for("settled")["idle"] is True
    assert final["read"]["c1"]["log"] == [{"prompt": "p5", "outcome": "done"}]
