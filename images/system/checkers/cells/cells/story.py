"""What was asked and answered, read from the history: operations with their answers, deaths and racers' ends.

A *boot* is one process of the store's own life: the first, and each recovering one. Racers live in the boot in which
they are started. The prepared state's workload is boot 0, all of it acknowledged: it was run to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

DONE, FAILED, UNKNOWN = "ok", "fail", "info"


class Op(NamedTuple):
    """One operation. `answer` is UNKNOWN, too, where a crash came before any answer."""

    boot: int
    process: int  # 0: of the prepared state
    number: int
    name: str
    do: Json
    answer: str
    result: Json

    @property
    def who(self) -> str:
        """As a finding calls it."""
        return f"prepared {self.name}" if self.process == 0 else f"process {self.process}, {self.name} {self.number}"

    @property
    def may_have_happened(self) -> bool:
        return self.answer != FAILED


class Racer(NamedTuple):
    """A racing container that has ended."""

    process: int
    number: int
    code: int


class Story(NamedTuple):
    ops: tuple[Op, ...]  # in the order of their invocation
    opened: tuple[Json, ...]  # what each process said of itself
    died: dict[int, int]  # process: its boot
    racers: tuple[Racer, ...]
    boots: int  # the highest boot that has begun
    ends_in_death: bool  # nothing has been heard since a process was killed

    def named(self, *names: str) -> tuple[Op, ...]:
        """The operations of these names."""
        return tuple(op for op in self.ops if op.name in names)

    def before_first_death(self, name: str) -> int:
        """How many operations of this name the trial acknowledged before anything was killed in it."""
        first = min(self.died.values(), default=self.boots)
        return sum(op.answer == DONE and 0 < op.boot <= first for op in self.named(name))


def expand(ops: Iterable[Json]) -> Iterator[Json]:
    """Each operation as it is done: `repeat` is N of them, with `{n}` in every text counting from 1."""
    for op in ops:
        if "repeat" not in op:
            yield op
            continue
        for n in range(1, op["repeat"] + 1):
            yield {k: v.replace("{n}", str(n)) if isinstance(v, str) else v for k, v in op.items() if k != "repeat"}


def read_story(prepared: Json | None, history: list[Json]) -> Story:
    """Raises KeyError or ValueError if the history is none that the protocol allows."""
    ops = [Op(0, 0, n, do["op"], do, DONE, {"won": True}) for n, do in enumerate(_prepared(prepared), start=1)]
    place: dict[tuple[int, int], int] = {}  # (process, id): index in ops
    opened: list[Json] = []
    died: dict[int, int] = {}
    racers: list[Racer] = []
    boots, booted, heard_since_death = 0, 0, True
    for event in history:
        process = event["process"]
        if event.get("died"):
            died[process], heard_since_death = boots, False
            continue
        heard_since_death = True
        if "racer" not in event and process != booted:
            boots, booted = boots + 1, process
        if "exited" in event:
            racers.append(Racer(process, event["racer"], event["exited"]))
        elif event["op"] == "open":
            opened.append(event)
        elif event["type"] == "invoke":
            place[process, event["id"]] = len(ops)
            ops.append(Op(boots, process, event["id"], event["op"], event["do"], UNKNOWN, {}))
        else:
            index = place.pop((process, event["id"]), None)
            if index is None:
                raise ValueError(f"process {process} answers {event['op']} {event['id']}, which it never invoked")
            ops[index] = ops[index]._replace(answer=event["type"], result=event)
    return Story(tuple(ops), tuple(opened), died, tuple(racers), boots, not heard_since_death)


def _prepared(prepared: Json | None) -> Iterator[Json]:
    return expand(prepared["workload"]["work"]) if prepared is not None else iter(())
