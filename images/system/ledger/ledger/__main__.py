"""`ledger`: the effect ledger of a run. See docs/protocol.md, "Effect ledger".

LEDGER_SOCKETS (default /ledger) is the folder of the trials' sockets, LEDGER_STORE (default /store) that of its
database.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from server import Server
from world import World

EX_IOERR = 74


def main() -> int:
    sockets = Path(os.environ.get("LEDGER_SOCKETS", "/ledger"))
    store = Path(os.environ.get("LEDGER_STORE", "/store")) / "ledger.db"
    try:
        world = World(store)
        Server(world, sockets).serve()
        world.close()
    except sqlite3.Error as error:
        # Better no outside world than one that forgets: nothing was answered that is not in the store.
        print(f"ledger: cannot write {store}: {error}", file=sys.stderr)
        return EX_IOERR
    return 0


if __name__ == "__main__":
    sys.exit(main())
