"""Sessions and their messages: create, append, fork the history, and continue it in a child.

Nothing is ever deleted: what a fork leaves behind is kept, and marked with the branch that left it.
"""

from sessions.database import Database
from sessions.errors import CorruptError, Refused

APPEND = """
INSERT INTO messages (session, position, branch, role, content)
SELECT session, (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session = :session AND abandoned IS NULL),
       branch, :role, :content
FROM sessions WHERE session = :session"""
SUMMARY_ROLE = "system"


class Conversations:
    """The sessions of a store."""

    def __init__(self, database: Database):
        self._database = database

    def create(self, session: str) -> None:
        """A new, open session without messages. Raises Refused if there is one of that name."""
        with self._database.transaction("create") as sql:
            if _closed(sql, session) is not None:
                raise Refused(f"session {session} is there already")
            sql.execute("INSERT INTO sessions (session) VALUES (?)", (session,))

    def append(self, session: str, role: str, content: str) -> None:
        """One more message at the end of the active branch. Raises Refused unless the session is open."""
        with self._database.transaction("append") as sql:
            require_open(sql, session)
            _append(sql, session, role, content)

    def rewind(self, session: str, keep: int) -> None:
        """Fork the history behind its first `keep` messages. Raises Refused if it has no more than these."""
        with self._database.transaction("rewind") as sql:
            require_open(sql, session)
            _fork(sql, session, keep)

    def edit(self, session: str, keep: int, content: str) -> None:
        """Fork as `rewind` does, and put a user's message in the place of the first abandoned one."""
        with self._database.transaction("edit") as sql:
            require_open(sql, session)
            _fork(sql, session, keep)
            _append(sql, session, "user", content)

    def rotate(self, session: str, child: str, summary: str) -> None:
        """Compaction: close the session and continue it in a child that begins with the summary, in one step."""
        with self._database.transaction("rotate") as sql:
            require_open(sql, session)
            if _closed(sql, child) is not None:
                raise Refused(f"session {child} is there already")
            sql.execute("UPDATE sessions SET closed = 'compacted' WHERE session = ?", (session,))
            sql.execute("INSERT INTO sessions (session, parent) VALUES (?, ?)", (child, session))
            _append(sql, child, SUMMARY_ROLE, summary)

    def load(self, session: str) -> list[tuple[str, str]]:
        """The active branch as (role, content), in order. Raises CorruptError if it has a hole."""
        rows = self._database.sql.execute(
            "SELECT position, role, content FROM messages WHERE session = ? AND abandoned IS NULL ORDER BY position",
            (session,),
        ).fetchall()
        if [position for position, _, _ in rows] != list(range(len(rows))):
            raise CorruptError(f"session {session}: its messages are not numbered from 0 without a hole")
        return [(role, content) for _, role, content in rows]

    def names(self) -> list[str]:
        """Every session, open or closed, sorted."""
        return [name for (name,) in self._database.sql.execute("SELECT session FROM sessions ORDER BY session")]


def require_open(sql, session: str) -> None:
    """Raises Refused unless there is an open session of that name."""
    closed = _closed(sql, session)
    if closed is None:
        raise Refused(f"there is no session {session}")
    if closed:
        raise Refused(f"session {session} is closed: {closed}")


def _closed(sql, session):
    row = sql.execute("SELECT closed FROM sessions WHERE session = ?", (session,)).fetchone()
    return row[0] if row else None


def _append(sql, session, role, content):
    sql.execute(APPEND, {"session": session, "role": role, "content": content})


def _fork(sql, session, keep):
    (count,) = sql.execute(
        "SELECT count(*) FROM messages WHERE session = ? AND abandoned IS NULL", (session,)
    ).fetchone()
    if not 0 <= keep < count:
        raise Refused(f"session {session} has {count} messages: none is behind the first {keep}")
    sql.execute("UPDATE sessions SET branch = branch + 1 WHERE session = ?", (session,))
    sql.execute(
        "UPDATE messages SET abandoned = (SELECT branch FROM sessions WHERE session = :session) "
        "WHERE session = :session AND abandoned IS NULL AND position >= :keep",
        {"session": session, "keep": keep},
    )
