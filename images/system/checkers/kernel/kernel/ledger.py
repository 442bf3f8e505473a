"""The effect ledger's word, indexed by effect: the prepared state's and the trial's, one after the other."""

from __future__ import annotations

from typing import Any, NamedTuple


class Request(NamedTuple):
    seq: int
    do: str
    effect: str
    kind: str | None  # class of the effect
    key: str | None
    token: int
    result: str
    reply: str
    trial: bool  # else of the prepared state

    @property
    def name(self) -> str:
        """As a finding calls it: the number that the snapshot shows."""
        return f"request {self.seq}" if self.trial else f"prepared request {self.seq}"


class Effect(NamedTuple):
    effect: str
    key: str | None
    kind: str
    tool: Any
    args: Any
    receipt: Any
    request: int
    name: str


class Ledger(NamedTuple):
    requests: tuple[Request, ...]  # in the order in which they arrived
    effects: tuple[Effect, ...]

    def of(self, effect: str) -> tuple[Request, ...]:
        """Every request about one effect."""
        return tuple(r for r in self.requests if r.effect == effect)


def read_ledger(prepared: dict[str, Any] | None, trial: dict[str, Any]) -> Ledger:
    """Both snapshots as one. Raises KeyError if one is none."""
    requests: list[Request] = []
    effects: list[Effect] = []
    for snapshot, own in ((prepared, False), (trial, True)):
        if snapshot is None:
            continue
        requests += [_request(r, own) for r in sorted(snapshot["requests"], key=lambda r: r["seq"])]
        effects += [_effect(e, own) for e in snapshot["effects"]]
    return Ledger(tuple(requests), tuple(effects))


def _request(r: dict[str, Any], own: bool) -> Request:
    effect, token = r.get("effect"), r.get("token")
    return Request(
        r["seq"],
        str(r.get("do")),
        effect if isinstance(effect, str) else repr(effect),
        r.get("class"),
        r.get("key"),
        token if type(token) is int else -1,
        r["result"],
        r["reply"],
        own,
    )


def _effect(e: dict[str, Any], own: bool) -> Effect:
    name = f"request {e['request']}" if own else f"prepared request {e['request']}"
    return Effect(e["effect"], e["key"], e["class"], e["tool"], e["args"], e["receipt"], e["request"], name)
