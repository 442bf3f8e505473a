"""The conformance cells (docs/cells.md) and their scripts, thrown from a seed: pure, and the only dice of a leg.

Each is dense in what its cell is about, so that a kill nearly anywhere shows something, and ends in a `resume` that
works wherever it was killed: on a session of its own, and on hand-offs and deliveries whatever became of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

from lab.model import Json, Promises

KIND = "session-cells"
VERSION = 1
CI_MODES = ("default", "delete", "wal")
JOURNAL_MODES = (*CI_MODES, "truncate", "persist", "memory", "off")
RACERS = 8
Size = Literal["ci", "nightly"]

# Trials of each race, on each layer: who wins is a matter of timing, and one trial may miss what is really there. On
# three layers a fault that shows in one trial of three is missed by 3 campaigns in 100; nightly, one in ten by 4.
RACES: dict[Size, int] = {"ci": 3, "nightly": 10}

# What a text column has to bear: more than one byte a character, quotes, line ends, and more than one page.
TEXTS = ("hello", "Grüße aus Malmö", 'said "no", didn\'t', "two\nlines", '{"json": [1, 2]}', "🜁 air", "x" * 900)
CHUNKS = 16  # runs of appends to one session, between which the session changes
AFTER = "after"  # the session that `resume` works on


class Amount(NamedTuple):
    """How much of what a cell needs; what it needs at least is in docs/cells.md."""

    appends: int  # prefix-durability: 200 must be acknowledged before the kill
    rotations: int  # rotation-atomicity: 50
    forks: int
    deliveries: int


# 29,500: each append is at least two frames of a WAL, so its automatic checkpoint (1,000 frames) comes dozens of times.
AMOUNTS: dict[str, Amount] = {"ci": Amount(260, 60, 8, 4), "nightly": Amount(29_500, 150, 60, 12)}


# A kill comes 45 ms after the answer, on a busy machine some 200; the quickest store answers an append in 1 ms.
TAIL = 500


class Acts(NamedTuple):
    """What a cell makes of a seed."""

    work: list[Json]
    race: Json | None = None
    resume: list[Json] | None = None  # None: what every cell can do


def generate(seed: int, cell: str, journal_mode: str, size: Size = "ci") -> Json:
    """The workload of one leg. Raises KeyError for an unknown cell or size, ValueError for an unknown mode."""
    if journal_mode not in JOURNAL_MODES:
        raise ValueError(f"there is no journal mode {journal_mode!r}; there are: {', '.join(JOURNAL_MODES)}")
    acts = CELLS[cell].acts(Random(f"{seed}/{cell}"), AMOUNTS[size])
    workload = _workload(seed, cell, journal_mode, acts.work)
    if acts.race is not None:
        workload |= {"race": acts.race, "racers": RACERS}
    return workload | {"resume": _afterwards() if acts.resume is None else acts.resume}


def outlasting(workload: Json) -> Json:
    """The same with more to do behind it: a kill at a moment comes late, and must find the writer at work."""
    tail = [_create("meanwhile"), {**_append("meanwhile", 0, "meanwhile {n}"), "repeat": TAIL}]
    return {**workload, "work": [*workload["work"], *tail]}


def by_index(seed: int, index: int) -> Json:
    """As a family's number `index`: the cells in turn, each in the store's own journal mode."""
    return generate(seed, list(CELLS)[index % len(CELLS)], "default")


def prepared(seed: int) -> Json:
    """A short workload without a race, run to its end: two sessions, one rotated and one edited, in the own mode."""
    dice = Random(f"{seed}/prepared")
    work = [
        _create("old"),
        *_talk(dice, "old", 3),
        {"op": "rotate", "session": "old", "child": "old-1", "summary": "what was said in old"},
        _create("kept"),
        *_talk(dice, "kept", 3),
        {"op": "edit", "session": "kept", "keep": 2, "content": "kept, edited"},
    ]
    return _workload(seed, "checkpoint-validity", "default", work)


def no_rules(workload: Json) -> dict[str, list[str]]:
    """The outside does what it is asked: what these cells are about is the crash."""
    return {"decline": [], "lose_reply": []}


def promised(workload: Json, promises: Promises) -> Promises:
    """The one promise that this workload asks for; `"cell@mode"` says it for a journal mode of its own."""
    cell, mode = workload["cell"], workload["journal_mode"]
    return {cell: promises.get(f"{cell}@{mode}", promises.get(cell, ()))}


def _prefix_durability(dice: Random, amount: Amount) -> Acts:
    sessions = [f"s-{n}" for n in range(1, 5)]
    work = [_create(name) for name in sessions]
    left = amount.appends + dice.randrange(8)
    for chunk in range(CHUNKS, 0, -1):
        count = left // chunk
        left -= count
        text = dice.choice(TEXTS)
        content = f"{CHUNKS - chunk + 1}.{{n}} {text}"
        role = dice.choice(("user", "assistant"))
        append = {"op": "append", "session": dice.choice(sessions), "role": role, "content": content}
        work.append({**append, "repeat": count})
    return Acts(work)


def _consume_once(dice: Random, amount: Amount) -> Acts:
    items = ["raced-by-processes", "raced-by-containers", "claimed", "finished"]
    work = [_create("hand-offs"), *_talk(dice, "hand-offs", 3)]
    work += [{"op": "park", "session": "hand-offs", "item": item} for item in dice.sample(items, len(items))]
    claim = {"op": "claim", "item": "raced-by-processes", "by": "process"}
    work += [
        {"op": "race_processes", "racers": RACERS, "do": claim},
        {"op": "claim", "item": "finished", "by": "worker"},
        {"op": "finish", "item": "finished", "by": "worker"},
        {"op": "claim", "item": "claimed", "by": "worker"},
    ]
    resume: list[Json] = []
    for item in items:
        resume += [{"op": do, "item": item, "by": "resumer"} for do in ("claim", "finish")]
    return Acts(work, {"op": "claim", "item": "raced-by-containers", "by": "container"}, resume + _afterwards())


def _rotation_atomicity(dice: Random, amount: Amount) -> Acts:
    work = [_create("r-0")]
    for n in range(amount.rotations + dice.randrange(4)):
        work += _talk(dice, f"r-{n}", dice.choice((1, 2)))
        summary = f"what was said in r-{n}"
        work.append({"op": "rotate", "session": f"r-{n}", "child": f"r-{n + 1}", "summary": summary})
    rotate = {"op": "rotate", "session": AFTER, "child": f"{AFTER}-1", "summary": "what was said afterwards"}
    return Acts(work, resume=[*_afterwards(), rotate])


def _fork_determinism(dice: Random, amount: Amount) -> Acts:
    """Odd counts of messages: the first and the last abandoned one are a user's, for some stores fork only there."""
    work: list[Json] = []
    for n in range(1, amount.forks + 1):
        name = f"f-{n}"
        work += [_create(name), *_talk(dice, name, 7)]
        kept = dice.choice((0, 2, 4))  # so at least three are abandoned: to abandon only the last is not enough
        fork: Json = {"op": "rewind", "session": name, "keep": kept}
        if n % 2:
            fork = {"op": "edit", "session": name, "keep": kept, "content": f"{name} edited"}
        work += [fork, *_talk(dice, name, 2, "on the chosen branch", first=n % 2)]
    edit = {"op": "edit", "session": AFTER, "keep": 2, "content": "afterwards, edited"}
    return Acts(work, resume=[*_afterwards(), edit])


