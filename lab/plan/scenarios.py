"""Draws scenarios: from a seed, a number and a plan file to what clients do and when the daemon dies. Pure.

The same input gives the same scenario, on every machine and under every Python that the lab supports.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from lab.model import END, PAUSE, START, CrashPoint, Json, Life, Limits, Op, Scenario
from lab.plan.plan_file import FIELD, Operation, PlanFile, Thing
from lab.subject.spec import Hook

PAUSES = 0.25  # of the operations are followed by one: without, queues never drain and turns never end in between
HOT = 0.6  # of the operations go to one of the few things: only behind a running turn does a queue build up
RECENT = 4  # of what was created is created again: a client that got no answer asks soon
OCCURRENCES = (1, 1, 1, 1, 1, 1, 2, 2, 3, 5, 8)  # of a hook in one life: most are reached a few times, some always
LATER = 0.3  # of the moments are followed by some ms, so that they meet what the answer leaves behind
LATER_MS = 40
AGAIN = 0.1  # of what is created is the same as before
LOST_REPLIES = 0.3  # of the effects: they wait until they are sent again, and a kill may come before that
START_MS = 250  # about what a container and a recovery take


def scenario(plan: PlanFile, hooks: Sequence[Hook], seed: int, number: int) -> Scenario:
    """The `number`-th scenario of a seed."""
    script = _Script(plan, random.Random(f"{seed}/fuzz/{number}"))
    count = script.rng.randint(*plan.kills)
    lives = []
    for life in range(1, count + 2):
        ops = script.life(first=life == 1, last=life == count + 1)
        lives.append(Life(ops, script.kill(hooks, len(ops), first=life == 1) if life <= count else None))
    limits = Limits(**plan.limits.model_dump())
    return Scenario(seed, number, plan.adapter, plan.clients, limits, tuple(lives), tuple(script.lost_replies))


class _Script:
    """A scenario while it is drawn: what has been asked for so far."""

    def __init__(self, plan: PlanFile, rng: random.Random) -> None:
        self.rng = rng
        self._plan = plan
        self._steps = 0
        # Of each thing its arguments as it was created, the last one last; of few with no creator all from the start.
        self._there: dict[str, list[Json]] = {
            name: [] if self._creators(name) else [{name: _counted(thing, n)} for n in range(1, (thing.most or 0) + 1)]
            for name, thing in plan.things.items()
        }
        self._few_things = [name for name, thing in plan.things.items() if thing.most]
        self._hot: dict[str, Json] = {}  # of the few, the one that this life is about
        self.lost_replies: list[str] = []

    def life(self, *, first: bool, last: bool) -> tuple[Op, ...]:
        ops = self._created() if first else []
        self._hot = {name: self.rng.choice(self._there[name]) for name in self._few_things}
        if not first:  # the kill may have come before it was made, and without it most of what follows is refused
            for thing in self._hot:
                ops += [self._op(1, name, dict(self._hot[thing])) for name in self._creators(thing)[:1]]
        for _ in range(self.rng.randint(*self._plan.ops)):
            ops += self._one(_drawn(self.rng, {name: op.weight for name, op in self._plan.operations.items()}))
        if last:
            ops += self._owed({op.op for op in ops})
        return tuple(ops)

    def _created(self) -> list[Op]:
        """Something to talk about: half of the few things; the others come in the course of it."""
        ops = []
        for thing in self._few_things:
            for name in self._creators(thing)[:1]:
                half = ((self._plan.things[thing].most or 0) + 1) // 2
                ops += [self._op(1, name, self._args(name)) for _ in range(half)]
        return ops + [self._pause(client) for client in range(2, self._plan.clients + 1) if ops]

    def _owed(self, sent: set[str]) -> Iterator[Op]:
        """Of each property an operation that it is checked on, if the life lacks one.

        Only the last life has no kill: what an earlier one holds need never be sent.
        """
        for names in self._plan.exercised.values():
            if not sent & set(names):
                yield from self._one(self.rng.choice(names))

    def _one(self, name: str) -> Iterator[Op]:
        """One operation of a client, and now and then a pause of it."""
        client = self.rng.randint(1, self._plan.clients)
        yield self._op(client, name, self._args(name))
        if self.rng.random() < PAUSES:
            yield self._pause(client)

    def kill(self, hooks: Sequence[Hook], operations: int, *, first: bool) -> CrashPoint:
        """How a life ends. A first life recovers from nothing."""
        kind = _drawn(self.rng, self._plan.strikes)
        if kind == "hook":
            hook = self.rng.choice([h for h in hooks if h.where == "run" or not first])
            return CrashPoint(1, hook.name, self.rng.choice(OCCURRENCES))
        if kind == START:
            return CrashPoint(1, START, after_ms=self.rng.randint(0, START_MS))
        later = self.rng.randint(1, LATER_MS) if self.rng.random() < LATER else 0
        if kind == END:
            return CrashPoint(1, END, after_ms=later)
        return CrashPoint(1, kind, self.rng.randint(1, max(1, operations)), after_ms=later)

    def _op(self, client: int, name: str, args: Json) -> Op:
        self._steps += 1
        return Op(self._steps, client, name, args)

    def _pause(self, client: int) -> Op:
        return self._op(client, PAUSE, {"ms": self.rng.randint(*self._plan.pause_ms)})

    def _creators(self, thing: str) -> list[str]:
        return [name for name, op in self._plan.operations.items() if op.creates == thing]

    def _args(self, name: str) -> Json:
        """Arguments of an operation, its step in every value that it writes."""
        op = self._plan.operations[name]
        if op.creates is not None:
            return self._again(op) or self._new(op)
        about = self._about(op) if op.needs is not None else {}
        return {**about, **self._values(op)}

    def _again(self, op: Operation) -> Json | None:
        """Now and then the same once more, as a client does that has got no answer: it must change nothing.

        Of the few there are no more in the end: then always.
        """
        assert op.creates is not None
        there, most = self._there[op.creates], self._plan.things[op.creates].most
        if most is not None:
            return dict(self.rng.choice(there)) if len(there) == most else None
        return dict(self.rng.choice(there[-RECENT:])) if there and self.rng.random() < AGAIN else None

    def _new(self, op: Operation) -> Json:
        """A thing that nobody has heard of, which is there from now on."""
        assert op.creates is not None
        args = {**self._named(op.creates), **self._values(op)}
        self._there[op.creates].append(args)
        if op.effect is not None and self.rng.random() < LOST_REPLIES:
            self.lost_replies.append(op.effect.replace("{name}", args[op.creates]))
        return args

    def _about(self, op: Operation) -> Json:
        """The name of a thing that was created before; of a new one, which nobody creates, if there is none."""
        assert op.needs is not None
        thing = self._plan.things[op.needs]
        if thing.most:
            return dict(self._few(op.needs))
        there = self._there[op.needs]
        fitting = [args for args in there if op.where.items() <= args.items()] or there
        if not fitting:
            return self._named(op.needs)
        args = self.rng.choice(fitting[-(thing.recent or len(fitting)) :])
        return {name: args[name] for name in (thing.within, op.needs) if name is not None}

    def _named(self, name: str) -> Json:
        """A new name, with that of the thing it lies within."""
        thing = self._plan.things[name]
        within = dict(self._few(thing.within)) if thing.within is not None else {}
        number = len(self._there[name]) + 1 if thing.most else self._steps + 1
        return {**within, name: _counted(thing, number)}

    def _few(self, name: str) -> Json:
        return self._hot[name] if self.rng.random() < HOT else self.rng.choice(self._there[name])

    def _values(self, op: Operation) -> Json:
        return {name: self._value(template) for name, template in op.args.items()}

    def _value(self, template: str | tuple[str | bool | int, ...]) -> str | bool | int:
        if not isinstance(template, str):
            return self.rng.choice(template)
        if template.startswith("[") and template[1:-1] in self._plan.texts:
            template = _drawn(self.rng, self._plan.texts[template[1:-1]])
        return FIELD.sub(self._filled, template)

    def _filled(self, found: re.Match[str]) -> str:
        least, _, most = found[1].partition("-")
        return str(self.rng.randint(int(least), int(most))) if most else str(self._steps + 1)


def _counted(thing: Thing, number: int) -> str:
    """The name of a thing; its number is that of its step, or counts the few."""
    return FIELD.sub(str(number), thing.name)


def _drawn(rng: random.Random, weights: Mapping[str, float]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
