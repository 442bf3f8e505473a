"""The command `muxd serve`: what it is given, how its parts are put together, and how it ends."""

import asyncio
import os
import sys

from muxd.agents import Agents
from muxd.chats import Chats
from muxd.errors import MuxdError, UsageError
from muxd.failstop import EX_IOERR, in_background
from muxd.home import Home
from muxd.hooks import Hooks
from muxd.operations import Operations
from muxd.outbox import Outbox
from muxd.permissions import Permissions
from muxd.recovery import recover
from muxd.server import Server
from muxd.turns import Turns

USAGE = """\
usage: muxd serve [HOME]
HOME is by default MUXD_HOME, or /data. LAB_SOCKET is the unix socket to listen on, LAB_LEDGER that of the ledger.
exit: 64 usage · 65 the home is corrupt · 70 a fault of muxd · 74 the disk · 75 the home is in use"""


def main(arguments: list[str]) -> int:
    """Returns the exit code; while all is well, it does not return."""
    if not 1 <= len(arguments) <= 2 or arguments[0] != "serve":
        print(USAGE, file=sys.stderr)
        return UsageError.exit_code
    folder = arguments[1] if len(arguments) == 2 else os.environ.get("MUXD_HOME", "/data")
    try:
        hooks = Hooks(os.environ)
        socket, ledger = _environment("LAB_SOCKET"), _environment("LAB_LEDGER")
        home, chats = recover(folder, hooks.reach)
        asyncio.run(_serve(home, chats, socket, ledger, hooks.reach))
    except MuxdError as error:
        print(f"muxd: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"muxd: {error}: cannot use the home {folder}", file=sys.stderr)
        return EX_IOERR
    return 0


async def _serve(home: Home, chats: Chats, socket: str, ledger: str, reach) -> None:
    permissions = Permissions()
    turns = Turns(Agents(ledger, reach), permissions, reach)
    outbox = Outbox(ledger, home, reach)
    server = Server(Operations(home, chats, turns, permissions, outbox, reach).call, reach)
    listener = await server.listen(socket)
    reach("start.listening")
    for chat in chats:
        turns.wake(chat)
    outbox.wake()
    in_background(outbox.work())
    await listener.serve_forever()


def _environment(name):
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"{name} is not set\n{USAGE}")
    return value
