"""Draws scenarios: from a seed, a number and a plan file to what three clients do and when the daemon dies. Pure.

The same input gives the same scenario, on every machine and under every Python that the lab supports.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from lab.fuzz.model import PAUSE, Kill, Life, Limits, Op, Scenario
from lab.model import Json
from lab.plan.plan_file import PlanFile
from lab.subject.load import Hook

PAUSES = 0.25  # of the operations are followed by one: without, queues never drain and turns never end in between
HOT = 0.6  # of the operations go to one chat of the life: only behind a running turn does a queue build up
RECENT = 4  # prompts: an older one has run, and taking it away asks nothing
OCCURRENCES = (1, 1, 1, 1, 1, 1, 2, 2, 3, 5, 8)  # of a hook in one life: most are reached a few times, some always
LATER = 0.3  # of the moments are followed by some ms, so that they meet what the answer leaves behind
LATER_MS = 40
AGAIN = 0.1  # of what is sent or watched is the same as before
LOST_REPLIES = 0.3  # of the messages: they wait until they are sent again, and a kill may come before that
START_MS = 250  # about what a container and a recovery take
SLOW_MS = (2300, 2800)  # a turn over the limit for an answer: who is served only behind it waits too long


def scenario(plan: PlanFile, hooks: Sequence[Hook], seed: int, number: int) -> Scenario:
    """The `number`-th scenario of a seed."""
    script = _Script(plan, random.Random(f"{seed}/fuzz/{number}"))
    count = script.rng.randint(*plan.kills)
    lives = []
    for life in range(1, count + 2):
        ops = script.life(first=life == 1)
        lives.append(Life(ops, script.kill(hooks, len(ops), first=life == 1) if life <= count else None))
    limits = Limits(**plan.limits.model_dump())
    return Scenario(seed, number, plan.adapter, plan.clients, limits, tuple(lives), tuple(script.lost_replies))


class _Script:
    """A scenario while it is drawn: what has been asked for so far."""

    def __init__(self, plan: PlanFile, rng: random.Random) -> None:
        self.rng = rng
        self._plan = plan
        self._steps = 0
        self._chats: list[str] = []
        self._prompts: list[tuple[str, str, str]] = []  # chat, prompt, cue
        self._watches: list[tuple[str, str]] = []  # chat, path
        self._sent: list[tuple[str, Json]] = []  # prompts and messages: operation, arguments
        self._hot = ""
        self.lost_replies: list[str] = []

    def life(self, *, first: bool) -> tuple[Op, ...]:
        ops: list[Op] = []
        if first:  # something to talk about; the others come in the course of it
            ops += [self._op(1, "chat/new", self._new_chat()) for _ in range((self._plan.chats + 1) // 2)]
            ops += [self._pause(client) for client in range(2, self._plan.clients + 1)]
        self._hot = self.rng.choice(self._chats)
        if not first:  # the kill may have come before it was made, and without it most of what follows is refused
            self._steps += 1
            ops.append(self._op(1, "chat/new", {"chat": self._hot}))
        for _ in range(self.rng.randint(*self._plan.ops)):
            client = self.rng.randint(1, self._plan.clients)
            name = _drawn(self.rng, self._plan.weights)
            ops.append(self._op(client, name, self._args(name)))
            if self.rng.random() < PAUSES:
                ops.append(self._pause(client))
        return tuple(ops)

    def kill(self, hooks: Sequence[Hook], operations: int, *, first: bool) -> Kill:
        """How a life ends. A first life recovers from nothing."""
        kind = _drawn(self.rng, self._plan.strikes)
        if kind == "hook":
            hook = self.rng.choice([h for h in hooks if h.where == "run" or not first])
            return Kill("hook", hook.name, self.rng.choice(OCCURRENCES))
        if kind == "start":
            return Kill("start", after_ms=self.rng.randint(0, START_MS))
        later = self.rng.randint(1, LATER_MS) if self.rng.random() < LATER else 0
        if kind == "end":
            return Kill("end", after_ms=later)
        return Kill(kind, n=self.rng.randint(1, max(1, operations)), after_ms=later)

    def _op(self, client: int, name: str, args: Json) -> Op:
        return Op(self._steps, client, name, args)

    def _pause(self, client: int) -> Op:
        self._steps += 1
        return Op(self._steps, client, PAUSE, {"ms": self.rng.randint(*self._plan.pause_ms)})

    def _new_chat(self) -> Json:
        """The next chat; once there are all, one of them again, which must change nothing."""
        self._steps += 1
        if len(self._chats) < self._plan.chats:
            self._chats.append(f"c{len(self._chats) + 1}")
            return {"chat": self._chats[-1]}
        return {"chat": self.rng.choice(self._chats)}

    def _args(self, name: str) -> Json:
        """Arguments of an operation, its step in every value that it writes."""
        if name == "chat/new":
            return self._new_chat()
        self._steps += 1
        step = self._steps
        if name in ("status", "chat/list"):
            return {}
        if name in ("outbox/send", "prompt/send"):
            return self._again(name) or self._send(name, step)
        if name in ("watch/add", "watch/rm") and self._watches and (name == "watch/rm" or self.rng.random() < AGAIN):
            chat, path = self.rng.choice(self._watches)
            return {"chat": chat, "path": path}
        if name in ("queue/remove", "permission/decide") and self._prompts:
            return self._about_a_prompt(name)
        chat = self._chat()
        if name == "watch/add":
            self._watches.append((chat, f"/w/{step}"))
        more: dict[str, Json] = {
            "draft/set": {"text": f"d{step}"},
            "watch/add": {"path": f"/w/{step}"},
            "watch/rm": {"path": f"/w/{step}"},
            "chat/rename": {"title": f"t{step}"},
            "chat/set_mode": {"mode": f"o{step}"},
            "queue/remove": {"prompt": f"p{step}"},  # of which nobody has heard
            "permission/decide": {"prompt": f"p{step}", "allow": True},
        }
        return {"chat": chat, **more.get(name, {})}

    def _chat(self) -> str:
        return self._hot if self.rng.random() < HOT else self.rng.choice(self._chats)

    def _again(self, name: str) -> Json | None:
        """Now and then the same once more, as a client does that has got no answer: it must change nothing."""
        sent = [args for op, args in self._sent if op == name][-RECENT:]
        return dict(self.rng.choice(sent)) if sent and self.rng.random() < AGAIN else None

    def _send(self, name: str, step: int) -> Json:
        """A prompt or a message that is new."""
        if name == "outbox/send":
            args: Json = {"message": f"m{step}", "text": f"message {step}"}
            if self.rng.random() < LOST_REPLIES:
                self.lost_replies.append(f"message:m{step}")
        else:
            args = self._prompt(self._chat(), step)
        self._sent.append((name, args))
        return args

    def _prompt(self, chat: str, step: int) -> Json:
        cue = _drawn(self.rng, self._plan.cues) if self._plan.cues else ""
        number = {"reply": self.rng.randint(1, 4), "slow": self.rng.randint(*SLOW_MS)}.get(cue)
        text = cue if number is None else f"{cue} {number}"
        self._prompts.append((chat, f"p{step}", cue))
        return {"chat": chat, "prompt": f"p{step}", "text": text}

    def _about_a_prompt(self, name: str) -> Json:
        """One of the last prompts; for a decision one that asks for it, if there is any."""
        asking = [p for p in self._prompts if p[2] == "ask"] if name == "permission/decide" else []
        chat, prompt, _ = self.rng.choice((asking or self._prompts)[-RECENT:])
        decision = {"allow": self.rng.random() < 0.5} if name == "permission/decide" else {}
        return {"chat": chat, "prompt": prompt, **decision}


def _drawn(rng: random.Random, weights: Mapping[str, float]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
