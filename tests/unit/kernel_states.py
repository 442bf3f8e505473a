"""Builds states of the kernel from the documented format alone: a log, pages, a history and a ledger, as data.

For the tests of the verifier: what is built here is right, and each test breaks one thing. Shares no code with the
kernel or the verifier, so that a mistake in either shows.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import checkers  # noqa: F401 - makes `verifier` importable

PREPARED = {
    "kind": "agent-tasks",
    "version": 1,
    "seed": 0,
    "slots": 1,
    "checkpoint_every": 9,
    "segment_bytes": 600,
    "tasks": [
        {
            "task": 1,
            "deadline": 40,
            "cancelled_before_admission": False,
            "tries": [
                [
                    {"do": "call", "tool": "mail", "class": "keyed", "args": {"to": "a"}, "outcome": "ok", "ticks": 1},
                    {"do": "finish", "ticks": 1},
                ]
            ],
        }
    ],
}


def call(tool: str, kind: str, amount: int, outcome: str = "ok", lose: bool = False) -> dict[str, Any]:
    args = {"amount": amount}
    return {
        "do": "call",
        "tool": tool,
        "class": kind,
        "args": args,
        "outcome": outcome,
        "lose_reply": lose,
        "ticks": 2,
    }


def workload(*tries: list[dict[str, Any]], deadline: int = 100, cancelled: bool = False) -> dict[str, Any]:
    """A workload of one task, number 3."""
    task = {"task": 3, "deadline": deadline, "cancelled_before_admission": cancelled, "tries": list(tries)}
    return {**PREPARED, "seed": 7, "tasks": [task]}


BUCKETS = (8, 16, 8, 1)  # of each table: enough for every state here
SAY = {"do": "say", "text": "hm", "ticks": 1}
FINISH = {"do": "finish", "ticks": 1}
FAIL = {"do": "fail", "ticks": 1}


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame(lsn: int, payload: bytes) -> bytes:
    head = struct.pack("<IQ", len(payload), lsn)
    return head + struct.pack("<I", crc32c(head + payload)) + payload


def header(first: int) -> bytes:
    head = b"LABKLOG1" + struct.pack("<Q", first)
    return head + struct.pack("<II", crc32c(head), 0)


def segments(records: list[dict[str, Any]], each: int = 8) -> dict[str, bytes]:
    """The log of these records, from LSN 1, `each` of them a segment; the last segment is active."""
    files = {}
    firsts = range(1, max(len(records), 1) + 1, each)
    for first in firsts:
        frames = [frame(first + i, canonical(r)) for i, r in enumerate(records[first - 1 : first - 1 + each])]
        name = f"log/{first:016d}.{'open' if first == firsts[-1] else 'seg'}"
        files[name] = header(first) + b"".join(frames)
    return files


def fold(records: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    attempts: dict[str, Any] = {}
    intents: dict[str, Any] = {}
    effects: dict[str, Any] = {}
    cursor: dict[str, Any] = {}
    for lsn, r in enumerate(records, 1):
        if r["r"] == "attempt":
            attempts[f"{r['task']}/{r['try']}"] = {"task": r["task"], "try": r["try"], "state": r["to"], "lsn": lsn}
            if r["from"] is None:
                cursor[str(r["task"])] = {"try": r["try"], "step": 0, "clock": 0, "lsn": lsn}
        elif r["r"] == "cursor":
            cursor[str(r["task"])] = {"try": r["try"], "step": r["step"], "clock": r["clock"], "lsn": lsn}
        else:
            born = {k: r[k] for k in ("task", "step", "tool", "class", "args")} if r["from"] is None else {}
            row = intents.setdefault(r["effect"], {**born, "token": None})
            row.update(state=r["to"], lsn=lsn)
            if r["to"] == "dispatched":
                row["token"] = lsn
            if r["to"] == "applied":
                effects[r["effect"]] = {"receipt": r["receipt"], "lsn": lsn}
    return attempts, intents, effects, cursor


def page(content: bytes) -> bytes:
    """A page whose `used` field, at byte 8, is still to be filled in."""
    used = content[:8] + struct.pack("<I", len(content)) + content[12:]
    return used.ljust(4096, b"\xee")  # what lies behind is not significant


def root(sequence: int, lsn: int, table: list[tuple[int, int]], buckets: tuple[int, ...] = BUCKETS) -> bytes:
    used = 44 + 8 * len(table) + 4
    head = struct.pack("<8sIIQQ4HI", b"LABKROOT", 1, used, sequence, lsn, *buckets, len(table))
    head += b"".join(struct.pack("<II", *reference) for reference in table)
    return (head + struct.pack("<I", crc32c(head))).ljust(4096, b"\xee")


def pages(records: list[dict[str, Any]], sequence: int = 4, slot: int | None = None) -> bytes:
    """`pages.db` with the fold of the records under one root; the other slot holds the root before, torn."""
    body, entries = [], []
    for table, rows in enumerate(fold(records)):
        for bucket in range(BUCKETS[table]):
            keys = sorted(k.encode() for k in rows if crc32c(k.encode()) % BUCKETS[table] == bucket)
            if not keys:
                continue
            packed = b""
            for key in keys:
                value = canonical(rows[key.decode()])
                packed += struct.pack("<HH", len(key), len(value)) + key + value
            content = struct.pack("<8sIHHI", b"LABKPAGE", 0, table, bucket, len(keys)) + packed
            body.append(page(content))
            used = body[-1][: len(content)]
            entries.append(struct.pack("<HHII", table, bucket, 2 + len(body), crc32c(used)))
    content = struct.pack("<8sII", b"LABKPTBL", 0, len(entries)) + b"".join(entries)
    table_page = page(content)
    newest = root(sequence, len(records), [(2, crc32c(table_page[: len(content)]))])
    other = b"LABKROOT".ljust(4096, b"\0")
    slots = [other, other]
    slots[sequence % 2 if slot is None else slot] = newest
    return b"".join(slots) + table_page + b"".join(body)


class State:
    """A kernel's life as data, written record by record as a good kernel would."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.workload = script
        self.records: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self.ledgers: list[dict[str, list[dict[str, Any]]]] = [{"requests": [], "effects": []}]
        self.process = 1
        self._ids: dict[int, int] = {}
        self._prepare()

    def _prepare(self) -> None:
        self.play_task(PREPARED["tasks"][0])
        self.base = len(self.records)
        self.history.clear()
        self._ids.clear()
        self.ledgers.append({"requests": [], "effects": []})

    def append(self, record: dict[str, Any], *, answered: bool = True, written: bool = True) -> int:
        number = self._ids[self.process] = self._ids.get(self.process, 0) + 1
        event = {"process": self.process, "op": "append", "id": number}
        self.history.append({**event, "type": "invoke", "record": record})
        if written:
            self.records.append(record)
        if answered:
            self.history.append({**event, "type": "ok", "lsn": len(self.records)})
        return len(self.records)

    def attempt(self, task: int, number: int, before: str | None, after: str) -> int:
        return self.append({"r": "attempt", "task": task, "try": number, "from": before, "to": after})

    def intent(self, effect: str, before: str | None, after: str, **more: Any) -> int:
        return self.append({"r": "intent", "effect": effect, "from": before, "to": after, **more})

    def cursor(self, task: int, number: int, step: int, clock: int) -> int:
        return self.append({"r": "cursor", "task": task, "try": number, "step": step, "clock": clock})

    def die(self) -> None:
        self.history.append({"process": self.process, "died": True})
        self.process += 1

    def request(self, do: str, effect: str, token: int | None, result: str, **more: Any) -> dict[str, Any]:
        ledger = self.ledgers[-1]
        seq = len(ledger["requests"]) + len(ledger["effects"]) + 1
        entry = {"seq": seq, "do": do, "effect": effect, "result": result, "reply": "sent", **more}
        if token is not None:
            entry["token"] = token
        ledger["requests"].append(entry)
        return entry

    def send(self, effect: str, kind: str, token: int, result: str, reply: str = "sent", **more: Any) -> dict[str, Any]:
        request = self.request("send", effect, token, result, **{"class": kind, "key": effect, "reply": reply, **more})
        if result == "landed":
            self.land(request)
        return request

    def land(self, request: dict[str, Any]) -> None:
        """The effect of a request lands (for a held one: later)."""
        ledger = self.ledgers[-1]
        _, _, tool, args = request["effect"].split("/", 3)
        effect = {"effect": request["effect"], "key": request["key"], "class": request["class"], "tool": tool}
        effect |= {"args": json.loads(args), "request": request["seq"], "receipt": self.receipt(request["effect"])}
        ledger["effects"].append({"seq": request["seq"] + 1, **effect})

    @staticmethod
    def receipt(effect: str) -> str:
        return f"R-{effect}"

    def fence(self, effect: str) -> None:
        self.request("fence", effect, len(self.records) + 1, "raised")

    def ask(self, effect: str, result: str) -> None:
        self.request("receipt", effect, None, result)

    def propose(self, task: int, step: int, what: dict[str, Any]) -> str:
        effect = f"{task}/{step}/{what['tool']}/{canonical(what['args']).decode()}"
        about = {"task": task, "step": step, "tool": what["tool"], "class": what["class"], "args": what["args"]}
        self.intent(effect, None, "proposed", **about)
        return effect

    def resolve(self, effect: str) -> None:
        self.intent(effect, "dispatched", "applied", receipt=self.receipt(effect))
        self.intent(effect, "applied", "resolved_ok")

    def play_call(self, task: int, step: int, what: dict[str, Any]) -> None:
        """One call without a crash."""
        effect = self.propose(task, step, what)
        token = self.intent(effect, "proposed", "dispatched")
        if what["outcome"] == "declined":
            self.send(effect, what["class"], token, "declined")
            self.intent(effect, "dispatched", "resolved_failed")
            return
        self.send(effect, what["class"], token, "computed" if what["class"] == "pure" else "landed")
        self.resolve(effect)

    def begin(self, task: int, number: int) -> None:
        self.attempt(task, number, None, "created")
        self.attempt(task, number, "created", "admitted")
        self.attempt(task, number, "admitted", "running")

    def play_steps(self, task: int, number: int, steps: list[dict[str, Any]], first: int = 0, clock: int = 0) -> None:
        """The rest of a try, from its step `first`; every call is new."""
        ends = {"finish": "succeeded", "fail": "failed", "cancel": "cancelled"}
        for step, what in enumerate(steps[first:], first):
            if what["do"] in ends:
                self.attempt(task, number, "running", ends[what["do"]])
                return
            if what["do"] == "call":
                self.attempt(task, number, "running", "waiting")
                self.play_call(task, step, what)
                self.attempt(task, number, "waiting", "running")
            clock += what["ticks"]
            self.cursor(task, number, step + 1, clock)

    def play_task(self, task: dict[str, Any]) -> None:
        for number, steps in enumerate(task["tries"]):
            self.begin(task["task"], number)
            self.play_steps(task["task"], number, steps)

    def files(self, *, clean: bool = False) -> dict[str, bytes]:
        """The volume; the pages stand at the end of the log."""
        files = {**segments(self.records), "pages.db": pages(self.records)}
        if clean:
            files["CLEAN"] = b'{"lsn":%d}' % len(self.records)
        return files

    def ask_look(self, look: str) -> dict[str, Any]:
        prepared = {"workload": PREPARED, "ledger": self.ledgers[0]}
        asked = {"ask": "look", "look": look, "workload": self.workload, "prepared": prepared}
        return {**asked, "history": self.history, "ledger": self.ledgers[1]}

    def judge(self, look: str, files: dict[str, bytes] | None = None) -> dict[str, Any]:
        """What the verifier says of this state, or of these files with this state's history and ledger."""
        from verifier.kernel import judge

        return judge(self.files(clean=look == "end") if files is None else files, self.ask_look(look))


def failed(properties: dict[str, Any]) -> dict[str, str]:
    """The properties that differ, each with the fact."""
    return {name: p["differs"]["fact"] for name, p in properties.items() if p["differs"]}


STEPS = [SAY, call("charge", "once", 4), call("read", "pure", 5), call("mail", "keyed", 6), FINISH]


def finished(steps: list[dict[str, Any]] | None = None) -> State:
    """A trial's workload played to its end without a crash."""
    state = State(workload(steps or STEPS))
    state.play_task(state.workload["tasks"][0])
    return state
