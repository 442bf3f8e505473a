"""The sockets of the ledger: one a trial for subjects, standard input and output for the controller.

A trial's socket lies in a folder of its own, so that its subject can be given that and nothing of the others.

One thread, one loop: requests are decided in the order in which they are read, so "before" and "after" in a trial's
records mean what they say. Nothing here waits for anybody: a peer that does not read its answers loses its
connection. Only a controller that stops reading can stop the service, and it is the one who started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from request import Malformed, Receipt, parse
from world import Held, Outcome, Rules, World

MAX_LINE = 128 * 1024  # of a request, in bytes; arguments of 64 KiB fit, escaped twice over
MAX_CONTROL = 1024 * 1024  # of a controller's line
MAX_TRIALS = 32  # open at once; with MAX_PEERS it keeps below the usual 1,024 descriptors
MAX_PEERS = 24  # connections of one trial
MAX_HOLD = 16  # held requests of one trial
MAX_REQUESTS = 10_000  # of one trial; each is a row, and an effect at most one more
MAX_BYTES = 16 * 1024 * 1024  # of one trial's requests: a snapshot of them is one line, in memory
SOCKET = "socket"  # its name in the trial's folder
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


class Refused(Exception):
    """The controller asked for something that cannot be; the message says what."""


@dataclass(eq=False)
class Peer:
    """One connection of a subject. While a request of it is held, it is not read: answers come in order."""

    sock: socket.socket
    trial: Trial
    unread: bytearray = field(default_factory=bytearray)
    holding: bool = False

    def gone(self) -> bool:
        """Has the other side closed? Seen even behind bytes that nobody has read yet."""
        if self.sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self.sock, 0)  # a hang-up is always reported
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


@dataclass(eq=False)
class Trial:
    """An open trial: its socket, its rules, its connections, its undecided requests (whose sender may be long gone)."""

    name: str
    rules: Rules
    listener: socket.socket
    folder: Path
    requests: int = 0  # so far, refused connections among them
    bytes: int = 0  # of its requests
    refused: bool = False  # a request of the flood
    peers: list[Peer] = field(default_factory=list)
    held: list[tuple[Held, Peer | None]] = field(default_factory=list)

    @property
    def flooded(self) -> bool:
        return self.requests > MAX_REQUESTS or self.bytes > MAX_BYTES


class Server:
    """Serves until the controller closes standard input."""

    def __init__(self, world: World, sockets: Path) -> None:
        self._world = world
        self._sockets = sockets
        self._trials: dict[str, Trial] = {}
        self._selector = selectors.DefaultSelector()
        self._control = bytearray()
        self._ended = False

    def serve(self) -> None:
        self._selector.register(0, selectors.EVENT_READ, self._read_control)
        while not self._ended:
            for key, _ in self._selector.select():
                # An event before it may have closed it, and another have got its number since.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
        for name in list(self._trials):
            self._shut(self._trials.pop(name))

    # The controller's side

    def _read_control(self) -> None:
        data = os.read(0, 1 << 16)
        self._ended = not data
        self._control += data
        *lines, rest = self._control.split(b"\n")
        self._control = rest
        for line in lines:
            self._tell(self._obey(bytes(line)))
        if len(rest) > MAX_CONTROL:
            self._tell({"id": None, "ok": False, "error": f"a control line is longer than {MAX_CONTROL} bytes"})
            self._ended = True

    def _obey(self, line: bytes) -> dict[str, Any]:
        ident = None
        try:
            asked = json.loads(line)
            ident = asked["id"]
            commands: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
                "open": self._open,
                "snapshot": self._snapshot,
                "drain": self._drain,
                "close": self._close,
            }
            if not isinstance(asked["trial"], str) or not NAME.fullmatch(asked["trial"]):
                raise Refused("`trial` is not 1 to 64 letters, digits, - and _")
            if asked["do"] not in commands:
                raise Refused(f"`do` is none of {', '.join(commands)}")
            return {"id": ident, "ok": True, **commands[asked["do"]](asked)}
        except Refused as error:
            return {"id": ident, "ok": False, "error": str(error)}
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            return {"id": ident, "ok": False, "error": f"not a control request: {type(error).__name__}: {error}"}

    def _tell(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]

    def _open(self, asked: dict[str, Any]) -> dict[str, Any]:
        name, rules = asked["trial"], _rules(asked.get("rules", {}))
        if name in self._trials:
            raise Refused(f"trial {name} is already open")
        if len(self._trials) >= MAX_TRIALS:
            raise Refused(f"{MAX_TRIALS} trials are open, which is the most; close one")
        folder = self._sockets / name
        path = folder / SOCKET
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            folder.mkdir(exist_ok=True)  # it may be there from an earlier life of this service
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            path.chmod(0o666)  # the subject runs as another user
            listener.listen(MAX_PEERS)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            raise Refused(f"cannot make the socket {path}: {error}") from None
        trial = Trial(name, rules, listener, folder, held=[(held, None) for held in self._world.held(name)])
        self._trials[name] = trial
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(trial))
        return {"socket": str(path)}

    def _snapshot(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"ledger": self._world.snapshot(self._opened(asked).name)}

    def _drain(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What has been sent so far, read or not, is decided: nothing of the trial is still on its way."""
        trial = self._opened(asked)
        self._read_all(trial)
        while trial.held:
            self._settle(trial, *trial.held[0])
            self._read_all(trial)
        return self._snapshot(asked)

    def _close(self, asked: dict[str, Any]) -> dict[str, Any]:
        trial = self._opened(asked)
        self._shut(self._trials.pop(trial.name))
        self._world.forget(trial.name)
        return {}

    def _opened(self, asked: dict[str, Any]) -> Trial:
        try:
            return self._trials[asked["trial"]]
        except KeyError:
            raise Refused(f"trial {asked['trial']} is not open") from None

    def _shut(self, trial: Trial) -> None:
        self._selector.unregister(trial.listener)
        trial.listener.close()
        (trial.folder / SOCKET).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the socket was all that a trial has there
            trial.folder.rmdir()
        for peer in list(trial.peers):
            self._drop(peer)

    # The subject's side

    def _accept(self, trial: Trial) -> bool:
        """Take one waiting connection; False if none waits."""
        try:
            sock, _ = trial.listener.accept()
        except (BlockingIOError, ConnectionError):
            return False
        sock.setblocking(False)
        peer = Peer(sock, trial)
        trial.peers.append(peer)
        self._watch(peer)
        if len(trial.peers) > MAX_PEERS:
            self._refuse(peer, f"more than {MAX_PEERS} connections")
        return True

    def _read_all(self, trial: Trial) -> None:
        while self._accept(trial):
            pass
        for peer in list(trial.peers):
            while not peer.holding and self._read(peer):
                pass

    def _read(self, peer: Peer) -> bool:
        """Read once and serve what is complete; False if there was nothing to read."""
        if peer.sock.fileno() < 0:
            return False
        try:
            data = peer.sock.recv(1 << 16)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        peer.unread += data
        self._serve_lines(peer)
        if not data and not peer.holding:
            self._drop(peer)  # what stands in `unread` never became a line, so it never was a request
        return bool(data)

    def _serve_lines(self, peer: Peer) -> None:
        """Every complete line is served, whether its sender lives to hear of it or not."""
        while not peer.holding and peer.sock.fileno() >= 0:
            line, newline, rest = peer.unread.partition(b"\n")
            if len(line) > MAX_LINE:
                return self._refuse(peer, f"longer than {MAX_LINE} bytes")
            if not newline:
                return None
            peer.unread = rest
            self._serve(peer, bytes(line))
        return None

    def _serve(self, peer: Peer, line: bytes) -> None:
        trial = peer.trial
        trial.requests += 1
        trial.bytes += len(line)
        if trial.flooded:
            return self._refuse(peer, f"more than {MAX_REQUESTS} requests, or {MAX_BYTES} bytes of them")
        try:
            request = parse(line)
        except Malformed as error:
            self._answer(peer, self._world.malformed(trial.name, str(error)))
            return None
        overtaken = []
        if isinstance(request, Receipt):
            overtaken = [
                (held, sender)
                for held, sender in trial.held
                if held.send.effect == request.effect and (sender is None or sender.gone())
            ]
        outcome = self._world.receive(trial.name, trial.rules, request)
        if isinstance(outcome, Held):
            trial.held.append((outcome, peer))
            peer.holding = True
            self._selector.unregister(peer.sock)  # its hang-up would wake the loop for ever
        elif self._answer(peer, outcome):
            # The race: the asker has just been told how things stand, and only now does the late request arrive.
            for held, sender in overtaken:
                self._settle(trial, held, sender)
        return None

    def _refuse(self, peer: Peer, why: str) -> None:
        """Say what is wrong and end the connection. Of a flood, only the first refusal is recorded and answered."""
        trial = peer.trial
        if not (trial.flooded and trial.refused):
            self._answer(peer, self._world.malformed(trial.name, why))
        trial.requests += 1
        trial.refused = trial.flooded
        if peer.sock.fileno() >= 0:  # the answer may not have got through
            self._drop(peer)

    def _settle(self, trial: Trial, held: Held, sender: Peer | None) -> None:
        """Decide a held request, tell its sender if it still listens, and serve what that sent after it."""
        trial.held.remove((held, sender))
        outcome = self._world.decide(trial.name, trial.rules, held)
        if sender is None:
            return
        sender.holding = False
        self._watch(sender)
        self._answer(sender, outcome)
        self._serve_lines(sender)

    def _answer(self, peer: Peer, outcome: Outcome) -> bool:
        """True if the whole answer has left. A lost reply closes the connection, with all that was sent on it since."""
        if outcome.lost:
            self._drop(peer)
            return False
        data = json.dumps(outcome.answer).encode() + b"\n"
        with contextlib.suppress(OSError):  # gone, or not reading: in both cases it was not told
            if peer.sock.send(data, socket.MSG_NOSIGNAL) == len(data):
                self._world.replied(peer.trial.name, outcome.seq)
                return True
        if not peer.gone():
            self._drop(peer)
        return False

    def _watch(self, peer: Peer) -> None:
        self._selector.register(peer.sock, selectors.EVENT_READ, lambda: self._read(peer))

    def _drop(self, peer: Peer) -> None:
        if not peer.holding:
            self._selector.unregister(peer.sock)
        peer.sock.close()
        peer.trial.peers.remove(peer)


def _rules(given: Any) -> Rules:
    unknown = set(given) - {"decline", "lose_reply", "hold"}
    if unknown:
        raise Refused(f"unknown rules: {', '.join(sorted(unknown))}")
    hold = given.get("hold", [])
    if len(hold) > MAX_HOLD or not all(isinstance(n, int) and n > 0 for n in hold):
        raise Refused(f"`hold` is not a list of at most {MAX_HOLD} numbers from 1")
    texts = [given.get("decline", []), given.get("lose_reply", [])]
    if not all(isinstance(effects, list) and all(isinstance(e, str) for e in effects) for effects in texts):
        raise Refused("`decline` and `lose_reply` are not lists of effects")
    return Rules(frozenset(texts[0]), frozenset(texts[1]), frozenset(hold))
