"""The session multiplexer daemon as a real process on a temporary home, with the real ledger.

What the lab does with containers and volumes is done here with processes and folders: the same contracts, much faster.
"""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from kernel_process import IMAGES, NONCE, PYTHON, LedgerService, Process, Record

MUXD = IMAGES / "subjects" / "muxd"
DEADLINE_S = 10.0


class Refused(Exception):
    """The daemon answered with an error."""

    def __init__(self, error: Record) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Daemon(Process):
    """One life of the daemon."""

    @property
    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        return self._process.pid

    def children(self) -> list[str]:
        """The process ids of its agents."""
        return Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()


class Client:
    """One connection. Requests may be sent ahead of their answers, which come in any order."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")
        self._ident = 0
        self._answers: dict[int, Record] = {}

    def send(self, method: str, **params: Any) -> int:
        """Ask without waiting. Returns what `answer` takes."""
        self._ident += 1
        request = {"jsonrpc": "2.0", "id": self._ident, "method": method, "params": params}
        self.send_line(json.dumps(request).encode())
        return self._ident

    def send_line(self, line: bytes) -> None:
        self._socket.sendall(line + b"\n")

    def read_line(self) -> Any:
        """The next answer as it is; None if the daemon has closed the connection."""
        line = self._file.readline()
        return json.loads(line) if line else None

    @property
    def answered(self) -> set[int]:
        """The requests whose answers have come and have not been taken."""
        return set(self._answers)

    def answer(self, ident: int) -> Any:
        """The result of a request. Raises Refused."""
        while ident not in self._answers:
            answer = self.read_line()
            assert answer is not None, "the daemon closed the connection"
            self._answers[answer["id"]] = answer
        answer = self._answers.pop(ident)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def ask(self, method: str, **params: Any) -> Any:
        return self.answer(self.send(method, **params))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Home:
    """One home with its own part of the ledger. `start` begins a life of its daemon, `kill` ends it."""

    def __init__(self, service: LedgerService, name: str, bug: str | None = None, **rules: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="muxd-", dir="/dev/shm"))
        self.path = self.folder / "home"
        self.path.mkdir()
        self.socket = self.folder / "daemon.sock"
        self._service = service
        self._name = name
        self._bug = bug
        rules = {"decline": [], "lose_reply": [], "hold": []} | rules
        self._ledger = service.ask("open", name, rules=rules)["socket"]
        self._clients: list[Client] = []
        self.process: Daemon | None = None

    def launch(self, **lab: str) -> Daemon:
        """Start a process and wait for nothing. `lab` are LAB_ variables in lower case without their prefix."""
        environment = {
            "MUXD_HOME": str(self.path), "LAB_SOCKET": str(self.socket), "LAB_LEDGER": self._ledger,
            "LAB_NONCE": NONCE, **{f"LAB_{name.upper()}": value for name, value in lab.items()},
        }  # fmt: skip
        program = [str(MUXD / "bin" / "with-bug"), self._bug, "muxd"] if self._bug else [str(MUXD / "bin" / "muxd")]
        self.process = Daemon([*PYTHON, *program, "serve"], environment)
        return self.process

    def start(self, **lab: str) -> Client:
        """Start the daemon. Returns a client that it has answered."""
        self.launch(**lab)
        return self.connect()

    def connect(self) -> Client:
        """Another client, once the daemon listens."""
        until = time.monotonic() + DEADLINE_S
        while True:
            try:
                client = Client(self.socket)
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < until, "the daemon does not listen"
                time.sleep(0.005)
            else:
                self._clients.append(client)
                return client

    def kill(self) -> Daemon:
        """SIGKILL, as it is. Returns the dead process with its records and its log."""
        assert self.process
        process, self.process = self.process, None
        process.kill()
        self.hang_up()
        return process

    def hang_up(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def kill_at_hook(self) -> Daemon:
        """SIGKILL once it stands at the hook that it was started with."""
        assert self.process
        self.process.await_hit()
        return self.kill()

    def restart(self, **lab: str) -> Client:
        self.kill()
        return self.start(**lab)

    def settle(self, client: Client) -> None:
        """Wait until it is idle."""
        until = time.monotonic() + DEADLINE_S
        while not client.ask("status")["idle"]:
            assert time.monotonic() < until, "it never gets idle"
            time.sleep(0.01)

    def ledger(self) -> Record:
        snapshot: Record = self._service.ask("snapshot", self._name)["ledger"]
        return snapshot

    def effects(self) -> list[str]:
        """What has landed, in order."""
        return [effect["effect"] for effect in self.ledger()["effects"]]

    def close(self) -> None:
        if self.process:
            self.kill()
        self.hang_up()
        self._service.ask("close", self._name)
        shutil.rmtree(self.folder)


class Homes:
    """Makes homes; their ledger is in memory as well: on a disk its syncs would be most of a test's time."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="muxd-ledger-", dir="/dev/shm"))
        self._service = LedgerService(self._folder)
        self._numbers = itertools.count(1)

    def make(self, bug: str | None = None, **rules: list[str]) -> Home:
        """A fresh home of the good daemon, or of one with a planted bug. `rules` are those of the ledger."""
        return Home(self._service, f"home-{next(self._numbers)}", bug, **rules)

    def close(self) -> None:
        self._service.end()
        shutil.rmtree(self._folder)
