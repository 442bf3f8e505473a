"""A little daemon in memory that keeps every promise of docs/fuzz.md, and histories of trials of it. Each is sound.

Three clients are served side by side, turns and deliveries go on in between, kills cut what waits or had just been
answered, what timed out may land later in the same life, and a kill may hit a check. All of it is drawn from one seed.
With `drop` the daemon forgets one acknowledged write at its last kill.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

from fuzz_history import NO_SUCH_CHAT, History, Json, chat

CHATS = ("c1", "c2", "c3")
CLIENTS = (1, 2, 3)
EVENTS = (10, 45)  # of a life
DROPPED = {
    "chat/new": "chats-durable",
    "draft/set": "drafts-durable",
    "prompt/send": "prompts-once",
    "queue/remove": "removals-final",
    "outbox/send": "outbox-once",
    "watch/add": "watches-durable",
    "watch/rm": "watches-durable",
    "chat/rename": "settings-kept",
    "chat/set_mode": "settings-kept",
    "chat/mark_unread": "settings-kept",
}
"""What may be dropped, and the property that must see it."""


SETTINGS = {
    "draft/set": ("draft", "text"),
    "chat/rename": ("title", "title"),
    "chat/set_mode": ("mode", "mode"),
    "chat/mark_unread": ("unread", ""),
}
"""The field of a chat that an operation sets, and the argument to which."""


class Refused(Exception):
    """An operation that was surely not done."""


@dataclass
class State:
    """What is durable, and what the outside world has seen."""

    chats: dict[str, Json] = field(default_factory=dict)
    outbox: list[str] = field(default_factory=list)
    prompts: set[str] = field(default_factory=set)
    effects: list[str] = field(default_factory=list)

    def apply(self, op: str, args: Json) -> Any:
        """Do one operation at one instant."""
        if op == "chat/new":
            self.chats.setdefault(args["chat"], chat())
            return {}
        if op == "status":
            return {"idle": not self.outbox and not any(c["queue"] or c["running"] for c in self.chats.values())}
        if op == "chat/list":
            return {"chats": list(self.chats)}
        if op == "outbox/send":
            self.outbox.append(args["message"])
            return {}
        if args["chat"] not in self.chats:
            raise Refused
        return self._in_chat(self.chats[args["chat"]], op, args)

    def _in_chat(self, held: Json, op: str, args: Json) -> Any:
        if op == "chat/read":
            return copy.deepcopy(held)
        if op == "queue/list":
            return {"queue": list(held["queue"])}
        if op == "queue/remove":
            waits = args["prompt"] in held["queue"]
            held["queue"] = [prompt for prompt in held["queue"] if prompt != args["prompt"]]
            return {"removed": waits}
        if op == "prompt/send":
            held["unread"] = False
            if args["prompt"] not in self.prompts:
                self.prompts.add(args["prompt"])
                held["queue"].append(args["prompt"])
        elif op in ("watch/add", "watch/rm"):
            others = [path for path in held["watches"] if path != args["path"]]
            held["watches"] = others + [args["path"]] * (op == "watch/add")
        elif op == "permission/decide":
            held["decisions"][args["prompt"]] = args["allow"]
        else:
            field, argument = SETTINGS[op]
            held[field] = args[argument] if argument else True
        return {}

    def work(self, rng: random.Random) -> bool:
        """One thing that it does by itself; False if there is none."""
        busy = [held for held in self.chats.values() if held["queue"] or held["running"]]
        if self.outbox and (not busy or rng.random() < 0.3):
            self.effects.append(f"message:{self.outbox.pop(0)}")
        elif busy:
            self._turn(rng.choice(busy), rng)
        return bool(busy or self.outbox)

    def _turn(self, held: Json, rng: random.Random) -> None:
        if held["running"] is None:
            held["running"] = held["queue"].pop(0)
        elif (run := f"run:{held['running']}") not in self.effects:
            self.effects.append(run)
        else:
            held["log"].append({"prompt": held["running"], "outcome": rng.choice(("done", "crashed", "hung"))})
            held["running"] = None

    def recover(self) -> None:
        for held in self.chats.values():
            if held["running"] is not None:
                held["log"].append({"prompt": held["running"], "outcome": "unknown"})
                held["running"] = None


@dataclass
class Waiting:
    """A request on its way. `result` is there once it has been carried out."""

    ident: int
    op: str
    args: Json
    landed: bool = False
    result: Any = None

    def land(self, state: State) -> None:
        self.landed = True
        try:
            self.result = state.apply(self.op, self.args)
        except Refused:
            self.result = Refused

    def answer(self, history: History) -> None:
        if self.result is Refused:
            history.answer_error(self.ident, NO_SUCH_CHAT)
        else:
            history.answer(self.ident, self.result)


class Trial:
    """Draws one trial. `history` is whole when it has been made; `dropped` is the operation that was forgotten."""

    def __init__(self, rng: random.Random, kills: int, *, drop: str | None = None) -> None:
        self.rng = rng
        self.history = History()
        self.state = State()
        self.dropped = False
        self._waits: dict[int, Waiting] = {}  # by client
        self._late: list[Waiting] = []  # timed out
        self._written = 0
        self._prompts: list[tuple[str, str]] = []  # chat and prompt, asked for
        self._watches: list[tuple[str, str]] = []
        for name in CHATS[:2]:  # the third may come or not
            self._at_once(1, "chat/new", chat=name)
        for life in range(1, kills + 1):
            self._operate(timeouts=drop is None)
            self._kill(drop if life == kills else None)
        self._operate(timeouts=True)
        self._finish()

    def _operate(self, *, timeouts: bool) -> None:
        for _ in range(self.rng.randint(*EVENTS)):
            client = self.rng.choice(CLIENTS)
            happening = self.rng.random()
            if happening < 0.2:
                self.state.work(self.rng)
            elif self._late and happening < 0.3:
                self._late.pop(self.rng.randrange(len(self._late))).land(self.state)
            elif client not in self._waits:
                self._waits[client] = self._invoke(client, *self._drawn())
            elif timeouts and happening > 0.95:
                self._time_out(self._waits.pop(client))
            elif not self._waits[client].landed:
                self._waits[client].land(self.state)
            else:
                self._waits.pop(client).answer(self.history)

    def _invoke(self, client: int, op: str, args: Json) -> Waiting:
        return Waiting(self.history.invoke(op, client=client, step=0 if client == 0 else None, **args), op, args)

    def _time_out(self, waiting: Waiting) -> None:
        self.history.no_answer(waiting.ident, "timeout")
        if not waiting.landed:
            self._late.append(waiting)

    def _at_once(self, client: int, op: str, **args: Any) -> Any:
        """A request with nothing beside it but what the daemon does by itself."""
        waiting = self._invoke(client, op, args)
        for _ in range(self.rng.randint(0, 2) if client == 0 else 0):
            self.state.work(self.rng)
        waiting.land(self.state)
        waiting.answer(self.history)
        return waiting.result

    def _kill(self, drop: str | None) -> None:
        if drop is not None:
            self._answer_all()
            self._drop(drop)
        for waiting in self._late:
            if self.rng.random() < 0.5:
                waiting.land(self.state)
        self.history.event("killed", life=self.history.life, at="a moment")
        for waiting in self._waits.values():
            if not waiting.landed and self.rng.random() < 0.5:
                waiting.land(self.state)
            if waiting.landed and self.rng.random() < 0.3:  # it had answered, and the answer lay in the socket
                waiting.answer(self.history)
            else:
                self.history.no_answer(waiting.ident, "cut")
        self._waits, self._late = {}, []
        self.history.event("gone", life=self.history.life).ledger(*self.state.effects)
        self.state.recover()
        self.history.start()
        if drop is None and self.rng.random() < 0.15:
            self._at_once(0, "chat/list")
            self._kill(None)  # in its check
        else:
            self._check(final=False)

    def _check(self, *, final: bool) -> None:
        listed = self._at_once(0, "chat/list")["chats"]
        read = {name: self._at_once(0, "chat/read", chat=name) for name in CHATS}
        read = {name: None if result is Refused else result for name, result in read.items()}
        self.history.event("check", life=self.history.life, final=final, at_ms=self.history.now_ms,
                           observed={"chats": listed, "read": read})  # fmt: skip

    def _answer_all(self) -> None:
        for waiting in self._waits.values():
            if not waiting.landed:
                waiting.land(self.state)
            waiting.answer(self.history)
        self._waits = {}

    def _finish(self) -> None:
        self._answer_all()
        while self.state.work(self.rng):
            pass
        self.history.event("settled", idle=True)
        for waiting in self._late:
            if self.rng.random() < 0.5:
                waiting.land(self.state)
        self._check(final=True)
        self.history.ledger(*self.state.effects)

    def _drop(self, op: str) -> None:
        """An acknowledged write with nothing beside it; the kill then takes it back."""
        args = self._undone(op)
        before = copy.deepcopy(self.state)
        self._at_once(1, op, **args)
        self.state = before
        self.dropped = True

    def _undone(self, op: str) -> Json:
        """Arguments by which this operation changes something."""
        name, number = CHATS[0], self._number()
        if op == "chat/new":
            return {"chat": f"c{number}"}
        self._at_once(1, "chat/new", chat=name)
        if op == "queue/remove":
            self._at_once(1, "prompt/send", chat=name, prompt=f"p{number}", text="")
            return {"chat": name, "prompt": f"p{number}"}
        if op == "watch/rm":
            self._at_once(1, "watch/add", chat=name, path=f"/w/{number}")
            return {"chat": name, "path": f"/w/{number}"}
        if op == "chat/mark_unread":
            self._at_once(1, "prompt/send", chat=name, prompt=f"p{number}", text="")
        return self._args(op, name, number)

    def _number(self) -> int:
        self._written += 1
        return self._written

    def _drawn(self) -> tuple[str, Json]:
        """An operation; often about a prompt or a path that was just asked for, also before its answer."""
        op, number = self.rng.choice(OPS), self._number()
        asked = {"queue/remove": self._prompts, "permission/decide": self._prompts, "watch/rm": self._watches}.get(
            op, []
        )
        if op == "prompt/send" and self.rng.random() < 0.2:
            asked = self._prompts  # sent again
        if asked:
            name, old = self.rng.choice(asked[-4:])
            detail = {"path": old} if op == "watch/rm" else {"prompt": old}
            return op, self._args(op, name, number) | detail
        return op, self._args(op, self.rng.choice(CHATS), number)

    def _args(self, op: str, name: str, number: int) -> Json:
        if op in ("status", "chat/list"):
            return {}
        if op == "outbox/send":
            return {"message": f"m{number}", "text": ""}
        if op == "prompt/send":
            self._prompts.append((name, f"p{number}"))
        if op == "watch/add":
            self._watches.append((name, f"/w/{number}"))
        more: dict[str, Json] = {
            "draft/set": {"text": f"d{number}"},
            "prompt/send": {"prompt": f"p{number}", "text": ""},
            "queue/remove": {"prompt": f"p{number}"},
            "watch/add": {"path": f"/w/{number}"},
            "watch/rm": {"path": f"/w/{number}"},
            "chat/rename": {"title": f"t{number}"},
            "chat/set_mode": {"mode": f"o{number}"},
            "permission/decide": {"prompt": f"p{number}", "allow": number % 2 == 0},
        }
        return {"chat": name, **more.get(op, {})}


OPS = ("chat/new", "draft/set", "prompt/send", "prompt/send", "prompt/send", "queue/remove", "queue/remove",
       "outbox/send", "watch/add", "watch/rm", "chat/rename", "chat/mark_unread", "chat/set_mode", "permission/decide",
       "chat/read", "chat/list", "queue/list", "status")  # fmt: skip
