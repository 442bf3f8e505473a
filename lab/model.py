"""The words of the lab as frozen data: what goes in, what was seen, what is concluded.

No I/O, and nothing of ours is imported here. Everything is picklable and turns into JSON with `to_json` and back
with `from_json`, so that a trial can run in another process or on another machine.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Promises = dict[str, tuple[str, ...]]  # property -> the faults that it is claimed to survive
T = typing.TypeVar("T")

ANSWER = "answer"  # in the place of a hook: a moment, the n-th acknowledgement of a process
RECOVERS = "recovers"  # the one property that the lab itself decides: recovery ends by itself, with exit code 0


class Word(enum.StrEnum):
    """The verdict of one trial. Only `PASS` and `NOTE` are not red."""

    PASS = "pass"  # every link of the evidence was seen and every promise held
    VIOLATION = "violation"  # a promise was broken, and broken again when repeated
    UNREPRODUCED = "unreproduced"  # broken once, not when repeated: never green, never called proven
    NOTE = "note"  # a loss that nobody promised to prevent
    HANG = "hang"  # a phase outlived its deadline
    INVALID = "invalid"  # a link of the evidence is missing
    ERROR = "error"  # the lab's, the engine's or the verifier's own fault


class Kind(enum.StrEnum):
    """Why a trial is in the plan."""

    POINT = "point"  # counts: one crash point of the campaign
    CANARY = "canary"  # a planted bug that must be caught; counts in no verdict
    PROBE = "probe"  # occurrence n+1 of a hook with n: must not be reached, which proves the enumeration complete


@dataclass(frozen=True)
class CrashPoint:
    """The n-th hit (from 1) of a named hook in one process of a trial (1 runs, 2 recovers).

    Or a moment: hook `ANSWER`, the n-th acknowledgement. Nothing is armed then and nothing stands still; the process is
    killed where it has got to by the time that its answer was seen.
    """

    process: int
    hook: str
    occurrence: int

    @property
    def is_moment(self) -> bool:
        return self.hook == ANSWER

    def __str__(self) -> str:
        return f"{self.hook}#{self.occurrence}"


@dataclass(frozen=True)
class Trial:
    """One run of one subject: what to do, as data. `ident` is unique in its plan."""

    ident: int
    kind: Kind
    storage: str
    workload: int  # index into the plan's workloads
    points: tuple[CrashPoint, ...]  # one, or two: the second lies in the recovery; none only for a race
    fault: str = "sigkill"
    bug: str | None = None
    racers: int = 0  # containers released at once on what process 1 left, before the recovery
    drawn: str = "random"  # "random", "cover" (chosen to reach a hook) or "all" (exhaustive: the census reached it)


@dataclass(frozen=True)
class Hit:
    """A hook that a process really stood at, by its own record."""

    hook: str
    n: int
    tags: dict[str, str] = field(default_factory=dict)
    barrier: bool = False

    def __str__(self) -> str:
        return f"{self.hook}#{self.n}"


@dataclass(frozen=True)
class Phase:
    """One phase of a trial; times in ms since the trial began."""

    name: str
    began_ms: float
    took_ms: float


@dataclass(frozen=True)
class Process:
    """What was seen of one process of the subject. `None` means: not seen."""

    number: int
    command: tuple[str, ...]
    armed: str | None
    hit: Hit | None = None
    alive: str | None = None  # how it was seen alive before the kill: "psutil" or "engine"
    killed: bool = False  # the lab sent SIGKILL
    exit_code: int | None = None
    oom_killed: bool | None = None
    gone: str | None = None  # how it was seen gone after the kill
    mount: str | None = None  # its own line of mountinfo, where its /proc can be read
    log: str = ""  # head and tail of what it printed apart from records
    racer: int | None = None  # which of the racers it is, from 1


@dataclass(frozen=True)
class Fact:
    """The first fact that differs."""

    fact: str
    expected: Any
    found: Any
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """What one look found for one property: how many facts it compared and the first that differs."""

    facts: int
    differs: Fact | None = None


@dataclass(frozen=True)
class Look:
    """One answer of the verifier."""

    name: str  # killed, recovered, end
    process: int  # the process that was looked at, dead or still
    properties: dict[str, Finding]
    mount: str = ""
    history: int = 0  # how many lines of the trial's history it was told
    ledger: Json = field(default_factory=dict)  # the snapshot that it was told


@dataclass(frozen=True)
class Failure:
    """Why a trial did not run to its end."""

    word: Word  # VIOLATION (recovery died), HANG, INVALID or ERROR
    phase: str
    what: str


@dataclass(frozen=True)
class Evidence:
    """All that one trial left. A verdict is a pure function of this and of the promises."""

    trial: Trial
    nonce: str
    mount: Json  # what the volume's line of mountinfo must say (lab.storage.mountinfo.Expected)
    phases: tuple[Phase, ...]
    processes: tuple[Process, ...]
    looks: tuple[Look, ...]
    history: tuple[Json, ...]
    ledger: Json
    verifier: str  # name and version
    starts: int  # containers started for it
    recovery_ms: tuple[float, ...]  # from asking the engine to start the recovering container to its barrier
    failure: Failure | None = None


@dataclass(frozen=True)
class Verdict:
    """What the evidence says."""

    word: Word
    why: str = ""  # one line for a person
    property: str = ""  # of a violation or note: the first one that differed
    broken: tuple[str, ...] = ()  # every property that differed, at any look
    look: str = ""
    differs: Fact | None = None
    facts: dict[str, int] = field(default_factory=dict)  # per property, over the whole trial


def catches(verdict: Verdict, prop: str) -> bool:
    """Whether a planted bug was caught by the property that is named for it.

    By another one it is not: the property's own check may be dead. One that says whether a trial ran as asked makes it
    invalid, and is then the verdict's own property.
    """
    if verdict.word is Word.INVALID:
        return verdict.property == prop
    return verdict.word in (Word.VIOLATION, Word.UNREPRODUCED) and prop in verdict.broken


@dataclass(frozen=True)
class LedgerCounts:
    """Counted from the ledger's own records, never from the subject's word. In effects or requests of one trial."""

    resent: int = 0  # effects that were sent more than once
    deduped: int = 0  # requests answered from an earlier one with the same key
    fenced: int = 0  # requests refused by a fence
    receipts: int = 0  # receipt questions that found one
    effects: int = 0


@dataclass(frozen=True)
class Result:
    """One line of a run's journal: a finished trial in brief. All that a report needs."""

    trial: Trial
    verdict: Verdict
    hits: tuple[Hit, ...]  # where it was really killed, in order: one a crash
    recovery_ms: tuple[float, ...]
    starts: int
    took_s: float
    counts: LedgerCounts
    mount: str = ""
    verifier: str = ""
    evidence: str | None = None  # folder, relative to the run, if kept whole


def to_json(value: Any) -> Any:
    """A dataclass of this module (or a container of them) as plain JSON data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    return value


def from_json(kind: type[T], data: Any) -> T:
    """The reverse of `to_json`. Raises TypeError if a field is missing, ValueError if a word is none of its enum."""
    return typing.cast(T, _decode(kind, data))


def _decode(kind: Any, data: Any) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return _decode(next(a for a in args if a is not type(None)), data)
    if origin is tuple and args[-1] is Ellipsis:
        return tuple(_decode(args[0], v) for v in data)
    if origin is tuple:
        return tuple(_decode(of, v) for of, v in zip(args, data, strict=True))
    if origin is dict:
        return {k: _decode(args[1], v) for k, v in data.items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        given = {f.name: _decode(hints[f.name], data[f.name]) for f in dataclasses.fields(kind) if f.name in data}
        make: Any = kind
        return make(**given)
    return data
