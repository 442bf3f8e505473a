"""Recovery takes the last abandoned message of each session back, at the end of the active branch."""

from sessions.store import Store

_reap = Store._reap

TAKE_BACK = """
UPDATE messages SET abandoned = NULL,
    branch = (SELECT branch FROM sessions s WHERE s.session = messages.session),
    position = (SELECT count(*) FROM messages m WHERE m.session = messages.session AND m.abandoned IS NULL)
WHERE (session, position, branch) IN (SELECT session, max(position), branch FROM messages
    WHERE abandoned IS NOT NULL GROUP BY session)"""


def reap(self, sql):
    _reap(self, sql)
    sql.execute(TAKE_BACK)


Store._reap = reap
