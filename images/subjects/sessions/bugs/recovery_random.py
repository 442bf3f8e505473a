"""Recovery leaves a note with a fresh random id in every open session."""

from sessions import conversations
from sessions.store import Store

_reap = Store._reap


def reap(self, sql):
    _reap(self, sql)
    for session, ident in sql.execute("SELECT session, hex(randomblob(8)) FROM sessions WHERE closed = ''").fetchall():
        conversations._append(sql, session, "system", f"resumed as {ident}")


Store._reap = reap
