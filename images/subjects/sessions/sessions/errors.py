"""What can end an op or the driver, each with a sentence for a person."""


class Refused(Exception):
    """The op surely did not happen: the store's state forbids it. The store is as it was."""


class DriverError(Exception):
    """Ends the driver; `exit_code` is an interface, see USAGE in driver.py."""

    exit_code = 1


class UsageError(DriverError):
    """The command line or the workload is wrong."""

    exit_code = 64


class CorruptError(DriverError):
    """The database breaks what the store promises about it."""

    exit_code = 65


class ProviderError(DriverError):
    """The provider cannot be reached, or answers against its protocol."""

    exit_code = 69


class NotOffered(DriverError):
    """The store has no such op, or cannot have that journal mode here."""

    exit_code = 78


class LostReply(Exception):
    """The provider may have taken a message: its connection ended without an answer."""
