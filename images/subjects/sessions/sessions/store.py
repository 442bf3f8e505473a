"""A session store: conversations, hand-offs and outbox over one database, and the recovery that a start begins with."""

import sqlite3

from sessions.conversations import Conversations
from sessions.database import DEFAULT_MODE, Database, Reach
from sessions.errors import CorruptError
from sessions.handoffs import Handoffs
from sessions.outbox import Outbox
from sessions.provider import Provider

VERSION = "1.0"
ORPHANS = """
UPDATE sessions SET closed = ''
WHERE closed = 'compacted' AND session NOT IN (SELECT parent FROM sessions WHERE parent IS NOT NULL)"""


class Store:
    """One opening of the store in `folder`; `journal_mode` is one of database.MODES."""

    def __init__(self, folder: str, provider: Provider, reach: Reach, journal_mode: str = DEFAULT_MODE):
        self._database = Database(folder, journal_mode, reach)
        self.conversations = Conversations(self._database)
        self.handoffs = Handoffs(self._database)
        self.outbox = Outbox(self._database, provider)

    @property
    def journal_mode(self) -> str:
        """The mode that SQLite really uses."""
        return self._database.journal_mode

    def recover(self) -> None:
        """What a start does with whatever a crash left: load everything, reap, redeliver. Other openings may live.

        Raises CorruptError if something that was persisted does not load.
        """
        self._database.reach("recovery.begun")
        self._check()
        with self._database.locked() as sql:
            self._reap(sql)
            self._database.reach("recovery.reaping")
        self._database.reach("recovery.reaped")
        self.outbox.sweep()
        self._database.reach("recovery.swept")

    def close(self) -> None:
        """End this opening; what it still claims is free at the next recovery."""
        self._database.close()

    def _check(self):
        try:
            (found,) = self._database.sql.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            raise CorruptError(f"sessions.db: {error}") from error
        if found != "ok":
            raise CorruptError(f"sessions.db: {found}")
        for session in self.conversations.names():
            self.conversations.load(session)

    def _reap(self, sql):
        """Free the claims of owners that are gone. Reopen a parent that an older version closed without its child."""
        for owner in self._database.gone(sql, "items"):
            sql.execute(
                "UPDATE items SET state = 'parked', holder = NULL, owner = NULL WHERE state = 'claimed' AND owner = ?",
                (owner,),
            )
        sql.execute(ORPHANS)
