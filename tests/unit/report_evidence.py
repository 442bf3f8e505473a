"""The evidence of two red trials for the tests of pictures: of a subject that drives itself, and of clients."""

from __future__ import annotations

import dataclasses
from typing import Any

import report_fuzz_data as clients
from report_data import DIFFERS, trial_at

from lab.model import CrashPoint, Evidence, Finding, Hit, Json, Kind, Look, Phase, Process, Verdict, Word

POINTS = (CrashPoint(1, "log.synced", 17), CrashPoint(2, "recovery.cut", 1))
BROKEN = Verdict(Word.VIOLATION, property="effects-exactly-once", look="recovered", differs=DIFFERS)
REMOVED = Verdict(Word.VIOLATION, property="removals-final", look="end", differs=clients.DIFFERS)
# Each begins where the one before has ended.
SPENT = (
    ("volume", 20.0), ("verifier", 60.0), ("hello", 5.0), ("start", 100.0), ("hook", 240.0), ("kill", 15.0),
    ("look:killed", 30.0), ("restart", 90.0), ("recovery", 40.0), ("kill", 15.0), ("look:killed", 30.0),
    ("restart", 90.0), ("recovery", 70.0), ("look:recovered", 30.0), ("resume", 200.0), ("look:end", 35.0),
)  # fmt: skip
LIVES = (
    ("volume", 20.0), ("verifier", 60.0), ("clients", 80.0), ("start", 90.0), ("up", 110.0), ("operations", 400.0),
    ("kill", 10.0), ("restart", 90.0), ("up", 60.0), ("operations", 300.0), ("settle", 50.0), ("look:end", 25.0),
)  # fmt: skip


def phases(spent: tuple[tuple[str, float], ...]) -> tuple[Phase, ...]:
    made, at_ms = [], 0.0
    for name, took_ms in spent:
        made.append(Phase(name, at_ms, took_ms))
        at_ms += took_ms
    return tuple(made)


def killed(number: int, hit: Hit, *command: str) -> Process:
    return Process(number, command, str(hit), hit, "psutil", killed=True, exit_code=137, fault="sigkill")


def look(name: str, process: int, ledger: Json, broke: bool = False) -> Look:
    finding = Finding(9, DIFFERS if broke else None)
    return Look(name, process, {"effects-exactly-once": finding}, ledger=ledger)


def ledger(*requests: int) -> Json:
    """Requests of those numbers, all for one effect; each landed."""
    return {
        "requests": [{"seq": n, "do": "send", "effect": "e-1", "result": "landed"} for n in requests],
        "effects": [{"seq": n, "effect": "e-1", "request": n} for n in requests],
    }


def of_itself(**changes: Any) -> Evidence:
    """Killed in its run and in its recovery; request 58, after the recovery, is one too many."""
    history = [{"process": 1, "id": n, "type": kind, "op": "append"} for n in range(1, 9) for kind in ("invoke", "ok")]
    history += [{"process": 1, "id": 9, "type": "invoke", "op": "charge"}, {"process": 1, "died": True}]
    history += [{"process": 3, "id": 10, "type": kind, "op": "append"} for kind in ("invoke", "ok")]
    made = Evidence(
        trial=trial_at(12, Kind.POINT, "ext4", 7, *POINTS),
        nonce="c0ffee",
        mount={},
        phases=phases(SPENT),
        processes=(
            killed(1, Hit("log.synced", 17, {"class": "once"}), "kernel", "run"),
            killed(2, Hit("recovery.cut", 1), "kernel", "recover"),
            Process(3, ("kernel", "recover"), None, exit_code=0),
        ),
        looks=(
            look("killed", 1, ledger(40, 41)),
            look("killed", 2, ledger(40, 41)),
            look("recovered", 3, ledger(40, 41, 58), broke=True),
            look("end", 3, ledger(40, 41, 58, 59), broke=True),
        ),
        history=tuple(history),
        ledger=ledger(40, 41, 58, 59),
        verifier="kernel 1",
        starts=4,
        up_ms=(130.0,),
    )
    return dataclasses.replace(made, **changes)


def by_clients(**changes: Any) -> Evidence:
    """Two lives and three clients; step 41 is what the verdict names, step 44 was cut by the kill."""
    history: list[Json] = [{"event": "up", "life": 1, "at_ms": 100.0}]
    for n in range(12):
        step, at_ms = 36 + n, 110.0 + 30 * n
        sent = {"step": step, "client": 1 + n % 3, "op": "queue/remove", "args": {"chat": "c1", "prompt": f"p{step}"}}
        history.append({"event": "invoke", "life": 1, "id": n, **sent, "at_ms": at_ms})
        answer = {"event": "info", "why": "cut"} if step == 44 else {"event": "ok", "result": {}}
        history.append({**answer, "id": n, "at_ms": at_ms + 25})
    history.append({"event": "killed", "life": 1, "at": "queue.removed#4"})
    history.append({"event": "up", "life": 2, "at_ms": 660.0})
    made = Evidence(
        trial=clients.result(7).trial,
        nonce="c0ffee",
        mount={},
        phases=phases(LIVES),
        processes=(
            killed(1, Hit("queue.removed", 4), "muxd", "serve"),
            Process(2, ("muxd", "serve"), None, exit_code=0),
        ),
        looks=(Look("end", 2, {"removals-final": Finding(7, clients.DIFFERS)}),),
        history=tuple(history),
        ledger={},
        verifier="fuzz 1",
        starts=4,
        up_ms=(200.0, 150.0),
    )
    return dataclasses.replace(made, **changes)
