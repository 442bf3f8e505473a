"""Scripts of agent tasks (docs/workload.md), thrown from a seed: pure, and the only dice of a campaign.

A workload is short, so that killing it everywhere is affordable, and dense: in the first of a seed, everything that can
happen to a task or a call happens. What a seed and an index give is what `lab replay --seed` repeats: do not change it
without need.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from random import Random

from lab.model import Json

KIND = "agent-tasks"
VERSION = 1
FIRST_TASK = 11  # lower numbers belong to the prepared state
LAST_TASK = 59
TOOLS = {"pure": ("search", "summarise"), "keyed": ("email", "upsert"), "once": ("charge", "deploy")}
PLACES = ("Zürich", "Malmö", "Oslo", "Bath")  # two of them escape in canonical JSON
SAYINGS = ("let me look", "one moment", "I will try that", "nearly there")


@dataclass(frozen=True)
class Fate:
    """What the outside does with one call."""

    klass: str
    outcome: str = "ok"
    lose_reply: bool = False


# What can happen to a call: each class with its plain, its lost and its refused answer.
FATES = tuple(
    fate
    for klass in TOOLS
    for fate in (Fate(klass), Fate(klass, lose_reply=True), Fate(klass, outcome="declined"))
)  # fmt: skip


class Dealer:
    """Makes steps. `calls` of them will be sent, with different FATES; what is more than these is plain."""

    def __init__(self, dice: Random, calls: int) -> None:
        self.dice = dice
        fates = [*FATES, *(self._plain() for _ in range(calls - len(FATES)))] if calls > len(FATES) else [*FATES]
        dice.shuffle(fates)
        self._fates = iter(fates)

    def call(self) -> Json:
        return self._call(next(self._fates))

    def call_instead(self, of: Json) -> Json:
        """A call that is sent, and another one than `of` even at the same step of the same task."""
        fate = next(self._fates)
        while True:
            call = self._call(fate)
            if (call["tool"], call["args"]) != (of["tool"], of["args"]):
                return call

    def call_too_late(self) -> Json:
        """A call that is never sent."""
        return self._call(self._plain())

    def say(self) -> Json:
        return {"do": "say", "text": self.dice.choice(SAYINGS), "ticks": 1}

    def _plain(self) -> Fate:
        return Fate(self.dice.choice(list(TOOLS)))

    def _call(self, fate: Fate) -> Json:
        tool = self.dice.choice(TOOLS[fate.klass])
        return {
            "do": "call",
            "tool": tool,
            "class": fate.klass,
            "args": self._args(tool),
            "outcome": fate.outcome,
            "lose_reply": fate.lose_reply,
            "ticks": self.dice.randint(1, 3),
        }

    def _args(self, tool: str) -> Json:
        """Few values, so that tasks often ask for the same thing: only its task and step tell two effects apart."""
        number, place = self.dice.randint(1, 9), self.dice.choice(PLACES)
        of_tool: dict[str, Json] = {
            "search": {"query": place},
            "summarise": {"text": place, "words": number},
            "email": {"to": f"user{number}", "subject": place},
            "upsert": {"id": number, "value": place},
            "charge": {"amount": number},
            "deploy": {"service": place, "version": number},
        }
        return of_tool[tool]


@dataclass(frozen=True)
class Script:
    """What a role makes: the tries, and what is unusual about the task."""

    tries: list[list[Json]]
    deadline: int | None = None  # None: far enough for every try
    cancelled_before_admission: bool = False


def _retried(deal: Dealer) -> Script:
    """Fails, and is tried again: the second try meets two effects of the first, and asks for another third one."""
    first, second, third = deal.call(), deal.call(), deal.call()
    other = deal.call_instead(third)
    return Script(
        [
            [first, deal.say(), second, third, _end("fail")],
            [first, deal.say(), second, other, _end("finish")],
        ]
    )


def _works(deal: Dealer) -> Script:
    steps = [deal.call(), deal.call(), deal.call()]
    steps.insert(deal.dice.randrange(3), deal.say())
    return Script([[*steps, _end("finish")]])


def _times_out(deal: Dealer) -> Script:
    """Its third call would pass the deadline."""
    before = [deal.call(), deal.say(), deal.call()]
    late = deal.call_too_late()
    deadline = _ticks(before) + deal.dice.randrange(int(late["ticks"]))
    return Script([[*before, late, _end("finish")]], deadline)


def _cancelled(deal: Dealer) -> Script:
    """Its user cancels it at work."""
    return Script([[deal.say(), deal.call(), _end("cancel")]])


def _fails(deal: Dealer) -> Script:
    """Fails for good, at the first or the second try; the second meets the effect of the first."""
    call = deal.call()
    tries = [[call, _end("fail")], [call, deal.say(), _end("fail")]]
    return Script(tries[: deal.dice.randint(1, 2)])


def _cancelled_early(deal: Dealer) -> Script:
    """Cancelled before it is admitted: nothing of its script happens."""
    return Script([[deal.call_too_late(), _end("finish")]], cancelled_before_admission=True)


@dataclass(frozen=True)
class Role:
    """One kind of task, and how many calls of it are sent."""

    script: Callable[[Dealer], Script]
    calls: int


RETRIED, WORKS, FAILS = Role(_retried, 4), Role(_works, 3), Role(_fails, 1)
SOMETIMES = (Role(_times_out, 2), Role(_cancelled, 1), FAILS, Role(_cancelled_early, 0))
PREPARED = (WORKS, FAILS)


def generate(seed: int, index: int) -> Json:
    """The campaign's workload number `index`. Number 0 has every role, and every one of FATES is met.

    The others are shorter, so that killing them everywhere is affordable: a task that is tried again, and two more,
    every pair of SOMETIMES in turn.
    """
    dice = Random(f"{seed}/{index}")
    pairs = list(combinations(SOMETIMES, 2))
    Random(f"{seed}/pairs").shuffle(pairs)
    roles = [RETRIED, *((WORKS, *SOMETIMES) if index == 0 else pairs[(index - 1) % len(pairs)])]
    dice.shuffle(roles)
    deal = Dealer(dice, sum(role.calls for role in roles))
    numbers = sorted(dice.sample(range(FIRST_TASK, LAST_TASK + 1), len(roles)))
    return {
        "kind": KIND,
        "version": VERSION,
        "seed": seed,
        "slots": 2 if index == 0 else dice.randint(1, 3),
        "checkpoint_every": dice.randint(7, 11),
        "segment_bytes": dice.choice((1536, 2048, 3072)),  # a log of 7 to 12 KiB: three to nine segments
        "tasks": [_task(dice, number, role.script(deal)) for number, role in zip(numbers, roles, strict=True)],
    }


def prepared(seed: int) -> Json:
    """The short workload that the prepared state is made by: one task succeeds, one fails, in more than one segment."""
    dice = Random(f"{seed}/prepared")
    deal = Dealer(dice, sum(role.calls for role in PREPARED))
    tasks = [_task(dice, number, role.script(deal)) for number, role in enumerate(PREPARED, start=1)]
    head = {"kind": KIND, "version": VERSION, "seed": seed}
    return {**head, "slots": 2, "checkpoint_every": 9, "segment_bytes": 1536, "tasks": tasks}


def ledger_rules(workload: Json) -> dict[str, list[str]]:
    """What the outside has to do with this workload's calls, as the ledger's rules `decline` and `lose_reply`."""
    calls = [
        (effect(task["task"], number, step), step)
        for task in workload["tasks"]
        for steps in task["tries"]
        for number, step in enumerate(steps)
        if step["do"] == "call"
    ]
    return {
        "decline": sorted({identity for identity, step in calls if step["outcome"] == "declined"}),
        "lose_reply": sorted({identity for identity, step in calls if step["lose_reply"]}),
    }


def effect(task: int, number: int, step: Json) -> str:
    """The identity of the effect of a call, step `number` (from 0) of its try. See docs/format.md."""
    arguments = json.dumps(step["args"], sort_keys=True, separators=(",", ":"))
    return f"{task}/{number}/{step['tool']}/{arguments}"


def _task(dice: Random, number: int, script: Script) -> Json:
    longest = max(_ticks(steps) for steps in script.tries)
    return {
        "task": number,
        # At times exactly enough: a clock that stands at its deadline has not passed it.
        "deadline": longest + dice.randint(0, 3) if script.deadline is None else script.deadline,
        "cancelled_before_admission": script.cancelled_before_admission,
        "tries": script.tries,
    }


def _end(do: str) -> Json:
    return {"do": do, "ticks": 1}


def _ticks(steps: list[Json]) -> int:
    return sum(int(step["ticks"]) for step in steps)