def _outbox_exactly_once(dice: Random, amount: Amount) -> Acts:
    """Each delivery recorded and sent; two are left for sweeps that race: first as processes, last as containers."""
    work = [_create("out"), _record("swept-by-processes", dice)]
    work.append({"op": "race_processes", "racers": RACERS, "do": {"op": "sweep"}})
    for n in range(1, amount.deliveries + 1):
        work += [_record(f"d-{n}", dice), {"op": "send", "delivery": f"d-{n}"}]
    work.append(_record("swept-by-containers", dice))
    return Acts(work, {"op": "sweep"}, [{"op": "sweep"}, {"op": "sweep"}, *_afterwards()])


def _mixed(dice: Random, amount: Amount) -> Acts:
    """A little of everything that a store can be asked, in each session with another text."""
    work: list[Json] = []
    for n, text in enumerate(dice.sample(TEXTS, len(TEXTS)), start=1):
        name = f"m-{n}"
        work += [_create(name), *_talk(dice, name, 5, text)]
        work += [
            _record(name, dice, name),
            {"op": "send", "delivery": name},
            {"op": "park", "session": name, "item": name},
            {"op": "claim", "item": name, "by": "worker"},
            {"op": "edit", "session": name, "keep": 4, "content": f"{name} edited {text}"},
            {"op": "rotate", "session": name, "child": f"{name}-1", "summary": f"what was said in {name}: {text}"},
            *_talk(dice, f"{name}-1", 2, text),
        ]
    return Acts(work)


