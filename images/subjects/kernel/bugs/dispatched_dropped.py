"""Recovery takes every dispatched call for failed, without asking the outside."""

from kernel import recovery


def settle_dispatched(journal, intents):
    for effect, row in list(journal.tables.intents.items()):
        if row["state"] == "dispatched":
            journal.intent(effect, "resolved_failed")


recovery.settle_dispatched = settle_dispatched
