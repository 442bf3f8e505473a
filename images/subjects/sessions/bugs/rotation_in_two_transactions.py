"""Closes the parent in one transaction and publishes its child in the next: an older version of the store."""

from sessions import conversations
from sessions.conversations import Conversations, require_open


def rotate(self, session, child, summary):
    with self._database.transaction("rotate") as sql:
        require_open(sql, session)
        sql.execute("UPDATE sessions SET closed = 'compacted' WHERE session = ?", (session,))
    with self._database.locked() as sql:
        sql.execute("INSERT INTO sessions (session, parent) VALUES (?, ?)", (child, session))
        conversations._append(sql, child, conversations.SUMMARY_ROLE, summary)


Conversations.rotate = rotate
