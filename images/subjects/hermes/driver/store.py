"""hermes-agent's `SessionDB` and its gateway's modules, as they come in the wheel.

`gateway/__init__.py` and those of its platforms import a dozen packages that the ledger does not need. So the package
`gateway` is entered as a namespace: its modules are run from their own files, its `__init__` is not.
"""

import os
import sqlite3
import sys
import types
from pathlib import Path

DATA = Path(os.environ.get("HERMES_DATA", "/data"))
os.environ["HERMES_HOME"] = str(DATA)  # read by the package when it is imported
DATABASE = DATA / "state.db"  # hermes_state.py, DEFAULT_DB_PATH; gateway/delivery_ledger.py, _db_path

SITE = next(Path(folder) for folder in sys.path if Path(folder, "hermes_state.py").is_file())
_gateway = types.ModuleType("gateway")
_gateway.__path__ = [str(SITE / "gateway")]
sys.modules["gateway"] = _gateway

from gateway import delivery_ledger, status  # noqa: E402
from hermes_state import SessionDB  # noqa: E402

__all__ = ["DATABASE", "SessionDB", "delivery_ledger", "journal_mode", "open_store", "status", "version"]


def open_store() -> SessionDB:
    """The store at the data path, opened as the package opens it: in WAL, whatever the file was before."""
    return SessionDB(DATABASE)


def journal_mode() -> str:
    """The journal mode on disk, seen by a connection that sets none."""
    connection = sqlite3.connect(DATABASE)
    try:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        connection.close()


def version() -> str:
    """ "hermes-agent 0.19.0", from the wheel's own metadata."""
    name, _, release = next(SITE.glob("hermes_agent-*.dist-info")).stem.partition("-")
    return f"{name.replace('_', '-')} {release}"
