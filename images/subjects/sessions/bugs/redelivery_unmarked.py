"""Sends what may have landed again without a word that it may be a duplicate."""

from sessions.outbox import Outbox

_deliver = Outbox._deliver


def deliver(self, stage, delivery, content, marked):
    return _deliver(self, stage, delivery, content, marked=False)


Outbox._deliver = deliver
