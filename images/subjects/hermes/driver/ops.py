"""The ops of docs/cells.md as calls of the package's own API; nothing is written past it.

What the package hands over is a whole session of its command line, one hand-off a session at a time. So an item is such
a session, of the source `cli`; the workload's sessions are a gateway's, of the source `telegram`.
"""

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator

from driver import gateway


class NotOffered(Exception):
    """The store has no such op, or refuses the setting."""


# How the package says no to an op before it has changed anything: no such session, no such message. Else it is a crash.
REFUSALS = {
    "append": sqlite3.IntegrityError,
    "rewind": (IndexError, ValueError),
    "edit": sqlite3.IntegrityError,
    "park": sqlite3.IntegrityError,
}


def expand(ops: Iterable[dict]) -> Iterator[dict]:
    """Each op as it is done: `repeat` is N of them, with `{n}` in every text counting from 1."""
    for op in ops:
        body = {key: value for key, value in op.items() if key != "repeat"}
        if body == op:
            yield op
            continue
        for n in range(1, op["repeat"] + 1):
            yield {key: v.replace("{n}", str(n)) if isinstance(v, str) else v for key, v in body.items()}


def _handed_over(item):
    """The session that is the item; the workload may use one name for both an item and a session."""
    return f"item:{item}"


class Ops:
    """The ops on one open store. Each returns (type, result) of its answer."""

    def __init__(self, store, provider, records, workload: dict, fork_server):
        self._store = store
        self._claimed: set[str] = set()
        self._fork_server = fork_server
        self.provider = provider
        self._records = records
        known = expand([*workload["work"], *workload["resume"]])
        # A gateway has the text of a response in its hands when it records and sends it; so has the driver.
        self._content_of = {op["delivery"]: op["content"] for op in known if op["op"] == "record"}

    def do(self, op: dict) -> tuple[str, dict]:
        """Do one op, written to the history before and after."""
        call: Callable[[dict], tuple[str, dict]] | None = getattr(self, f"_{op['op']}", None)
        if call is None:
            raise NotOffered(f"op {op['op']}")
        number = self._records.invoke(op)
        try:
            answer, result = call(op)
        except REFUSALS.get(op["op"], ()) as error:
            answer, result = "fail", {"why": str(error)}
        self._records.answer(op, answer, number, **result)
        return answer, result

    def _create(self, op):
        self._store.create_session(op["session"], gateway.PLATFORM)
        return "ok", {}

    def _append(self, op):
        self._store.append_message(op["session"], op["role"], op["content"])
        return "ok", {}

    def _rewind(self, op):
        """`/undo` of the command line and of the gateway (gateway/session.py, rewind_session)."""
        first_abandoned = self._store.get_messages(op["session"])[op["keep"]]
        self._store.rewind_to_message(op["session"], first_abandoned["id"])
        return "ok", {}

    def _edit(self, op):
        """In one transaction, as `replace_messages` promises for "transcript-rewrite flows such as /retry, /undo"."""
        kept = self._store.get_messages(op["session"])[: op["keep"]]
        edited = {"role": "user", "content": op["content"]}
        self._store.replace_messages(op["session"], [*kept, edited], active_only=True)
        return "ok", {}

    def _rotate(self, op):
        """Compaction with `compression.in_place: false` (agent/conversation_compression.py, compress_context)."""
        parent, child, holder = op["session"], op["child"], f"pid={os.getpid()}:nonce={uuid.uuid4().hex[:8]}"
        if not self._store.try_acquire_compression_lock(parent, holder):
            return "fail", {"why": "the compression lock is held"}
        try:
            self._store.end_session(parent, "compression")
            self._records.reach("rotate.closed")
            self._store.create_session(child, gateway.PLATFORM, parent_session_id=parent)
            self._records.reach("rotate.created")
            self._store.update_system_prompt(child, "")
            self._store.replace_messages(child, [{"role": "user", "content": op["summary"]}])
        finally:
            self._store.release_compression_lock(parent, holder)
        return "ok", {}

    def _park(self, op):
        """`/handoff` of the command line (hermes_cli/cli_commands_mixin.py, _handle_handoff_command)."""
        self._store.create_session(_handed_over(op["item"]), "cli", parent_session_id=op["session"])
        if not self._store.request_handoff(_handed_over(op["item"]), gateway.PLATFORM):
            return "fail", {"why": "its hand-off is in flight"}
        return "ok", {}

    def _claim(self, op):
        """The claim of the gateway's watcher (gateway/run.py, _handoff_watcher). A claim has no owner in this store."""
        won = self._store.claim_handoff(_handed_over(op["item"]))
        if won:
            self._claimed.add(op["item"])
            self._records.reach("claim.won")
        return "ok", {"won": won}

    def _finish(self, op):
        """The package completes any hand-off that it is told to; its gateway tells it of those it has claimed."""
        if op["item"] not in self._claimed:
            return "fail", {"why": "this process has not claimed it"}
        self._store.complete_handoff(_handed_over(op["item"]))
        return "ok", {}

    def _record(self, op):
        gateway.record(op["delivery"], op["session"], op["content"])
        self._records.reach("outbox.recorded")
        return "ok", {}

    def _send(self, op):
        error = gateway.deliver(self.provider, self._records, op["delivery"], self._content_of[op["delivery"]])
        return ("info", {"why": error}) if error else ("ok", {})

    def _sweep(self, op):
        """A gateway that boots: it claims the home first, and where another one runs it sweeps nothing."""
        try:
            gateway.claim_home()
        except gateway.AnotherGateway as refused:
            return "ok", {"sent": 0, "why": str(refused)}
        return "ok", {"sent": gateway.redeliver(self.provider, self._records)}

    def _race_processes(self, op):
        return "ok", {"exits": self._fork_server.race(op["racers"], op["do"])}
