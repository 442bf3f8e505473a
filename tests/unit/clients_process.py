"""The clients of the fuzz campaign as a real process, steered as the controller does it, and a daemon as another."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_process import IMAGES, PYTHON, Record

CLIENTS = IMAGES / "system" / "clients" / "bin" / "clients"
DEADLINE_S = 10.0
LIMITS = {"answer_ms": 200, "timeout_ms": 300, "up_s": 5, "settle_s": 0.2}


def op(step: int, client: int, name: str, **args: Any) -> Record:
    return {"step": step, "client": client, "op": name, "args": args}


def draft(step: int, client: int, text: str, chat: str = "c1") -> Record:
    return op(step, client, "draft/set", chat=chat, text=text)


def scenario(*lives: list[Record], **other: Any) -> Record:
    """Each life its operations; the kills are the controller's, and the clients do not look at them."""
    script = {"format": 2, "seed": 1, "number": 1, "adapter": "jsonrpc", "clients": 3, "limits": LIMITS}
    return {**script, "lives": [{"ops": ops, "kill": None} for ops in lives], **other}


class Daemon:
    """One life of clients_daemon.py."""

    def __init__(self, path: Path, *how: str) -> None:
        self._path = path
        path.unlink(missing_ok=True)
        self.process = subprocess.Popen([*PYTHON, str(Path(__file__).with_name("clients_daemon.py")), str(path), *how])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def until_heard(self) -> None:
        """Until it has read a draft `last-words`."""
        until = time.monotonic() + DEADLINE_S
        while not Path(f"{self._path}.heard").exists():
            assert time.monotonic() < until, "the daemon has heard nothing"
            time.sleep(0.005)

    def speak(self) -> None:
        """Let it answer that draft and die of it."""
        Path(f"{self._path}.speak").touch()
        self.wait()

    def wait(self) -> None:
        """Until it has killed itself."""
        assert self.process.wait(DEADLINE_S) == -signal.SIGKILL


class Clients:
    """The process and the history that it has written so far."""

    def __init__(self, path: Path, script: Record | None = None) -> None:
        self.process = subprocess.Popen(
            [*PYTHON, str(CLIENTS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env={**os.environ, "LAB_SOCKET": str(path)},
        )  # fmt: skip
        self.history: list[Record] = []
        self._rest = b""
        if script is not None:
            self.say(do="script", scenario=script)

    def say(self, **command: Any) -> None:
        self.say_line(json.dumps(command).encode())

    def say_line(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")

    def wait_for(self, event: str, **fields: Any) -> Record:
        """The first line of the history, old or new, that says so."""

        def found() -> Record | None:
            return next(iter(self.lines(event, **fields)), None)

        self._read_until(lambda: found() is not None, f"{event} {fields}")
        line = found()
        assert line is not None
        return line

    def lines(self, *events: str, **fields: Any) -> list[Record]:
        """What it has written so far of these events, or of all, but for the heartbeat's."""
        fields = fields.items()
        told = [line for line in self.history if line["event"] in (events or {line["event"]} - {"still"})]
        return [line for line in told if all(line.get(name) == value for name, value in fields)]

    def of_step(self, step: int) -> list[Record]:
        """Every line of an operation."""
        ident = self.wait_for("invoke", step=step)["id"]
        return [line for line in self.lines() if line.get("id") == ident]

    def ending(self, step: int) -> Record:
        """The line that ends an operation."""
        self._read_until(lambda: len(self.of_step(step)) > 1, f"an end of step {step}")
        return self.of_step(step)[1]

    def killed(self, life: int = 1) -> None:
        self.say(do="killed", life=life)
        self.wait_for("gone", life=life)

    def stop(self) -> None:
        """Let it stand still, as a machine does that is too busy."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> int:
        """Close its input and read the rest. Returns its exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        self._read_until(lambda: False, "its end")
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.process.stdin.close()
        self.process.stdout.close()

    def _read_until(self, done: Callable[[], bool], what: str) -> None:
        assert self.process.stdout
        until = time.monotonic() + DEADLINE_S
        while not done():
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"waited for {what}; so far: {self.history}"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                assert what == "its end", f"it ended instead of {what}: {self.history}"
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.history += map(json.loads, lines)
