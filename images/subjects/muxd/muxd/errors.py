"""What ends the daemon, with the exit code that says how, and what a request is refused with."""


class MuxdError(Exception):
    """The daemon cannot start or go on; the message is one line for a person."""

    exit_code = 70  # EX_SOFTWARE


class UsageError(MuxdError):
    """The command line or the environment is wrong."""

    exit_code = 64  # EX_USAGE


class CorruptError(MuxdError):
    """The home holds what no crash can leave: served on, it would lose what was promised."""

    exit_code = 65  # EX_DATAERR


class HomeInUse(MuxdError):
    """Another daemon serves this home."""

    exit_code = 75  # EX_TEMPFAIL


class RpcError(Exception):
    """A request that is not done, as JSON-RPC has it."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
LIMIT_REACHED = -32000
NO_SUCH_CHAT = -32001
NO_SUCH_PERMISSION = -32002
