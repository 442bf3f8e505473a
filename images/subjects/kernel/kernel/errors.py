"""What can end a command, each with its exit code and a sentence for a person."""


class KernelError(Exception):
    """Ends the command; `exit_code` is an interface, see docs/format.md."""

    exit_code = 1


class UsageError(KernelError):
    """The command line or the workload is wrong."""

    exit_code = 64


class CorruptError(KernelError):
    """The data breaks its format where no crash can have broken it."""

    exit_code = 65

    def __init__(self, what: str, where: str):
        super().__init__(f"corrupt: {where}: {what}; `kernel rebuild` makes the tables again from the log")


class LedgerError(KernelError):
    """The outside world cannot be reached, or answers against the protocol."""

    exit_code = 69


class IllegalTransitionError(KernelError):
    """The kernel itself is wrong: it was about to record what its own tables forbid."""

    exit_code = 70


class NotCleanError(KernelError):
    """`run` was asked to start on a state that a crash left."""

    exit_code = 75
