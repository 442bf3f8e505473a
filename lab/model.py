"""The words of the lab as frozen data: what goes in, what was seen, what is concluded.

No I/O, and nothing of ours is imported here. Everything is picklable; `lab.codec` turns it into JSON and back, so that
a trial can run in another process or on another machine.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

Json = dict[str, Any]
Promises = dict[str, tuple[str, ...]]  # property -> the faults that it is claimed to survive

ANSWER = "answer"  # a moment: the n-th acknowledgement of a process, or the n-th answer to the clients of a life
INVOKE = "invoke"  # a moment: the n-th request of a life
START = "start"  # a moment: so many ms after a life began
END = "end"  # a moment: the end of a life's operations
MOMENTS = (ANSWER, INVOKE, START, END)  # in the place of a hook's name

RECOVERS = "recovers"  # the one property that the lab itself decides: a life begins, and recovery ends by itself
SIGKILL = "sigkill"
MAX_FACTS = 10**9  # of one property at one look: what a checker may count


class Word(enum.StrEnum):
    """The verdict of one trial. Only `PASS` and `NOTE` are not red."""

    PASS = "pass"  # every link of the evidence was seen and every promise held
    VIOLATION = "violation"  # a promise was broken, as the trial's own evidence shows
    NOTE = "note"  # a loss that was never promised not to happen
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
    """Where a life ends, and the fault that strikes there.

    The n-th hit (from 1) of a named hook in that life; or a moment, which arms nothing: the process is struck where it
    has got to by the time that the moment was seen, or `after_ms` later.
    """

    life: int  # from 1: the first runs, the others recover
    hook: str  # or one of MOMENTS
    occurrence: int = 1
    after_ms: int = 0
    fault: str = SIGKILL

    @property
    def is_moment(self) -> bool:
        return self.hook in MOMENTS

    @property
    def place(self) -> str:
        """As a process announces that it stands there; the number of a start is its milliseconds."""
        return f"{self.hook}#{self.after_ms if self.hook == START else self.occurrence}"

    def __str__(self) -> str:
        if self.hook == START:
            return f"{START} + {self.after_ms} ms"
        return self.place + (f" + {self.after_ms} ms" if self.after_ms else "")


@dataclass(frozen=True)
class CrashScript:
    """A subject that drives itself through a workload, and where it is struck: n points make n + 1 lives."""

    workload: int  # index into the plan's workloads
    points: tuple[CrashPoint, ...]  # each in the life after the one before; none only for a race
    racers: int = 0  # containers released at once on what life 1 left, before the recovery
    kind: Literal["crash"] = "crash"

    @property
    def kills(self) -> tuple[CrashPoint, ...]:
        return self.points


@dataclass(frozen=True)
class Op:
    """One operation of one client. `step` is unique in its scenario, and is in every value that it writes."""

    step: int
    client: int
    op: str
    args: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Life:
    """From one start of a daemon to its end: what its clients do, and where it is struck. The last one settles."""

    ops: tuple[Op, ...]
    kill: CrashPoint | None


@dataclass(frozen=True)
class Limits:
    """How long what may take."""

    answer_ms: int = 2000  # promised: every answer while the daemon is up
    timeout_ms: int = 3000  # a client waits so long
    up_s: float = 15.0  # from a start to the first answer
    settle_s: float = 20.0  # from the last operation until it is idle


PAUSE = "pause"  # an operation that is the client's own


def _ended(life: Life, number: int) -> Life:
    return (
        life if life.kill is None or life.kill.life == number else replace(life, kill=replace(life.kill, life=number))
    )


@dataclass(frozen=True)
class Scenario:
    """What clients do to a daemon, and where it is struck."""

    seed: int
    number: int
    adapter: str
    clients: int
    limits: Limits
    lives: tuple[Life, ...]  # none in a journal: seed and number draw them again
    lost_replies: tuple[str, ...] = ()  # effects whose first landing the outside world does not confirm
    format: int = 2
    kind: Literal["scenario"] = "scenario"

    def __post_init__(self) -> None:
        """A kill is in the life that it ends, however the lives were put together."""
        object.__setattr__(self, "lives", tuple(_ended(life, n) for n, life in enumerate(self.lives, 1)))

    @property
    def name(self) -> str:
        return f"{self.seed}/{self.number}"

    @property
    def operations(self) -> tuple[Op, ...]:
        """All that is sent to the daemon, in the order of the script."""
        return tuple(op for life in self.lives for op in life.ops if op.op != PAUSE)

    @property
    def kills(self) -> tuple[CrashPoint, ...]:
        return tuple(life.kill for life in self.lives if life.kill is not None)


@dataclass(frozen=True)
class Trial:
    """One script on one storage layer. `ident` is unique in its plan."""

    ident: int
    kind: Kind
    storage: str
    script: CrashScript | Scenario
    bug: str | None = None
    drawn: str = "random"  # "random", "cover" (to reach a hook), "all" (the census reached it), "corpus" (failed once)
    faults: str = SIGKILL  # as the user spelled them: `first>second`; each crash point has its own of these

    @property
    def kills(self) -> tuple[CrashPoint, ...]:
        return self.script.kills


@dataclass(frozen=True)
class Hit:
    """A hook that a process really stood at, by its own record; or a moment, as the controller saw it."""

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
    fault: str | None = None  # that struck it


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

    facts: Annotated[int, Field(ge=0, le=MAX_FACTS)]
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
    up_ms: tuple[float, ...]  # from asking the engine to start a process to its barrier, or to its first answer
    failure: Failure | None = None
    diagnosis: str = ""  # of a refused start


@dataclass(frozen=True)
class Verdict:
    """What the evidence says."""

    word: Word
    why: str = ""  # one line for a person
    property: str = ""  # of a violation or note: the first one that differed
    broken: tuple[str, ...] = ()  # every property that differed, at any look; no audit
    look: str = ""
    differs: Fact | None = None
    facts: dict[str, int] = field(default_factory=dict)  # per property, over the whole trial
    notes: tuple[str, ...] = ()  # unpromised losses, a line each


def catches(verdict: Verdict, prop: str) -> bool:
    """Whether a planted bug was caught by the property that is named for it.

    By another one it is not: the property's own check may be dead. One that says whether a trial ran as asked makes it
    invalid, and is then the verdict's own property.
    """
    if verdict.word is Word.INVALID:
        return verdict.property == prop
    return verdict.word is Word.VIOLATION and prop in verdict.broken


@dataclass(frozen=True)
class LedgerCounts:
    """Counted from the ledger's own records, never from the subject's word. In effects or requests of one trial."""

    resent: int = 0  # effects that were sent more than once
    deduped: int = 0  # requests answered from an earlier one with the same key
    fenced: int = 0  # requests refused by a fence
    receipts: int = 0  # receipt questions that found one
    effects: int = 0


@dataclass(frozen=True)
class Reproduced:
    """How often a violation came again. It is said beside the violation, and never takes it away."""

    again: int
    of: int


@dataclass(frozen=True)
class Result:
    """One line of a run's journal: a finished trial in brief. All that a report needs."""

    trial: Trial  # a scenario without its lives
    verdict: Verdict
    hits: tuple[Hit, ...]  # where it was really struck, in order
    up_ms: tuple[float, ...]
    starts: int
    took_s: float
    counts: LedgerCounts
    processes: int = 0  # lives that began, racers not counted
    operations: int = 0  # of clients, that were invoked
    waits_ms: dict[str, tuple[float, ...]] = field(default_factory=dict)  # per operation of the clients
    mount: str = ""
    verifier: str = ""
    evidence: str | None = None  # folder, relative to the run, if kept whole
    reproduced: Reproduced | None = None  # of a violation, once it has been run again
