"""A session store of a few lines of plain SQL, worked and broken by the tests of the cells' verifier.

What it does is right; each test breaks one thing, in the database or in what was answered. Shares no code with a store
or with the verifier.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import checkers  # noqa: F401 - makes the next line work
from verifier import cells, tree

Json = dict[str, Any]

SCHEMA = """
CREATE TABLE s (name TEXT, parent TEXT, closed TEXT);
CREATE TABLE m (session TEXT, place INTEGER, role TEXT, content TEXT, active INTEGER DEFAULT 1);
CREATE TABLE i (name TEXT PRIMARY KEY, state TEXT, owner TEXT);
CREATE TABLE d (name TEXT PRIMARY KEY, state TEXT, content TEXT);
"""
VIEWS = """
database = "box/store.db"
[views]
sessions   = "SELECT name, parent, closed FROM s ORDER BY name"
messages   = "SELECT session, place, role, content FROM m WHERE active ORDER BY session, place"
items      = "SELECT name, state, owner FROM i ORDER BY name"
deliveries = "SELECT name, state FROM d ORDER BY name"
"""


class Trial:
    """One trial as its verifier sees it: a database that is worked by `do`, a history, a ledger, and the looks."""

    def __init__(self, folder: Path, cell: str, mode: str = "wal", racers: int = 0) -> None:
        self.folder = folder
        self.workload: Json = {"cell": cell, "journal_mode": mode, "work": [], "race": None, "racers": racers}
        self.workload["resume"] = []
        self.history: list[Json] = []
        self.ledger: Json = {"requests": [], "effects": []}
        self.prepared: Json | None = None
        self.looks: list[Json] = []
        self.process = 0
        self._id = 0
        (folder / "box").mkdir()
        self.sql = self._connect()
        self.sql.executescript(SCHEMA)
        self.start()

    @property
    def mode(self) -> str:
        return "wal" if self.workload["journal_mode"] == "default" else str(self.workload["journal_mode"])

    def _connect(self) -> sqlite3.Connection:
        sql = sqlite3.connect(self.folder / "box" / "store.db", isolation_level=None)
        sql.execute(f"PRAGMA journal_mode = {self.mode}")
        sql.execute("PRAGMA synchronous = OFF")
        sql.execute("PRAGMA cache_size = 1")  # so that a transaction soon reaches the disk
        return sql

    def start(self) -> None:
        """A process opens the store."""
        self.process += 1
        self._id = 0
        self._say(op="open", type="ok", id=0, journal_mode=self.mode, sqlite="3", store="test 1")

    def die(self) -> None:
        """The process is killed. The connection stays, so that what it left is as a killed one leaves it."""
        self.history.append({"process": self.process, "died": True})

    def _say(self, **event: Any) -> None:
        self.history.append({**event, "process": self.process})

    def do(self, op: str, *, answer: str | None = "ok", effect: bool = True, **fields: Any) -> None:
        """One operation: what is asked, what happens (or not, without `effect`), and what is answered (or nothing)."""
        result = {key: fields.pop(key) for key in ("won", "exits", "sent") if key in fields}
        asked = {"op": op, **fields}
        self.workload["work"].append(asked)
        self._id += 1
        self._say(op=op, type="invoke", id=self._id, do=asked)
        if effect:
            self.apply(asked)
        if answer:
            self._say(op=op, type=answer, id=self._id, **result)

    def apply(self, do: Json) -> None:
        """What an operation does to the database; of a claim, a race, a sweep or a send the test itself says it."""
        name = do.get("session", "")
        if do["op"] == "create":
            self.sql.execute("INSERT INTO s VALUES (?, NULL, '')", (name,))
        elif do["op"] == "append":
            self.message(name, do["role"], do["content"])
        elif do["op"] in ("rewind", "edit"):
            self.sql.execute(
                "UPDATE m SET active = 0 WHERE rowid IN "
                "(SELECT rowid FROM m WHERE session = ? AND active ORDER BY place LIMIT -1 OFFSET ?)",
                (name, do["keep"]),
            )
            if do["op"] == "edit":
                self.message(name, "user", do["content"])
        elif do["op"] == "rotate":
            self.sql.execute("UPDATE s SET closed = 'compacted' WHERE name = ?", (name,))
            self.sql.execute("INSERT INTO s VALUES (?, ?, '')", (do["child"], name))
            self.message(do["child"], "system", do["summary"])
        elif do["op"] == "park":
            self.item(do["item"], "parked")
        elif do["op"] == "finish":
            self.item(do["item"], "done")
        elif do["op"] == "record":
            self.row(do["delivery"], "pending")

    def message(self, session: str, role: str, content: str) -> None:
        place = "(SELECT coalesce(max(place), -1) + 1 FROM m WHERE session = :s)"
        values = {"s": session, "r": role, "c": content}
        self.sql.execute(f"INSERT INTO m (session, place, role, content) VALUES (:s, {place}, :r, :c)", values)

    def item(self, name: str, state: str, owner: str | None = None) -> None:
        self.sql.execute("INSERT OR REPLACE INTO i VALUES (?, ?, ?)", (name, state, owner))

    def row(self, name: str, state: str) -> None:
        self.sql.execute("INSERT OR REPLACE INTO d (name, state) VALUES (?, ?)", (name, state))

    def copy(self, delivery: str, content: str, *, marked: bool = False) -> None:
        """A copy of a delivery lands outside."""
        number = len(self.ledger["effects"]) * 2 + 1
        request = {"seq": number, "do": "send", "effect": delivery, "class": "once", "key": delivery, "token": 0}
        self.ledger["requests"].append({**request, "result": "landed", "reply": "sent"})
        args = {"content": content, "marked": marked}
        effect = {"seq": number + 1, "effect": delivery, "key": delivery, "class": "once", "tool": "deliver"}
        self.ledger["effects"].append({**effect, "args": args, "request": number, "receipt": f"R{number}"})

    def racer(self, number: int, code: int, **do: Any) -> None:
        """A racing container does one operation and ends."""
        process, won = 100 + number, code == 0
        event = {"process": process, "racer": number, "op": do["op"], "id": 1}
        self.history.append({**event, "type": "invoke", "do": do})
        if code in (0, 10):
            self.history.append({**event, "type": "ok", "won": won})
        self.history.append({"process": process, "racer": number, "exited": code})

    def files(self) -> tree.Tree:
        """As they lie on disk now, with a connection open or not."""
        return tree.read(str(self.folder))

    def judge(self, look: str, files: tree.Tree | None = None) -> Json:
        """What the verifier says. The request passes through JSON, as in life."""
        seen = self.files() if files is None else files
        request = {
            "look": look,
            "workload": self.workload,
            "prepared": self.prepared,
            "history": self.history,
            "ledger": self.ledger,
        }
        earlier = list(self.looks)
        self.looks.append({"look": look, "files": seen, "history": len(self.history)})
        return dict(cells.judge(seen, {**json.loads(json.dumps(request)), "earlier": earlier}))


def failed(answer: Json) -> dict[str, str]:
    """The properties that differ, and the fact of each."""
    return {name: p["differs"]["fact"] for name, p in answer.items() if p["differs"] is not None}


def facts(answer: Json, name: str) -> int:
    return int(answer[name]["facts"])


def trials(tmp_path: Path, monkeypatch: Any) -> Iterator[Any]:
    """Makes trials of a store whose views are VIEWS; closes their connections behind the test."""
    views = tmp_path / "views.toml"
    views.write_text(VIEWS)
    monkeypatch.setenv("VERIFIER_VIEWS", str(views))
    made: list[Trial] = []

    def new(cell: str, mode: str = "wal", racers: int = 0) -> Trial:
        folder = tmp_path / f"trial-{len(made)}"
        folder.mkdir()
        made.append(Trial(folder, cell, mode, racers))
        return made[-1]

    yield new
    for trial in made:
        trial.sql.close()
