"""Who owns a claim, and whether that owner is still alive: decided without a clock and without a process id.

Each opening of the store gets a number of its own, counted in the database and never given twice. While it is open it
holds a lock on that byte of the file `owners.lock`. The kernel ends the lock with its holder, however it dies and in
whichever container it lived; so a lease lasts exactly as long as its owner. A process id would prove nothing: in the
next container the first process is number 1 again.

Such locks belong to a process, not to a file descriptor: a process may open one store at a time.
"""

import fcntl
import os

OPENING = 0  # this byte is locked while a store is being opened; owners count from 1


class Owners:
    """The lock file. `number` is ours once we are registered."""

    def __init__(self, path: str):
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.number = 0

    def begin_opening(self) -> None:
        """One process opens at a time: SQLite answers `locked`, without waiting, where two change a journal mode."""
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, OPENING)

    def end_opening(self) -> None:
        """Let the next process open its store."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, OPENING)

    def become(self, number: int) -> None:
        """Take the lock of our number. Called before the number is committed: nobody sees it free and alive."""
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        self.number = number

    def is_gone(self, number: int) -> bool:
        """Has that owner ended? Only to be asked inside a write transaction: two askers would see each other."""
        if number == self.number:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):
            return False
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)
        return True

    def close(self) -> None:
        """Ends every lock of ours."""
        os.close(self._file)
