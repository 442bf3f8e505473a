"""From whatever a crash left to a state in which nothing is owned by the dead and nothing is dispatched.

Every step either only reads, or goes through the journal as any other change does: so a crash within a recovery is just
another crash, and the next recovery begins from what this one made durable.
"""

from sys import stderr

from kernel import log, states, store
from kernel.intents import Intents
from kernel.journal import Journal
from kernel.pager import Pager


def load(folder: str, hooks, segment_bytes: int, checkpoint_every: int) -> Journal:
    """The newest whole root and the log behind it, the torn tail cut. Raises CorruptError for any other damage."""
    pager = Pager(store.pages_path(folder), hooks)
    pager.choose_root()
    hooks.reach("recovery.root_chosen")
    tables = pager.load()
    replay = log.read(store.log_folder(folder), pager.lsn)
    log.repair(store.log_folder(folder), replay)
    if replay.repair:
        print(f"kernel: log repaired: {replay.repair}", file=stderr)
        hooks.reach("recovery.tail_cut")
    store.replay_into(tables, replay.records)
    hooks.reach("recovery.replayed")
    return store.journal(folder, hooks, pager, tables, replay, segment_bytes, checkpoint_every)


def settle(journal: Journal, intents: Intents) -> None:
    """Take from the dead what they owned, bring every intent to an outcome, and commit."""
    reach = journal.hooks.reach
    interrupt_owned(journal)
    settle_dispatched(journal, intents)
    finish_applied(journal, intents)
    reach("recovery.settled")
    journal.checkpoint()
    reach("recovery.committed")
    reach("recovery.done")


def interrupt_owned(journal: Journal) -> None:
    """The owner of a running or waiting attempt is dead."""
    for _, row in _in_state(journal.tables.attempts, states.OWNED):
        journal.attempt(row["task"], row["try"], "interrupted")


def settle_dispatched(journal: Journal, intents: Intents) -> None:
    """Nobody will read these intents' replies any more: settle each by its class."""
    for effect, row in _in_state(journal.tables.intents, ("dispatched",)):
        journal.hooks.reach("recovery.settling", {"class": row["class"]})
        intents.settle(effect, journal.hooks.reach)


def finish_applied(journal: Journal, intents: Intents) -> None:
    """These landed, but their outcome had not been given to the attempt."""
    for effect, _ in _in_state(journal.tables.intents, ("applied",)):
        intents.finish(effect)


def _in_state(rows, wanted):
    """(key, row) of the rows in one of the states, in the order in which they came to it."""
    found = [(key, row) for key, row in rows.items() if row["state"] in wanted]
    return sorted(found, key=lambda item: item[1]["lsn"])
