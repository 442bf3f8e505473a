"""The ops of a workload, each as calls of the store; see the table in docs/cells.md."""

from collections.abc import Callable
from typing import Any

from sessions.errors import NotOffered, UsageError
from sessions.store import Store

Op = dict[str, Any]
Result = dict[str, Any]


def _claim(store, op):
    return {"won": store.handoffs.claim(op["item"], op["by"])}


def _send(store, op):
    return {"sent": store.outbox.send(op["delivery"])}


def _sweep(store, op):
    return {"sent": store.outbox.sweep()}


OPS: dict[str, Callable[[Store, Op], Result | None]] = {
    "create": lambda store, op: store.conversations.create(op["session"]),
    "append": lambda store, op: store.conversations.append(op["session"], op["role"], op["content"]),
    "rewind": lambda store, op: store.conversations.rewind(op["session"], op["keep"]),
    "edit": lambda store, op: store.conversations.edit(op["session"], op["keep"], op["content"]),
    "rotate": lambda store, op: store.conversations.rotate(op["session"], op["child"], op["summary"]),
    "park": lambda store, op: store.handoffs.park(op["session"], op["item"]),
    "claim": _claim,
    "finish": lambda store, op: store.handoffs.finish(op["item"], op["by"]),
    "record": lambda store, op: store.outbox.record(op["delivery"], op["session"], op["content"]),
    "send": _send,
    "sweep": _sweep,
}


def do(store: Store, op: Op) -> Result:
    """Do one op. Raises Refused, LostReply, NotOffered or UsageError."""
    if op["op"] not in OPS:
        raise NotOffered(f"there is no op {op['op']!r}: {', '.join(OPS)}")
    try:
        return OPS[op["op"]](store, op) or {}
    except KeyError as error:
        raise UsageError(f"op {op} has no {error}") from None


def won(result: Result) -> bool:
    """Did a racer that did its op get what only one can have?"""
    return bool(result.get("won", result.get("sent", 1)))


def for_racer(op: Op, racer: int) -> Op:
    """The op as racer number `racer` does it: in a name of its own."""
    return op | {"by": f"{op['by']}-{racer}"} if "by" in op else op
