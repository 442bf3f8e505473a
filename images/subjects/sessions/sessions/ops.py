"""The ops of a workload, each as calls of the store; see the table in docs/cells.md."""

from collections.abc import Callable

from sessions.errors import NotOffered, UsageError
from sessions.store import Store

Op = dict
Result = dict

RACE = "race_processes"  # the driver's own: it needs more processes than one
FIELDS: dict[str, tuple[str, ...]] = {
    "create": ("session",),
    "append": ("session", "role", "content"),
    "rewind": ("session", "keep"),
    "edit": ("session", "keep", "content"),
    "rotate": ("session", "child", "summary"),
    "park": ("session", "item"),
    "claim": ("item", "by"),
    "finish": ("item", "by"),
    "record": ("delivery", "session", "content"),
    "send": ("delivery",),
    "sweep": (),
    RACE: ("racers", "do"),
}
CALLS: dict[str, Callable] = {
    "create": lambda store, **fields: store.conversations.create(**fields),
    "append": lambda store, **fields: store.conversations.append(**fields),
    "rewind": lambda store, **fields: store.conversations.rewind(**fields),
    "edit": lambda store, **fields: store.conversations.edit(**fields),
    "rotate": lambda store, **fields: store.conversations.rotate(**fields),
    "park": lambda store, **fields: store.handoffs.park(**fields),
    "claim": lambda store, **fields: {"won": store.handoffs.claim(**fields)},
    "finish": lambda store, **fields: store.handoffs.finish(**fields),
    "record": lambda store, **fields: store.outbox.record(**fields),
    "send": lambda store, **fields: store.outbox.send(**fields),
    "sweep": lambda store: {"sent": store.outbox.sweep()},
}


def check(op: Op) -> None:
    """Raises NotOffered for an op that there is not, UsageError for one without its fields."""
    name = op["op"]
    if name not in FIELDS:
        raise NotOffered(f"there is no op {name!r}: this store offers {', '.join(FIELDS)}")
    missing = [field for field in FIELDS[name] if field not in op]
    if missing:
        raise UsageError(f"op {op} has no {', '.join(missing)}")
    if name == RACE:
        check(op["do"])


def do(store: Store, op: Op) -> Result:
    """Do one op. Raises Refused or LostReply."""
    name = op["op"]
    return CALLS[name](store, **{field: op[field] for field in FIELDS[name]}) or {}


def won(result: Result) -> bool:
    """Did a racer that did its op get what only one can have? A sweep has won if it sent something."""
    return bool(result.get("won", result.get("sent", 1)))


def for_racer(op: Op, racer: int) -> Op:
    """The op as racer number `racer` does it: in a name of its own."""
    return op | {"by": f"{op['by']}-{racer}"} if "by" in op else op
