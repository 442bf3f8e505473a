"""The outside world as records: what was asked, what was decided, what really landed. SQLite, durable before any reply.

It knows no sockets. Every public method that changes something has committed, with a sync, when it returns; the one
exception, `replied`, says so. A trial sees its own rows and no others.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from request import Fence, Receipt, Request, Send

SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    trial TEXT NOT NULL, seq INTEGER NOT NULL, do TEXT, effect TEXT, class TEXT, key TEXT, token INTEGER, tool TEXT,
    args TEXT, result TEXT NOT NULL, reply TEXT NOT NULL, why TEXT, PRIMARY KEY (trial, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS effects (
    trial TEXT NOT NULL, seq INTEGER NOT NULL, effect TEXT NOT NULL, key TEXT, class TEXT NOT NULL, tool TEXT,
    args TEXT, request INTEGER NOT NULL, receipt TEXT NOT NULL, PRIMARY KEY (trial, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fences (
    trial TEXT NOT NULL, effect TEXT NOT NULL, token INTEGER NOT NULL, PRIMARY KEY (trial, effect)) WITHOUT ROWID;
"""

DONE = ("landed", "computed", "deduped")


@dataclass(frozen=True)
class Rules:
    """How the world misbehaves in one trial; by events, never by time."""

    decline: frozenset[str] = frozenset()  # effects that never land
    lose_reply: frozenset[str] = frozenset()  # effects whose first `send` is done and never answered
    hold: frozenset[int] = frozenset()  # the n-th sends, from 1, that are left undecided


@dataclass(frozen=True)
class Outcome:
    """A decided request: `answer` is for its sender, who must not get it if `lost`."""

    seq: int
    answer: dict[str, Any]
    lost: bool = False


@dataclass(frozen=True)
class Held:
    """A `send` that is recorded and left undecided."""

    seq: int
    send: Send = field(repr=False)


