"""Parked hand-offs: work that waits for exactly one taker.

parked -> claimed -> done; and claimed -> parked, by a recovery that found the owner gone. A claim is one UPDATE that
says what it expects to find: of any number of racers, SQLite lets one find it.
"""

from sessions.conversations import require_open
from sessions.database import Database
from sessions.errors import Refused


class Handoffs:
    """The parked items of a store."""

    def __init__(self, database: Database):
        self._database = database

    def park(self, session: str, item: str) -> None:
        """Park an item of a session. Raises Refused if it has been parked before, or the session is not open."""
        with self._database.transaction("park") as sql:
            require_open(sql, session)
            if sql.execute("SELECT 1 FROM items WHERE item = ?", (item,)).fetchone():
                raise Refused(f"item {item} has been parked before")
            sql.execute("INSERT INTO items (item, session, state) VALUES (?, ?, 'parked')", (item, session))

    def claim(self, item: str, by: str) -> bool:
        """Take a parked item in the name of `by`; False if it is not there to be taken. Held while we live."""
        with self._database.transaction("claim") as sql:
            taken = sql.execute(
                "UPDATE items SET state = 'claimed', holder = ?, owner = ? WHERE item = ? AND state = 'parked'",
                (by, self._database.owners.number, item),
            )
        return taken.rowcount == 1

    def finish(self, item: str, by: str) -> None:
        """The item is done, for good. Raises Refused unless it is claimed in that name, by this opening."""
        with self._database.transaction("finish") as sql:
            done = sql.execute(
                "UPDATE items SET state = 'done' WHERE item = ? AND state = 'claimed' AND holder = ? AND owner = ?",
                (item, by, self._database.owners.number),
            )
            if done.rowcount != 1:
                raise Refused(f"item {item} is not claimed by {by} here")
