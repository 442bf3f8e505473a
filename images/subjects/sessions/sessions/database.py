"""The SQLite file: schema, journal mode, transactions, and the owner that this opening is.

Every change of the store is one `transaction`, whose three hooks are the places where a crash would leave something
else behind. `synchronous` is FULL: what has been committed is durable.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sessions.errors import NotOffered
from sessions.owners import Owners

DEFAULT_MODE = "wal"
MODES = ("delete", "wal", "truncate", "persist", "memory", "off")
# Another process may hold the write lock for one transaction at a time, of a few ms; longer than this is a hang.
BUSY_S = 10.0

SCHEMA = (
    # `branch` counts the forks of a session's history: the number of its active branch.
    """CREATE TABLE IF NOT EXISTS sessions (
        session TEXT PRIMARY KEY, parent TEXT REFERENCES sessions, branch INTEGER NOT NULL DEFAULT 0,
        closed TEXT NOT NULL DEFAULT '' CHECK (closed IN ('', 'compacted'))) STRICT, WITHOUT ROWID""",
    # A message is written on one branch and never changed; `abandoned` is the branch that left it behind.
    """CREATE TABLE IF NOT EXISTS messages (
        session TEXT NOT NULL REFERENCES sessions, position INTEGER NOT NULL, branch INTEGER NOT NULL,
        role TEXT NOT NULL, content TEXT NOT NULL, abandoned INTEGER,
        PRIMARY KEY (session, position, branch)) STRICT, WITHOUT ROWID""",
    "CREATE UNIQUE INDEX IF NOT EXISTS active ON messages (session, position) WHERE abandoned IS NULL",
    """CREATE TABLE IF NOT EXISTS items (
        item TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions, holder TEXT, owner INTEGER,
        state TEXT NOT NULL CHECK (state IN ('parked', 'claimed', 'done'))) STRICT, WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS deliveries (
        delivery TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions, content TEXT NOT NULL,
        owner INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'attempting', 'delivered', 'failed'))) STRICT, WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS openings (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL) STRICT",
    "INSERT INTO openings VALUES (1, 0) ON CONFLICT DO NOTHING",
)

Reach = Callable[[str], None]


class Database:
    """One opening of `sessions.db` in `folder`. `reach` is told each hook that is passed.

    Raises NotOffered if SQLite does not take the journal mode here.
    """

    def __init__(self, folder: str, journal_mode: str, reach: Reach):
        self.reach = reach
        self.owners = Owners(f"{folder}/owners.lock")
        self.owners.begin_opening()
        self.sql = sqlite3.connect(f"{folder}/sessions.db", timeout=BUSY_S, isolation_level=None)
        self.journal_mode = self._set_mode(journal_mode)
        self.sql.execute("PRAGMA synchronous = FULL")
        self.sql.execute("PRAGMA foreign_keys = ON")
        self._register()
        self.owners.end_opening()
        reach("open.registered")

    @contextmanager
    def transaction(self, op: str) -> Iterator[sqlite3.Connection]:
        """One change, all of it or nothing. A block that refuses does so before its first write."""
        self.reach(f"{op}.before")
        with self.locked() as sql:
            yield sql
            self.reach(f"{op}.written")
        self.reach(f"{op}.durable")

    @contextmanager
    def locked(self) -> Iterator[sqlite3.Connection]:
        """A write transaction without hooks: nobody else writes meanwhile."""
        self.sql.execute("BEGIN IMMEDIATE")
        try:
            yield self.sql
            self.sql.execute("COMMIT")
        except BaseException:
            if self.sql.in_transaction:
                self.sql.execute("ROLLBACK")
            raise

    def gone(self, sql: sqlite3.Connection, table: str) -> list[int]:
        """The owners named in `table` that have ended. Inside a write transaction only, see `Owners.is_gone`."""
        rows = sql.execute(f"SELECT DISTINCT owner FROM {table} WHERE owner IS NOT NULL ORDER BY owner").fetchall()
        return [owner for (owner,) in rows if self.owners.is_gone(owner)]

    def close(self) -> None:
        """End this opening: its owner is gone from now on."""
        self.sql.close()
        self.owners.close()

    def _set_mode(self, mode):
        (found,) = self.sql.execute(f"PRAGMA journal_mode = {mode}").fetchone()
        if found != mode:
            raise NotOffered(
                f"journal mode {mode} was asked for, and SQLite {sqlite3.sqlite_version} uses {found} here"
            )
        return found

    def _register(self):
        with self.locked() as sql:
            for statement in SCHEMA:
                sql.execute(statement)
            (number,) = sql.execute("UPDATE openings SET last = last + 1 RETURNING last").fetchone()
            self.owners.become(number)
