"""Commits the first half of a message, and the whole of it in a second transaction."""

from sessions import conversations
from sessions.conversations import Conversations, require_open


def append(self, session, role, content):
    with self._database.transaction("append") as sql:
        require_open(sql, session)
        conversations._append(sql, session, role, content[: len(content) // 2])
    with self._database.locked() as sql:
        sql.execute(
            "UPDATE messages SET content = ? WHERE session = ? AND abandoned IS NULL AND position = "
            "(SELECT max(position) FROM messages WHERE session = ? AND abandoned IS NULL)",
            (content, session, session),
        )


Conversations.append = append
