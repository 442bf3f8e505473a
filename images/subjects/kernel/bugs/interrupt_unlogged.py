"""Recovery marks attempts as interrupted in the tables alone: the pages then say what the log does not."""

from kernel import recovery, states
from kernel.tables import ATTEMPTS


def interrupt_owned(journal):
    for key, row in journal.tables.attempts.items():
        if row["state"] in states.OWNED:
            journal.tables.put(ATTEMPTS, key, row | {"state": "interrupted"})


recovery.interrupt_owned = interrupt_owned
