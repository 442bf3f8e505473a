"""The words of the fuzz campaign as frozen data: a scenario, a trial of it, what was seen. No I/O.

`to_json` and `from_json` of lab.model turn all of it into JSON and back; docs/fuzz.md has the formats.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.model import Failure, Json, Kind, Look, Phase, Process, Verdict

FORMAT = 1
CAMPAIGN = "fuzz"  # in a run's header
FAULT = "sigkill"  # all that is ever done to a daemon
PAUSE = "pause"  # an operation that is the client's own


@dataclass(frozen=True)
class Op:
    """One operation of one client. `step` is unique in its scenario, and is in every value that it writes."""

    step: int
    client: int
    op: str
    args: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Kill:
    """When a life of the daemon ends: at a hook, at a moment, or with its operations. See docs/fuzz.md."""

    at: str  # hook, answer, invoke, start, end
    hook: str = ""
    n: int = 0
    after_ms: int = 0

    def __str__(self) -> str:
        place = {"hook": f"{self.hook}#{self.n}", "start": "its start", "end": "the end of its operations"}
        later = f" + {self.after_ms} ms" if self.after_ms else ""
        return place.get(self.at, f"{self.at}#{self.n}") + later


@dataclass(frozen=True)
class Life:
    """From one start of the daemon to its kill. The last life of a scenario has none: it settles."""

    ops: tuple[Op, ...]
    kill: Kill | None


@dataclass(frozen=True)
class Limits:
    """How long what may take."""

    answer_ms: int = 2000  # promised: every answer while the daemon is up
    timeout_ms: int = 3000  # a client waits so long
    up_s: float = 15.0  # from a start to the first answer
    settle_s: float = 20.0  # from the last operation until it is idle


@dataclass(frozen=True)
class Scenario:
    """What the clients do and when the daemon dies."""

    seed: int
    number: int
    adapter: str
    clients: int
    limits: Limits
    lives: tuple[Life, ...]
    lost_replies: tuple[str, ...] = ()  # effects whose first landing the outside world does not confirm
    format: int = FORMAT

    @property
    def name(self) -> str:
        return f"{self.seed}/{self.number}"

    @property
    def operations(self) -> tuple[Op, ...]:
        """All that is sent to the daemon, in the order of the script."""
        return tuple(op for life in self.lives for op in life.ops if op.op != PAUSE)

    @property
    def kills(self) -> tuple[Kill, ...]:
        return tuple(life.kill for life in self.lives if life.kill is not None)


@dataclass(frozen=True)
class FuzzTrial:
    """One scenario on one storage layer. `ident` is unique in its run."""

    ident: int
    kind: Kind
    storage: str
    scenario: Scenario
    bug: str | None = None


@dataclass(frozen=True)
class FuzzEvidence:
    """All that one trial left. A verdict is a pure function of this and of the promises."""

    trial: FuzzTrial
    nonce: str
    mount: Json  # what the volume's line of mountinfo must say (lab.storage.mountinfo.Expected)
    phases: tuple[Phase, ...]
    processes: tuple[Process, ...]  # the daemon's lives, in order
    kills: tuple[str, ...]  # where each was really struck
    look: Look | None
    history: tuple[Json, ...]
    verifier: str  # name and version
    up_ms: tuple[float, ...]  # of each life, from asking the engine to start it to its first answer
    starts: int  # containers started for it
    failure: Failure | None = None
    diagnosis: str = ""  # of a refused start


@dataclass(frozen=True)
class FuzzResult:
    """One line of a fuzz run's journal: a finished trial in brief. All that a report needs."""

    trial: FuzzTrial  # its scenario without its lives, which seed and number draw again
    verdict: Verdict
    took_s: float
    operations: int  # that were invoked; a check's own requests are not among them
    kills: tuple[str, ...]
    restarts: int
    up_ms: tuple[float, ...]
    waits_ms: dict[str, tuple[float, ...]]  # per operation, answered or not, a check's own among them
    notes: tuple[str, ...]  # losses that nobody promised to prevent, a line each
    mount: str = ""
    verifier: str = ""
    evidence: str | None = None  # folder, relative to the run, if kept whole
