"""A small builder of fuzz histories, as the clients and the controller write them (docs/fuzz.md), and the real
oracle.

A history is told in order: `ok`, `fail` and `info` are whole requests; `invoke` and the `answer_*` methods are
their halves, for requests side by side. What the daemon shows is the test's own word: nothing here keeps a model of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import checkers  # noqa: F401 - makes the next line work
from verifier.fuzz import judge

Json = dict[str, Any]
Judge = Callable[[Any, Json], Json]

LIMITS = {"answer_ms": 2000, "timeout_ms": 3000, "up_s": 15, "settle_s": 20}
NO_SUCH_CHAT = {"code": -32001, "message": "no such chat"}
WRITTEN = {"status": {"idle": True}, "queue/remove": {"removed": True}, "queue/list": {"queue": []}}


def chat(**fields: Any) -> Json:
    """What `chat/read` answers of a chat in which nothing was done, but for `fields`."""
    empty: Json = {"draft": None, "queue": [], "running": None, "log": [], "watches": [], "title": None, "mode": None,
                   "unread": False, "decisions": {}}  # fmt: skip
    return empty | fields


def logged(*prompts: str, outcome: str = "done") -> list[Json]:
    return [{"prompt": prompt, "outcome": outcome} for prompt in prompts]


class History:
    """Begins with the first life, which is up."""

    def __init__(self) -> None:
        self.lines: list[Json] = []
        self.life = 0
        self.now_ms = 0.0
        self._ids = 0
        self._steps = 0
        self.start()

    def start(self) -> History:
        """The next life is up."""
        self.life += 1
        return self.event("up", life=self.life, at_ms=self.now_ms)

    def event(self, name: str, **fields: Any) -> History:
        self.lines.append({"event": name, **fields})
        return self

    def wait(self, ms: float) -> History:
        self.now_ms += ms
        return self

    def invoke(self, op: str, /, client: int = 1, step: int | None = None, **args: Any) -> int:
        """A request is about to be sent. Returns its id. Its step is the next, if it is not told."""
        self._ids += 1
        self._steps += step is None
        step = self._steps if step is None else step
        self.event(
            "invoke", life=self.life, id=self._ids, step=step, client=client, op=op, args=args, at_ms=self.now_ms
        )
        self.wait(1)
        return self._ids

    def answer(self, ident: int, result: Any = None) -> History:
        return self.event("ok", id=ident, result={} if result is None else result, at_ms=self.now_ms)

    def answer_error(self, ident: int, error: Any) -> History:
        return self.event("fail", id=ident, error=error, at_ms=self.now_ms)

    def no_answer(self, ident: int, why: str) -> History:
        return self.event("info", id=ident, why=why, at_ms=self.now_ms)

    def ok(self, op: str, /, result: Any = None, **args: Any) -> History:
        result = WRITTEN.get(op) if result is None else result
        return self.answer(self.invoke(op, **args), result)

    def fail(self, op: str, /, error: Any, **args: Any) -> History:
        return self.answer_error(self.invoke(op, **args), error)

    def info(self, op: str, /, why: str, **args: Any) -> History:
        """Without an answer. `cut` kills the daemon and says so; `timeout` waits for the limit of the clients."""
        ident = self.invoke(op, **args)
        if why == "cut":
            return self.kill(ident)
        if why == "timeout":
            self.wait(LIMITS["timeout_ms"])
        return self.no_answer(ident, why)

    def kill(self, *waiting: int) -> History:
        """The daemon dies, and with it the answers to the requests that wait."""
        self.event("killed", life=self.life, at="the end of its operations")
        for ident in waiting:
            self.no_answer(ident, "cut")
        return self.event("gone", life=self.life)

    def check(self, chats: dict[str, Any], *, final: bool = False, listed: list[str] | None = None) -> History:
        """What was read back: each chat, or None for one that it says is not there."""
        listed = [name for name, read in chats.items() if read is not None] if listed is None else listed
        self.ok("chat/list", {"chats": listed}, client=0, step=0)
        for name, read in chats.items():
            ident = self.invoke("chat/read", client=0, step=0, chat=name)
            if read is None:
                self.answer_error(ident, NO_SUCH_CHAT)
            else:
                self.answer(ident, read)
        observed = {"chats": listed, "read": chats}
        return self.event("check", life=self.life, final=final, observed=observed, at_ms=self.now_ms)

    def restart(self, chats: dict[str, Any]) -> History:
        """A kill between requests, a start and its check."""
        return self.kill().start().check(chats)

    def finish(self, chats: dict[str, Any], *effects: str, idle: bool = True) -> History:
        """The operations have ended, the final check, and what the ledger saw in all."""
        return self.event("settled", idle=idle).check(chats, final=True).ledger(*effects)

    def ledger(self, *effects: str) -> History:
        landed = [{"seq": 2 * n, "effect": effect, "request": 2 * n - 1} for n, effect in enumerate(effects, start=1)]
        return self.event("ledger", ledger={"requests": [], "effects": landed})

    def still(self, ms: float) -> History:
        """The machine stands still."""
        return self.wait(ms).event("still", ms=ms, at_ms=self.now_ms)

    def judged(self, by: Judge = judge) -> Json:
        """What the oracle answers."""
        return by({}, {"workload": {"limits": LIMITS}, "history": self.lines})

    def broken(self, by: Judge = judge) -> dict[str, str]:
        """The properties that differ, with what each says."""
        return {name: finding["differs"]["why"] for name, finding in self.judged(by).items() if finding["differs"]}


def work(history: History) -> History:
    """Enough for a trial to be evidence: a draft, a kill, and a check that finds the draft."""
    return history.ok("chat/new", chat="c0").ok("draft/set", chat="c0", text="d0").restart({"c0": chat(draft="d0")})
