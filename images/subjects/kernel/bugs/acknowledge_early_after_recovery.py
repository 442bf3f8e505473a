"""Acknowledges before it writes, but only in the work that follows a recovery: from there on it collects the log."""

from kernel import recovery

_settle = recovery.settle


def settle(journal, intents):
    _settle(journal, intents)
    import log_buffered  # noqa: F401 - plants that bug as well, and it acts on the open log at once


recovery.settle = settle
