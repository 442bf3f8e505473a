"""The kernel and the effect ledger as real processes in a temporary folder, for the kernel's tests."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[2] / "images"
KERNEL = IMAGES / "subjects" / "kernel"
# Compiled once for all tests of a session, and never beside the sources: those are an image's build context.
_COMPILED = tempfile.TemporaryDirectory(prefix="kernel-pycache-")
PYTHON = [sys.executable, "-I", "-S", "-X", f"pycache_prefix={_COMPILED.name}"]
DEADLINE_S = 20.0
NONCE = "n0nce"

Record = dict[str, Any]


class LedgerService:
    """The real ledger, steered as the controller steers it. One service serves many trials."""

    def __init__(self, folder: Path) -> None:
        (folder / "sockets").mkdir()
        environment = {**os.environ, "LEDGER_SOCKETS": str(folder / "sockets"), "LEDGER_STORE": str(folder)}
        self._process = subprocess.Popen(
            [*PYTHON, str(IMAGES / "system" / "ledger" / "ledger")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        )  # fmt: skip
        self._ident = 0

    def ask(self, do: str, trial: str, **more: Any) -> Record:
        assert self._process.stdin and self._process.stdout
        self._ident += 1
        request = {"id": self._ident, "do": do, "trial": trial, **more}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], DEADLINE_S)
        assert ready, "the ledger says nothing"
        answer: Record = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._ident and answer["ok"], answer
        return answer

    def end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()


class Trial:
    """One state folder with its own part of the ledger."""

    def __init__(
        self, service: LedgerService, name: str, folder: Path, workload: Record, hold: list[int] | None = None
    ):
        self.folder = folder
        self.workload = workload
        self._service = service
        self._name = name
        self.socket = service.ask("open", name, rules=rules(workload) | {"hold": hold or []})["socket"]

    def start(self, command: str, bug: str | None = None, **lab: str) -> Process:
        """Start a process of the kernel. `lab` are LAB_ variables in lower case without their prefix."""
        environment = {
            "KERNEL_DATA": str(self.folder),
            "LAB_NONCE": NONCE,
            "LAB_WORKLOAD": json.dumps(self.workload),
            "LAB_LEDGER": self.socket,
            **{f"LAB_{name.upper()}": value for name, value in lab.items()},
        }
        launcher = [str(KERNEL / "bin" / "with-bug"), bug, "kernel"] if bug else [str(KERNEL / "bin" / "kernel")]
        return Process([*PYTHON, *launcher, command], environment)

    def finish(self, command: str, bug: str | None = None, **lab: str) -> list[Record]:
        """Run a process to its end, which must be good. Returns its records."""
        process = self.start(command, bug, **lab)
        assert process.wait() == 0, process.log
        return process.records

    def kill_at(self, command: str, hook: str, bug: str | None = None) -> Process:
        """Run a process to the armed hook and kill it there."""
        process = self.start(command, bug, hook=hook)
        process.await_hit()
        process.kill()
        return process

    def tables(self) -> Record:
        """The tables by the kernel's own `dump`."""
        process = self.start("dump")
        assert process.wait() == 0, process.log
        return json.loads(process.log)

    def ledger(self, do: str = "snapshot") -> Record:
        snapshot: Record = self._service.ask(do, self._name)["ledger"]
        return snapshot

    def close(self) -> None:
        self._service.ask("close", self._name)


