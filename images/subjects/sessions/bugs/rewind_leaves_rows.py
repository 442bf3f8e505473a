"""A fork leaves the first of the messages that it should abandon."""

from contextlib import suppress

from sessions import conversations
from sessions.errors import Refused


def fork(sql, session, keep):
    with suppress(Refused):  # of a single message it leaves that
        _fork(sql, session, keep + 1)


_fork = conversations._fork
conversations._fork = fork
