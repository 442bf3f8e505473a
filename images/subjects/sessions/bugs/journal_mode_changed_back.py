"""Sets the journal mode that was asked for, says so, and goes back to its default behind everybody's back."""

from sessions.database import DEFAULT_MODE, Database

_set_mode = Database._set_mode


def set_mode(self, mode):
    found = _set_mode(self, mode)
    self.sql.execute(f"PRAGMA journal_mode = {DEFAULT_MODE}")
    return found


Database._set_mode = set_mode
