"""Takes the idempotency key from where the attempt stands, not from what the effect is: a recovery's key is another."""

from kernel.intents import Intents
from kernel.tables import attempt_key


def _key(self, effect):
    tables = self._journal.tables
    task = tables.intents[effect]["task"]
    attempt = tables.cursor[str(task)]["try"]
    return f"{task}/{attempt}/{tables.attempts[attempt_key(task, attempt)]['lsn']}"


Intents._key = _key
