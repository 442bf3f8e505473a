"""Reads a store as a look found it: a copy of its database, opened by our own SQLite, through the image's views.

Never the mounted file: to open a killed database is to recover it, and that writes. The copy takes its `-wal` and
`-journal` along, for without them it is another database. May not judge: what cannot be read is said in `faults`.
"""

# No pathlib: it would cost milliseconds of each start, and this is started for every trial.
# ruff: noqa: PTH118, PTH119, PTH123
from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import tomllib
from contextlib import closing
from typing import Any, NamedTuple

from verifier.tree import Tree

PATH = "/opt/verifier/views.toml"
COLUMNS = {
    "sessions": ("session", "parent", "closed"),
    "messages": ("session", "position", "role", "content"),
    "items": ("item", "state", "owner"),
    "deliveries": ("delivery", "state"),
}
ON_DISK = ("", "-wal", "-journal")

Row = tuple[Any, ...]


class Views(NamedTuple):
    """What `views.toml` says."""

    database: str
    selects: dict[str, str]


class Store(NamedTuple):
    """What the views and SQLite itself say of one copy."""

    rows: dict[str, tuple[Row, ...]]  # by view, in the order of its SELECT
    faults: dict[str, str]  # by view, or "database": why it cannot be read
    integrity: tuple[str, ...]  # the answer of `PRAGMA integrity_check`: one "ok" if all is well

    def transcript(self, views: tuple[str, ...]) -> bytes:
        """Canonical JSON of these views: two stores are the same if these bytes are."""
        told = {view: self.faults.get(view) or self.rows.get(view) for view in views}
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode("ascii")


def load() -> Views:
    """The views of this image. Raises ValueError if they are none that docs/cells.md allows."""
    path = os.environ.get("VERIFIER_VIEWS", PATH)
    with open(path, "rb") as file:
        told = tomllib.load(file)
    selects = told.get("views", {})
    if unknown := sorted(selects.keys() - COLUMNS.keys()):
        raise ValueError(f"{path}: unknown views {unknown}; there are: {', '.join(COLUMNS)}")
    return Views(os.path.normpath(told["database"]), selects)


def read(files: Tree, views: Views, *, recoveries: int = 1) -> Store:
    """Recover a fresh copy of the database as often as asked, each time by opening and closing it, and read it."""
    if views.database not in files:
        return Store({}, {"database": "no such file"}, ())
    with tempfile.TemporaryDirectory(prefix="cell-") as folder:
        path = os.path.join(folder, os.path.basename(views.database))
        for suffix in ON_DISK:
            if (content := files.get(views.database + suffix)) is not None:
                with open(path + suffix, "wb") as file:
                    file.write(content)
        for _ in range(recoveries - 1):
            _open_and_read(path, views)
        return _open_and_read(path, views)


def _open_and_read(path: str, views: Views) -> Store:
    rows: dict[str, tuple[Row, ...]] = {}
    faults: dict[str, str] = {}
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        # Bytes that are no UTF-8 are a finding, and must not end the reading of the others.
        database.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        try:
            integrity = tuple(str(line) for (line,) in database.execute("PRAGMA integrity_check"))
        except sqlite3.Error as error:
            return Store({}, {"database": str(error)}, ())
        for view, select in views.selects.items():
            try:
                cursor = database.execute(select)
                width = len(cursor.description)
                if width != len(COLUMNS[view]):
                    raise ValueError(f"view {view} has {width} columns; it must have {', '.join(COLUMNS[view])}")
                rows[view] = tuple(tuple(_plain(value) for value in row) for row in cursor)
            except sqlite3.Error as error:
                faults[view] = str(error)
    return Store(rows, faults, integrity)


def _plain(value: Any) -> Any:
    """A value that JSON can hold and a set can, too; a blob is no text."""
    return ("blob", value.hex()) if isinstance(value, bytes) else value