class World:
    """All trials' records in one SQLite file, which one process owns."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._db.executescript(SCHEMA)
        self._db.execute("BEGIN")

    def close(self) -> None:
        self._db.execute("COMMIT")
        self._db.close()

    def receive(self, trial: str, rules: Rules, request: Request) -> Outcome | Held:
        """Record a request that has just arrived and decide it, unless a rule holds it."""
        match request:
            case Send():
                return self._receive_send(trial, rules, request)
            case Fence(effect, token):
                seq = self._record(trial, "fence", effect, token=token, result="raised")
                self._db.execute(
                    "INSERT INTO fences VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET token = max(token, excluded.token)",
                    (trial, effect, token),
                )
                outcome = Outcome(seq, {"ok": True})
            case Receipt(effect):
                outcome = self._receive_receipt(trial, effect)
        self._commit()
        return outcome

    def malformed(self, trial: str, why: str) -> Outcome:
        """Record a line that was no request."""
        seq = self._record(trial, None, None, result="malformed", why=why)
        self._commit()
        return Outcome(seq, {"ok": False, "why": f"malformed: {why}"})

    def decide(self, trial: str, rules: Rules, held: Held) -> Outcome:
        """Decide a held request as if it had just arrived: fence, rules and key as they are now."""
        outcome = self._decide(trial, rules, held)
        self._commit()
        return outcome

    def held(self, trial: str) -> list[Held]:
        """The undecided requests in the store, oldest first: what an earlier life of the service left."""
        rows = self._db.execute(
            "SELECT seq, effect, class, key, token, tool, args FROM requests "
            "WHERE trial = ? AND result = 'held' ORDER BY seq",
            (trial,),
        )
        return [Held(seq, Send(*sent, json.loads(args))) for seq, *sent, args in rows.fetchall()]

    def replied(self, trial: str, seq: int) -> None:
        """The answer to request `seq` has left.

        Durable with the next commit only: after a kill of this service the very last reply may read `none`.
        """
        self._db.execute("UPDATE requests SET reply = 'sent' WHERE trial = ? AND seq = ?", (trial, seq))

    def snapshot(self, trial: str) -> dict[str, Any]:
        """Everything of one trial, in the shape of docs/protocol.md."""
        requests = self._db.execute(
            "SELECT seq, do, effect, class, key, token, result, reply, why FROM requests WHERE trial = ? ORDER BY seq",
            (trial,),
        )
        effects = self._db.execute(
            "SELECT seq, effect, key, class, tool, args, request, receipt FROM effects WHERE trial = ? ORDER BY seq",
            (trial,),
        )
        return {
            "requests": [_request_row(*row) for row in requests],
            "effects": [
                {"seq": seq, "effect": effect, "key": key, "class": klass, "tool": tool, "args": json.loads(args),
                 "request": request, "receipt": receipt}
                for seq, effect, key, klass, tool, args, request, receipt in effects
            ],
        }  # fmt: skip

    def forget(self, trial: str) -> None:
        """Remove every row of a trial."""
        for table in ("requests", "effects", "fences"):
            self._db.execute(f"DELETE FROM {table} WHERE trial = ?", (trial,))
        self._commit()

    def _receive_send(self, trial: str, rules: Rules, send: Send) -> Outcome | Held:
        (before,) = self._db.execute(
            "SELECT count(*) FROM requests WHERE trial = ? AND do = 'send'", (trial,)
        ).fetchone()
        seq = self._record(
            trial, "send", send.effect, klass=send.klass, key=send.key, token=send.token, tool=send.tool,
            args=json.dumps(send.args), result="held",
        )  # fmt: skip
        held = Held(seq, send)
        outcome = held if before + 1 in rules.hold else self._decide(trial, rules, held)
        self._commit()
        return outcome

    def _receive_receipt(self, trial: str, effect: str) -> Outcome:
        found = self._db.execute(
            "SELECT receipt FROM effects WHERE trial = ? AND effect = ? ORDER BY seq LIMIT 1", (trial, effect)
        ).fetchone()
        declined = found is None and self._seen(trial, effect, "result", "declined")
        result = "found" if found else "declined" if declined else "none"
        seq = self._record(trial, "receipt", effect, result=result)
        return Outcome(seq, {"ok": True, "receipt": found[0] if found else None, "declined": declined})

    def _decide(self, trial: str, rules: Rules, held: Held) -> Outcome:
        result, answer = self._act(trial, rules, held)
        lost = (
            result in DONE
            and held.send.effect in rules.lose_reply
            and not self._seen(trial, held.send.effect, "reply", "lost")
        )
        self._db.execute(
            "UPDATE requests SET result = ?, reply = ? WHERE trial = ? AND seq = ?",
            (result, "lost" if lost else "none", trial, held.seq),
        )
        return Outcome(held.seq, answer, lost)

    def _act(self, trial: str, rules: Rules, held: Held) -> tuple[str, dict[str, Any]]:
        """Do what the class of effect says, unless the fence or a rule forbids it."""
        send = held.send
        fence = self._db.execute(
            "SELECT token FROM fences WHERE trial = ? AND effect = ?", (trial, send.effect)
        ).fetchone()
        if fence and send.token < fence[0]:
            return "fenced", {"ok": False, "why": "fenced"}
        if send.effect in rules.decline:
            return "declined", {"ok": False, "why": "declined"}
        if send.klass == "pure":
            return "computed", {"ok": True, "receipt": _digest(send.effect, send.tool, send.args)}
        if send.klass == "keyed":
            first = self._db.execute(
                "SELECT receipt FROM effects WHERE trial = ? AND class = 'keyed' AND key = ?", (trial, send.key)
            ).fetchone()
            if first:
                return "deduped", {"ok": True, "receipt": first[0]}
        return "landed", {"ok": True, "receipt": self._land(trial, held)}

    def _land(self, trial: str, held: Held) -> str:
        send, seq = held.send, self._next(trial)
        receipt = _digest(send.effect, seq)  # with its number: an effect that lands twice has two receipts
        self._db.execute(
            "INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (trial, seq, send.effect, send.key, send.klass, send.tool, json.dumps(send.args), held.seq, receipt),
        )
        return receipt

    def _record(
        self, trial: str, do: str | None, effect: str | None, *, result: str, klass: str | None = None,
        key: str | None = None, token: int | None = None, tool: str | None = None, args: str | None = None,
        why: str | None = None,
    ) -> int:  # fmt: skip
        seq = self._next(trial)
        self._db.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'none', ?)",
            (trial, seq, do, effect, klass, key, token, tool, args, result, why),
        )
        return seq

    def _next(self, trial: str) -> int:
        (last,) = self._db.execute(
            "SELECT max(coalesce((SELECT max(seq) FROM requests WHERE trial = :t), 0),"
            " coalesce((SELECT max(seq) FROM effects WHERE trial = :t), 0))",
            {"t": trial},
        ).fetchone()
        return int(last) + 1

    def _seen(self, trial: str, effect: str, column: str, value: str) -> bool:
        row = self._db.execute(
            f"SELECT 1 FROM requests WHERE trial = ? AND effect = ? AND {column} = ? LIMIT 1", (trial, effect, value)
        ).fetchone()
        return row is not None

    def _commit(self) -> None:
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _request_row(
    seq: int, do: str | None, effect: str | None, klass: str | None, key: str | None, token: int | None, result: str,
    reply: str, why: str | None,
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = {"seq": seq, "do": do}
    match do:
        case "send":
            row |= {"effect": effect, "class": klass, "key": key, "token": token}
        case "fence":
            row |= {"effect": effect, "token": token}
        case "receipt":
            row |= {"effect": effect}
        case _:
            row |= {"why": why}
    return row | {"result": result, "reply": reply}
