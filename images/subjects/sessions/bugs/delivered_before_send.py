"""Marks a delivery as delivered before the provider has heard of it."""

from sessions.outbox import Outbox


def deliver(self, stage, delivery, content, marked):
    self._settle(delivery, "delivered")
    self._database.reach(f"{stage}.attempting")
    landed = self._provider.deliver(delivery, content, marked)
    self._database.reach(f"{stage}.sent")
    self._database.reach(f"{stage}.delivered")
    return landed


Outbox._deliver = deliver
