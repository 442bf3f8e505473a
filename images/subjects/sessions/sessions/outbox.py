"""The delivery outbox: what must reach the provider, whatever dies in between.

pending -> attempting -> delivered | failed. `attempting` is durable before the provider hears of it, and `delivered`
only after it has answered. So an attempt that is still open, and whose owner is gone or has lost the reply, may have
landed: it is sent again, marked as a possible duplicate. Who sends is decided by one UPDATE that names the state and
the owner that it expects.
"""

from sessions.conversations import require_open
from sessions.database import Database
from sessions.errors import LostReply, Refused
from sessions.provider import Provider

# What a dead opening left; and our own attempts, which are open only where a reply was lost.
LEFT = """
SELECT delivery, content, state, owner FROM deliveries
WHERE state = 'attempting' AND owner = :me OR state IN ('pending', 'attempting') AND owner IN ({gone})
ORDER BY delivery"""


class Outbox:
    """The deliveries of a store, and the provider that they go to."""

    def __init__(self, database: Database, provider: Provider):
        self._database = database
        self._provider = provider

    def record(self, delivery: str, session: str, content: str) -> None:
        """Owe a delivery. Raises Refused if that name is taken or the session is not open."""
        with self._database.transaction("record") as sql:
            require_open(sql, session)
            if sql.execute("SELECT 1 FROM deliveries WHERE delivery = ?", (delivery,)).fetchone():
                raise Refused(f"delivery {delivery} is recorded already")
            sql.execute(
                "INSERT INTO deliveries (delivery, session, content, owner, state) VALUES (?, ?, ?, ?, 'pending')",
                (delivery, session, content, self._database.owners.number),
            )

    def send(self, delivery: str) -> None:
        """Send a pending delivery. Raises Refused if it is not pending, or the provider declines; LostReply."""
        row = self._database.sql.execute(
            "SELECT content, state, owner FROM deliveries WHERE delivery = ?", (delivery,)
        ).fetchone()
        if row is None:
            raise Refused(f"there is no delivery {delivery}")
        content, state, owner = row
        self._database.reach("outbox.recorded")
        if state != "pending" or not self._take(delivery, state, owner):
            raise Refused(f"delivery {delivery} is not pending: it has been sent, or another is sending it")
        if not self._deliver("outbox", delivery, content, marked=False):
            raise Refused(f"the provider declined delivery {delivery}")

    def sweep(self) -> int:
        """Send what a dead gateway left, and what we lost the reply of; returns how many were sent by us.

        A reply that is lost again leaves the delivery to the next sweep.
        """
        sent = 0
        for delivery, content, state, owner in self._left():
            self._database.reach("redelivery.recorded")
            if not self._take(delivery, state, owner):
                continue
            sent += 1
            try:
                self._deliver("redelivery", delivery, content, marked=state == "attempting")
            except LostReply:
                continue
        return sent

    def _left(self):
        with self._database.locked() as sql:
            gone = ", ".join(str(number) for number in self._database.gone(sql, "deliveries"))
            return sql.execute(LEFT.format(gone=gone), {"me": self._database.owners.number}).fetchall()

    def _take(self, delivery, state, owner):
        """True for the one gateway whose expectation held."""
        with self._database.locked() as sql:
            taken = sql.execute(
                "UPDATE deliveries SET state = 'attempting', owner = ? WHERE delivery = ? AND state = ? AND owner = ?",
                (self._database.owners.number, delivery, state, owner),
            )
        return taken.rowcount == 1

    def _deliver(self, stage, delivery, content, marked):
        self._database.reach(f"{stage}.attempting")
        landed = self._provider.deliver(delivery, content, marked)
        self._database.reach(f"{stage}.sent")
        self._settle(delivery, "delivered" if landed else "failed")
        self._database.reach(f"{stage}.delivered")
        return landed

    def _settle(self, delivery, state):
        with self._database.locked() as sql:
            sql.execute(
                "UPDATE deliveries SET state = ? WHERE delivery = ? AND owner = ?",
                (state, delivery, self._database.owners.number),
            )
