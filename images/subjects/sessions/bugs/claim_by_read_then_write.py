"""Claims what was parked when it last read: the UPDATE does not say what it expects to find.

It reads when it opens, so that every racer has read before the first one writes: caught always, not by chance.
"""

from sessions.handoffs import Handoffs

_init = Handoffs.__init__


def init(self, database):
    _init(self, database)
    self.parked = {item for (item,) in database.sql.execute("SELECT item FROM items WHERE state = 'parked'")}


def park(self, session, item):
    _park(self, session, item)
    self.parked.add(item)


def claim(self, item, by):
    won = item in self.parked
    with self._database.transaction("claim") as sql:
        if won:
            sql.execute(
                "UPDATE items SET state = 'claimed', holder = ?, owner = ? WHERE item = ?",
                (by, self._database.owners.number, item),
            )
    return won


_park = Handoffs.park
Handoffs.__init__, Handoffs.park, Handoffs.claim = init, park, claim