class Process:
    """One process of the kernel; its records are told from its log by the nonce."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._output = b""
        self.records: list[Record] = []
        self.log = ""

    def await_hit(self) -> Record:
        """The record of the armed hook or the barrier; the process stands there."""
        until = time.monotonic() + DEADLINE_S
        while not (hits := [r for r in self._parsed() if "hit" in r]):
            assert self._read(until), f"ended before its hook: {self._output.decode()}"
        self.records = self._parsed()
        return hits[-1]

    def await_another_hit(self) -> tuple[str, int]:
        """As `await_hit`, once the barrier has been released: where the process stands now."""
        until = time.monotonic() + DEADLINE_S
        while len(hits := [r for r in self._parsed() if "hit" in r]) < 2:
            assert self._read(until), f"ended before its hook: {self._output.decode()}"
        self.records = self._parsed()
        return hits[-1]["hit"], hits[-1]["n"]

    def release(self) -> None:
        assert self._process.stdin
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        """Close its standard input without a word."""
        assert self._process.stdin
        self._process.stdin.close()

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        self._process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        """The exit code; negative is the signal that killed it."""
        assert self._process.stdin and self._process.stdout
        until = time.monotonic() + DEADLINE_S
        try:
            while self._read(until):
                pass
            code = self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()
            self._process.stdin.close()
            self._process.stdout.close()
        self.records = self._parsed()
        # Not splitlines: it takes the 0x1E of a record for the end of a line.
        self.log = "\n".join(line for line in self._output.decode().split("\n") if not line.startswith("\x1e"))
        return code

    def _read(self, until: float) -> bool:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
        assert ready, f"the kernel says nothing: {self._output.decode()}"
        data = os.read(self._process.stdout.fileno(), 65_536)
        self._output += data
        return bool(data)

    def _parsed(self) -> list[Record]:
        lines = self._output.decode().split("\x1e")[1:]
        records = [json.loads(line.partition("\n")[0]) for line in lines if "\n" in line]
        return [record for record in records if record["lab"] == NONCE]


def identity(task: int, step: int, call: Record) -> str:
    args = json.dumps(call["args"], sort_keys=True, separators=(",", ":"))
    return f"{task}/{step}/{call['tool']}/{args}"


def rules(workload: Record) -> Record:
    """The ledger's rules for a workload, as docs/workload.md has them."""
    found: Record = {"decline": [], "lose_reply": []}
    for task in workload["tasks"]:
        for script in task["tries"]:
            for number, step in enumerate(script):
                if step["do"] == "call":
                    effect = identity(task["task"], number, step)
                    if step["outcome"] == "declined":
                        found["decline"].append(effect)
                    if step["lose_reply"]:
                        found["lose_reply"].append(effect)
    return found


def call(tool: str, klass: str, outcome: str = "ok", lose_reply: bool = False, ticks: int = 2, **args: Any) -> Record:
    return {"do": "call", "tool": tool, "class": klass, "args": args, "outcome": outcome,
            "lose_reply": lose_reply, "ticks": ticks}  # fmt: skip


def do(what: str, ticks: int = 1) -> Record:
    return {"do": what, "ticks": ticks} | ({"text": "hm"} if what == "say" else {})


def task(number: int, *tries: list[Record], deadline: int = 40, cancelled: bool = False) -> Record:
    return {"task": number, "deadline": deadline, "cancelled_before_admission": cancelled, "tries": list(tries)}


def workload(*tasks: Record, slots: int = 2, checkpoint_every: int = 9, segment_bytes: int = 1024) -> Record:
    return {"kind": "agent-tasks", "version": 1, "seed": 1, "slots": slots, "checkpoint_every": checkpoint_every,
            "segment_bytes": segment_bytes, "tasks": list(tasks)}  # fmt: skip


# Every transition, every class, every way an intent can end, and a try that reuses an earlier try's effect.
FULL = workload(
    task(11, [do("say"), call("charge", "once", amount=17), do("finish")]),
    task(
        12, [call("search", "pure", lose_reply=True, q="ä"), do("fail")], [call("search", "pure", q="ä"), do("finish")]
    ),
    task(13, [call("mail", "keyed", lose_reply=True, to="x"), do("cancel")]),
    task(14, [do("finish")], cancelled=True),
    task(15, [do("say", 30), do("say", 30), do("finish")]),
    task(16, [call("charge", "once", lose_reply=True, amount=3), do("fail")]),
    task(17, [call("charge", "once", "declined", amount=4), call("mail", "keyed", "declined", to="y"), do("finish")]),
)
PREPARED = workload(task(1, [call("charge", "once", amount=1), do("finish")]), task(2, [do("fail")]))
