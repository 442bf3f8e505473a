"""Sends the request, and records that it is dispatched afterwards."""

from kernel.intents import Intents
from kernel.ledger import Connection


def dispatch(self, effect):
    connection = Connection(self._path)
    connection.request(self._request(effect) | {"token": self._journal.log.next_lsn})
    self._reach("intent.sent", self._tags(effect))
    self._record_dispatch(effect)
    self._in_flight[effect] = connection


Intents.dispatch = dispatch
