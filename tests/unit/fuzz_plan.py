"""A small plan file and catalogue of hooks for the tests of the fuzz campaign."""

from __future__ import annotations

from typing import Any

from lab.plan.plan_file import PlanFile, plan_of
from lab.plan.schedule import Draw
from lab.subject.load import load
from lab.subject.spec import Bug, Hook

HOOKS = (
    Hook(name="chat.synced", meaning="a chat is durable", where="run"),
    Hook(name="outbox.sent", meaning="a message is on its way", where="run"),
    Hook(name="recovery.cut", meaning="a torn tail is cut", where="recovery"),
)
WEIGHTS = {
    "chat/new": 3.0,
    "draft/set": 10.0,
    "prompt/send": 12.0,
    "queue/remove": 6.0,
    "outbox/send": 6.0,
    "watch/add": 6.0,
    "watch/rm": 2.0,
    "chat/list": 2.0,
    "status": 2.0,
    "chat/rename": 2.0,
    "chat/set_mode": 1.0,
    "permission/decide": 2.0,
}
MUXD = plan_of(load("muxd"))
TEXTS = {"cue": {"reply {1-4}": 10.0, "ask": 3.0, "slow {2300-2800}": 1.0}}
STRIKES = {"hook": 10.0, "answer": 3.0, "invoke": 3.0, "start": 2.0, "end": 1.0}


def operations(weights: dict[str, float]) -> dict[str, Any]:
    """Those of muxd, as often as that."""
    return {name: MUXD.operations[name].model_copy(update={"weight": weight}) for name, weight in weights.items()}


def plan(**changes: Any) -> PlanFile:
    made: dict[str, Any] = {
        "adapter": "jsonrpc",
        "clients": 3,
        "kills": (3, 5),
        "ops": (20, 40),
        "pause_ms": (1, 150),
        "things": MUXD.things,
        "operations": operations(WEIGHTS),
        "texts": TEXTS,
        "strikes": STRIKES,
    }
    return PlanFile(**(made | changes))


def draw(seed: int = 7, storages: tuple[str, ...] = ("ext4", "tmpfs", "overlay")) -> Draw:
    return Draw(plan(kills=(1, 2), ops=(3, 5)), HOOKS, seed, storages)


def bug(name: str, within: int = 3, *, canary: bool = False) -> Bug:
    return Bug(name=name, meaning="it loses drafts", property="drafts-durable", within=within, canary=canary)
