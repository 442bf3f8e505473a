"""The evidence of a good fuzz trial as data, so that a test can break one link of it and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

from lab.model import (
    ANSWER,
    END,
    SIGKILL,
    START,
    CrashPoint,
    Evidence,
    Fact,
    Finding,
    Hit,
    Json,
    Kind,
    Life,
    Limits,
    Look,
    Op,
    Phase,
    Process,
    Scenario,
    Trial,
)

PROMISES = {"drafts-durable": ("sigkill",), "prompts-once": ("sigkill",), "outbox-once": ("powercut",)}
AUDITS = ("machine-kept-up", "work-done")
LINE = "271 262 7:0 / /data rw,relatime - ext4 /dev/loop0 rw"
WRONG_LINE = "271 262 0:52 / /data rw,relatime - tmpfs tmpfs rw,size=65536k"
DIFFERS = Fact("step=2 op=draft/set draft of c1", "d2", None, "an acknowledged draft is lost")
LIVES = (
    Life(
        (Op(1, 1, "chat/new", {"chat": "c1"}), Op(2, 1, "draft/set", {"chat": "c1", "text": "d2"})),
        CrashPoint(1, "chat.synced", 4),
    ),
    Life((Op(3, 2, "pause", {"ms": 20}), Op(4, 2, "chat/list")), CrashPoint(2, ANSWER, after_ms=7)),
    Life((), CrashPoint(3, START, after_ms=30)),
    Life((Op(5, 3, "prompt/send", {"chat": "c1", "prompt": "p5", "text": "reply 1"}),), CrashPoint(4, END)),
    Life((Op(6, 1, "status"),), None),
)
PLACES = (Hit("chat.synced", 4), Hit(ANSWER, 1), Hit(START, 30), Hit(END, 1))


def scenario(**changes: Any) -> Scenario:
    return dataclasses.replace(Scenario(7, 12, "jsonrpc", 3, Limits(), LIVES), **changes)


def life(number: int, **changes: Any) -> Process:
    """One life of the daemon; all but the last are killed."""
    process = Process(
        number, ("muxd", "serve"), armed="chat.synced#4" if number == 1 else None, alive="psutil", mount=LINE
    )
    if number < len(LIVES):
        process = dataclasses.replace(
            process,
            hit=PLACES[number - 1],
            killed=True,
            exit_code=137,
            oom_killed=False,
            gone="psutil",
            fault=SIGKILL,
        )
    return dataclasses.replace(process, **changes)


def look(**differs: Fact) -> Look:
    """The verifier's look, with facts of every property; `differs` by property, with _ for -."""
    found = {name: Finding(9, differs.get(name.replace("-", "_"))) for name in (*PROMISES, *AUDITS, "settings-kept")}
    return Look("end", len(LIVES), found, LINE, history=12, ledger={"requests": [], "effects": []})


def invoke(ident: int, step: int, at_ms: float, life: int = 1) -> Json:
    """A request of that step, or `status` of a check."""
    op = next((op for part in LIVES for op in part.ops if op.step == step), Op(0, 0, "status"))
    return {"event": "invoke", "life": life, "id": ident, "step": op.step, "client": op.client, "op": op.op,
            "args": op.args, "at_ms": at_ms}  # fmt: skip


HISTORY: tuple[Json, ...] = (
    {"event": "up", "life": 1, "at_ms": 1.0},
    invoke(1, 1, 2.0),
    {"event": "ok", "id": 1, "result": {}, "at_ms": 5.0},
    invoke(2, 2, 6.0),
    {"event": "info", "id": 2, "why": "cut", "at_ms": 16.0},
    {"event": "killed", "life": 1, "at": str(PLACES[0])},
    {"event": "gone", "life": 1},
    invoke(3, 0, 300.0, life=5),
    {"event": "fail", "id": 3, "error": {"code": -32001, "message": "no such chat"}, "at_ms": 302.5},
    {"event": "settled", "idle": True},
    {"event": "check", "life": 5, "final": True, "observed": {"chats": ["c1"], "read": {}}, "at_ms": 310.0},
    {"event": "ledger", "ledger": {}},
)


def good(**changes: Any) -> Evidence:
    """Five lives of which four were killed, each in another way; all was seen."""
    evidence = Evidence(
        trial=Trial(412, Kind.POINT, "ext4", scenario()),
        nonce="c0ffee",
        mount={"filesystem": "ext4", "source": "/dev/loop0", "options": {}},
        phases=(Phase("volume", 0.0, 20.0), Phase("start", 20.0, 300.0), Phase("look:end", 600.0, 25.0)),
        processes=tuple(life(number) for number in range(1, len(LIVES) + 1)),
        looks=(look(),),
        history=HISTORY,
        ledger={"requests": [], "effects": []},
        verifier="fuzz 1",
        up_ms=(300.0, 250.0),
        starts=7,
    )
    return dataclasses.replace(evidence, **changes)


def with_life(number: int, **changes: Any) -> Evidence:
    """Good evidence with one life changed."""
    lives = (dataclasses.replace(p, **changes) if p.number == number else p for p in good().processes)
    return good(processes=tuple(lives))


def with_look(**changes: Any) -> Evidence:
    """Good evidence with another look."""
    return good(looks=(dataclasses.replace(look(), **changes),))
