"""What happens to an intent between `proposed` and its outcome: dispatch, reply, and settling when no reply will come.

A lost reply and a crash are the same thing to an intent: it is dispatched and nobody knows more. So both are settled by
the same code, by the effect's class.
"""

from kernel.codec import canonical
from kernel.errors import LedgerError
from kernel.journal import Journal
from kernel.ledger import Connection

MOST_LOST_REPLIES = 8  # in a row for one effect; a ledger that goes on like this is not there


def identity(task: int, step: int, tool: str, args: dict) -> str:
    """An effect's identity: what it is, never which attempt asked for it. It is the idempotency key as well."""
    return f"{task}/{step}/{tool}/{canonical(args)}"


class Intents:
    """The live end of the intents table: requests on their way to the ledger at `path`."""

    def __init__(self, journal: Journal, path: str):
        self._journal = journal
        self._reach = journal.hooks.reach
        self._path = path
        self._in_flight: dict[str, Connection] = {}

    def dispatch(self, effect: str) -> None:
        """Record that it is dispatched, then send it. Returns with the reply still to come: `collect` reads it."""
        self._record_dispatch(effect)
        self._in_flight[effect] = self._send(effect)

    def collect(self, effect: str) -> bool:
        """Wait for the reply to a dispatched effect and record its outcome. False if no reply will ever come."""
        reply = self._reply(self._in_flight.pop(effect))
        if reply is not None:
            self._record_outcome(effect, reply)
        return reply is not None

    def settle(self, effect: str, reach) -> None:
        """Bring a dispatched intent whose reply will never come to its outcome, by its class.

        `reach(hook, tags)` is called behind the fence and behind the receipt.
        """
        ways = {"pure": self._send_again, "keyed": self._send_again, "once": self._ask_then_send}
        way = ways[self._class(effect)]
        for _ in range(MOST_LOST_REPLIES):
            reply = way(effect, reach)
            if reply is not None:
                self._record_outcome(effect, reply)
                return
        raise LedgerError(f"the effect ledger closed {MOST_LOST_REPLIES} connections without a reply for {effect}")

    def finish(self, effect: str) -> None:
        """Give an applied intent's outcome to its attempt."""
        self._journal.intent(effect, "resolved_ok")

    def _send_again(self, effect, reach):
        return self._reply(self._send(effect))

    def _ask_then_send(self, effect, reach):
        """Behind a fence no earlier request can land any more; so no receipt means that it never will."""
        answer = self._receipt(effect, reach)
        if answer["declined"]:
            return {"ok": False, "why": "declined"}
        if answer["receipt"] is not None:
            return {"ok": True, "receipt": answer["receipt"]}
        self._journal.intent(effect, "proposed")
        self._record_dispatch(effect)
        return self._reply(self._send(effect))

    def _receipt(self, effect, reach):
        connection = Connection(self._path)
        self._fence(connection, effect)
        reach("recovery.fenced", self._tags(effect))
        answer = connection.ask({"do": "receipt", "effect": effect}, "receipt", "declined")
        reach("recovery.receipt_read", self._tags(effect))
        connection.close()
        return answer

    def _fence(self, connection, effect):
        connection.ask({"do": "fence", "effect": effect, "token": self._journal.log.next_lsn})

    def _record_dispatch(self, effect):
        self._journal.intent(effect, "dispatched")
        self._reach("intent.durable_unsent", self._tags(effect))

    def _send(self, effect):
        connection = Connection(self._path)
        connection.request(self._request(effect))
        self._reach("intent.sent", self._tags(effect))
        return connection

    def _request(self, effect):
        row = self._journal.tables.intents[effect]
        request = {name: row[name] for name in ("class", "token", "tool", "args")}
        return request | {"do": "send", "effect": effect, "key": self._key(effect)}

    def _key(self, effect):
        return effect

    def _reply(self, connection):
        reply = connection.reply()
        connection.close()
        return reply

    def _record_outcome(self, effect, reply):
        if reply.get("ok") is True and "receipt" in reply:
            self._reach("intent.landed_unrecorded", self._tags(effect))
            self._journal.intent(effect, "applied", receipt=reply["receipt"])
            self.finish(effect)
        elif reply.get("why") == "declined":
            self._journal.intent(effect, "resolved_failed")
        else:
            raise LedgerError(f"the effect ledger answered {reply} to a send of {effect}")

    def _class(self, effect):
        return self._journal.tables.intents[effect]["class"]

    def _tags(self, effect):
        return {"class": self._class(effect)}
