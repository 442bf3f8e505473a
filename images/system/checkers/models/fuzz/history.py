"""The history of a fuzz trial as requests, each with what became of it, and the lab's own events around them.

Time is the *place* of a line in the history: one process wrote it in the order in which things happened, so a request
whose answer stands before another's invocation ended before the other began. `at_ms` is only for how long one waited.

It reads what the lab's own clients and controller wrote, and raises ValueError for a line that they never write:
that is the lab's fault and no finding. What the daemon answered is not looked at here, whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Json = dict[str, Any]

OK, FAIL, INFO, NONE = "ok", "fail", "info", ""  # how a request ended; NONE: the history ends before
CUT, TIMEOUT, CLOSED = "cut", "timeout", "closed"  # why there is no answer
NEVER = float("inf")  # a place behind every line
LONG = 80  # characters of a name in a finding
CHECK = 0  # the step of a request that no operation of the scenario makes

ARGUMENTS: dict[str, dict[str, type]] = {
    "status": {},
    "chat/new": {"chat": str},
    "chat/list": {},
    "chat/read": {"chat": str},
    "draft/set": {"chat": str, "text": str},
    "prompt/send": {"chat": str, "prompt": str, "text": str},
    "queue/list": {"chat": str},
    "queue/remove": {"chat": str, "prompt": str},
    "outbox/send": {"message": str, "text": str},
    "watch/add": {"chat": str, "path": str},
    "watch/rm": {"chat": str, "path": str},
    "chat/rename": {"chat": str, "title": str},
    "chat/mark_unread": {"chat": str},
    "chat/set_mode": {"chat": str, "mode": str},
    "permission/decide": {"chat": str, "prompt": str, "allow": bool},
}


class Request(NamedTuple):
    """One request and what became of it."""

    life: int
    step: int
    op: str
    args: Json
    begin: int  # place of its invocation
    end: float  # place of its answer, or of the line that says there is none
    lands: float  # place by which it has taken effect, if it ever does: without an answer, the next life's start
    outcome: str
    answer: Any  # the result, the error, or why there is none
    began_ms: float
    ended_ms: float

    @property
    def failed(self) -> bool:
        """It was answered that it did surely not happen."""
        return self.outcome == FAIL

    @property
    def code(self) -> Any:
        """Of the error that it was answered with; None if there is none."""
        return self.answer.get("code") if self.failed and isinstance(self.answer, dict) else None

    @property
    def who(self) -> str:
        """As a finding calls it."""
        named = (f"{key}={cut(self.args[key])}" for key in ("chat", "prompt", "path", "message") if key in self.args)
        return " ".join((f"step={self.step} op={self.op}", *named))

    @property
    def where(self) -> str:
        """Where it asked from, in a sentence."""
        by = f"by {self.who}" if self.step else "in the check"
        return f"{by} of life {self.life}"


class Ledger(NamedTuple):
    """What the outside world had seen by then: how often each effect has landed."""

    place: int
    effects: Mapping[str, int]


class Still(NamedTuple):
    """The machine stood still from then to then."""

    began_ms: float
    ended_ms: float


class Settled(NamedTuple):
    """The operations of the last life have ended, and the daemon said that it is idle; or never did."""

    place: int
    idle: bool


class Story(NamedTuple):
    requests: tuple[Request, ...]  # as they were invoked
    answered: tuple[Request, ...]  # those that were, as they were answered
    ups: Mapping[int, int]  # life: place of its first answer
    kills: int
    ledgers: tuple[Ledger, ...]
    stills: tuple[Still, ...]
    settled: Settled | None

    @property
    def last_ledger(self) -> float:
        """Place of the last snapshot; before every line if there is none."""
        return self.ledgers[-1].place if self.ledgers else -1

    def effects(self, prefix: str) -> dict[str, int]:
        """How often each effect of this kind has landed in the end."""
        last = self.ledgers[-1].effects if self.ledgers else {}
        return {effect.removeprefix(prefix): times for effect, times in last.items() if effect.startswith(prefix)}

    def other_effects(self, *prefixes: str) -> list[str]:
        """Effects of no such kind."""
        return [
            effect for effect in (self.ledgers[-1].effects if self.ledgers else {}) if not effect.startswith(prefixes)
        ]

    def first_seen(self, effect: str) -> float:
        """Place of the first snapshot that has this effect."""
        return next((ledger.place for ledger in self.ledgers if effect in ledger.effects), NEVER)


def read_story(history: Iterable[Json]) -> Story:
    """Raises ValueError for a history that the lab does not write, naming the line."""
    reader = _Reader()
    for place, line in enumerate(history):
        try:
            reader.read(place, line)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"line {place} of the history is malformed ({type(error).__name__}: {error}): {line!r:.200}"
            ) from error
    return reader.story()


class _Reader:
    """The history as far as it has been read."""

    def __init__(self) -> None:
        self._invoked: dict[int, tuple[int, Json]] = {}  # id: place and line
        self._ended: dict[int, tuple[int, Json]] = {}
        self._ups: dict[int, int] = {}
        self._over = 0  # the last life of which nothing waits any more
        self._kills = 0
        self._ledgers: list[Ledger] = []
        self._stills: list[Still] = []
        self._settled: Settled | None = None

    def read(self, place: int, line: Json) -> None:
        event = line["event"]
        if event == "invoke":
            self._invoke(place, line)
        elif event in (OK, FAIL, INFO):
            self._end(place, line)
        elif event == "up":
            self._ups[_number(line["life"])] = place
        elif event == "gone":
            self._over = _number(line["life"])
        elif event == "killed":
            self._kills += 1
        elif event == "ledger":
            self._ledgers.append(_ledger(place, line["ledger"]))
        elif event == "still":
            self._stills.append(Still(_number(line["at_ms"]) - _number(line["ms"]), line["at_ms"]))
        elif event == "settled":
            self._settled = Settled(place, _boolean(line["idle"]))
        elif event == "error":
            raise ValueError(f"the clients failed: {line['what']}")
        elif event not in ("check", "check-failed", "done"):  # a check's own requests say all that it saw
            raise ValueError(f"line {place} of the history is an unknown event: {line!r:.200}")

    def story(self) -> Story:
        requests = tuple(self._request(ident, place, line) for ident, (place, line) in self._invoked.items())
        answered = sorted((r for r in requests if r.outcome in (OK, FAIL)), key=lambda request: request.end)
        return Story(requests, tuple(answered), self._ups, self._kills, tuple(self._ledgers), tuple(self._stills),
                     self._settled)  # fmt: skip

    def _invoke(self, place: int, line: Json) -> None:
        op, args = line["op"], line["args"]
        if op not in ARGUMENTS:
            raise ValueError(f"line {place} of the history invokes an unknown operation {op!r}")
        for name, kind in ARGUMENTS[op].items():
            if not isinstance(args[name], kind):
                raise ValueError(
                    f"line {place} of the history: {name} of {op} is no {kind.__name__}: {args[name]!r:.80}"
                )
        for number in ("life", "step", "at_ms"):
            _number(line[number])
        if self._invoked.setdefault(line["id"], (place, line))[0] != place:
            raise ValueError(f"line {place} of the history invokes {line['id']} a second time")

    def _end(self, place: int, line: Json) -> None:
        ident = line["id"]
        if ident not in self._invoked or ident in self._ended:
            raise ValueError(f"line {place} of the history ends request {ident}, which does not wait")
        _number(line["at_ms"])
        if line["event"] == INFO and line["why"] not in (CUT, TIMEOUT, CLOSED):
            raise ValueError(f"line {place} of the history: a request has no answer because of {line['why']!r}")
        self._ended[ident] = (place, line)

    def _request(self, ident: int, begin: int, invoked: Json) -> Request:
        life, began_ms = invoked["life"], invoked["at_ms"]
        at: tuple[float, Json] = self._ended.get(ident, (NEVER, {"event": NONE, "at_ms": began_ms}))
        end, line = at
        outcome = line["event"]
        if outcome == NONE and (life <= self._over or any(later > life for later in self._ups)):
            raise ValueError(
                f"request {ident} (step={invoked['step']} op={invoked['op']}) has no end, but its life has"
            )
        answer = line.get({OK: "result", FAIL: "error", INFO: "why"}.get(outcome, ""))
        lands = end if outcome in (OK, FAIL) else self._next_start(life)
        return Request(life, invoked["step"], invoked["op"], invoked["args"], begin, end, lands, outcome, answer,
                       began_ms, line["at_ms"])  # fmt: skip

    def _next_start(self, life: int) -> float:
        """By the first answer of a later life the recovery has decided what became of this one."""
        return min((place for later, place in self._ups.items() if later > life), default=NEVER)


def cut(name: str) -> str:
    """A name, for a finding: a daemon may make up a long one."""
    return name if len(name) <= LONG else f"{name[:LONG]}…"


def _ledger(place: int, snapshot: Json) -> Ledger:
    effects: dict[str, int] = {}
    for effect in snapshot["effects"]:
        effects[effect["effect"]] = effects.get(effect["effect"], 0) + 1
    return Ledger(place, effects)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is no number")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.80} is neither true nor false")
    return value