PAPER = '"Resume Means Resume", arXiv 2608.03836'


@dataclass(frozen=True)
class Cell:
    """One clause, and the probe of it. Its name is that of the verifier's property."""

    name: str
    clause: str
    source: str  # where the clause comes from
    checked: str
    views: tuple[str, ...]  # a store without one of these does not offer the cell
    acts: Callable[[Random, Amount], Acts]
    # Journal modes change how a transaction reaches the disk. A claim is one predicated UPDATE: which of two racers it
    # lets through is decided by SQLite's locks, which are the same in every mode.
    each_mode: bool = True
    least: tuple[str, int] | None = None  # (op, count): as many must be acknowledged before the first kill
    races: bool = False  # also run with racers: whole `work`, then `racers` containers, then `recover`

    def modes(self, size: Size) -> tuple[str, ...]:
        """The journal modes that it runs in, each of them on every storage layer."""
        if not self.each_mode:
            return JOURNAL_MODES[:1]
        return JOURNAL_MODES if size == "nightly" else CI_MODES


_ALL = (
    Cell(
        "prefix-durability",
        "prefix continuation",
        PAPER,
        "every acknowledged append survives: a contiguous prefix, no hole, no duplicate, at most one unanswered more",
        ("sessions", "messages"),
        _prefix_durability,
        least=("append", 200),
    ),
    Cell(
        "consume-once",
        "consume-once",
        PAPER,
        "a parked hand-off is claimed by exactly one of N racers, and after a crash it is done or can be claimed again",
        ("items",),
        _consume_once,
        each_mode=False,
        races=True,
    ),
    Cell(
        "rotation-atomicity",
        "prefix continuation",
        f"{PAPER}, read for a session that goes on in another",
        "a rotation is visible entirely or not at all: parent closed, child there, summary in it",
        ("sessions", "messages"),
        _rotation_atomicity,
        least=("rotate", 50),
    ),
    Cell(
        "fork-determinism",
        "fork determinism",
        PAPER,
        "after an edit or a rewind exactly the chosen prefix is there, and the abandoned branch does not come back",
        ("sessions", "messages"),
        _fork_determinism,
    ),
    Cell(
        "outbox-exactly-once",
        "effect exactly-once",
        PAPER,
        "no second copy in silence: at most one unmarked, at least one, a terminal row, and further boots send nothing",
        ("deliveries",),
        _outbox_exactly_once,
        races=True,
    ),
    Cell(
        "recovery-determinism",
        "recovery determinism",
        PAPER,
        "two independent recovery passes see the same, byte for byte",
        ("sessions", "messages"),
        _mixed,
    ),
    Cell(
        "checkpoint-validity",
        "checkpoint validity",
        PAPER,
        "what was persisted always loads: no half-written row, nothing that points at what is not there",
        ("sessions", "messages"),
        _mixed,
    ),
)
CELLS = {cell.name: cell for cell in _ALL}


def _workload(seed: int, cell: str, journal_mode: str, work: list[Json]) -> Json:
    head = {"kind": KIND, "version": VERSION, "seed": seed, "cell": cell, "journal_mode": journal_mode}
    return {**head, "work": work, "race": None, "racers": 0, "resume": []}


def _afterwards() -> list[Json]:
    """Work after the recovery, on a session of its own."""
    talk = [_append(AFTER, n, f"{AFTER} {n}") for n in range(3)]
    return [_create(AFTER), *talk]


def _talk(dice: Random, session: str, count: int, about: str = "", first: int = 0) -> list[Json]:
    """Messages of user and assistant in turn; `first` 1 begins with the assistant."""
    texts = [about or dice.choice(TEXTS[:3]) for _ in range(count)]
    label = "branch " if first else ""
    return [_append(session, n + first, f"{session} {label}{n} {text}") for n, text in enumerate(texts)]


def _append(session: str, turn: int, content: str) -> Json:
    role = "assistant" if turn % 2 else "user"
    return {"op": "append", "session": session, "role": role, "content": content}


def _create(session: str) -> Json:
    return {"op": "create", "session": session}


def _record(delivery: str, dice: Random, session: str = "out") -> Json:
    content = f"{delivery} delivers {dice.choice(TEXTS[:3])}"
    return {"op": "record", "delivery": delivery, "session": session, "content": content}
