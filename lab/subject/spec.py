"""What a `subject.toml` and its catalogues may say, as tables that check themselves; docs/subjects.md has every key.

A built-in subject is read into the same tables as a user's; nothing here knows one by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from lab.engine.errors import UsageError
from lab.engine.services import SOCKETS
from lab.model import ANSWER
from lab.workloads import FAMILIES

FORMAT = 1  # of subject.toml; docs/upgrade.md says what has changed
Driver = Literal["itself", "clients"]
Command = Annotated[tuple[str, ...], Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, le=600)]
MAX_UID = 2**31 - 1  # the engine's bound
RESERVED = ("dev", "proc", "sys", "tmp", SOCKETS.strip("/"))  # folders of a container that are mounted already
MOMENTS = (ANSWER, "invoke", "start", "end")  # stand where a hook's name does


class Table(BaseModel):
    """A table of a TOML file. Unknown keys and wrong types are errors, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SubjectTable(Table):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    image: str  # "build:DIR" or the name of an image that is there
    data: Annotated[str, Field(pattern=r"^(/[a-z0-9_-]+)+$")]
    uid: Annotated[int, Field(gt=0, le=MAX_UID)] = 1000  # root would need no permission that a promise could depend on
    run: Command
    recover: Command
    race: Command | None = None  # one of several released at once; only the cells need it
    memory_mb: Annotated[int, Field(ge=16, le=4096)] = 128

    @pydantic.model_validator(mode="after")
    def _mountable(self) -> SubjectTable:
        if self.data.split("/")[1] in RESERVED:
            taken = ", ".join(f"/{name}" for name in RESERVED)
            raise ValueError(f"`data` lies in one of {taken}, where the lab or the engine mounts something else")
        return self


class WorkloadTable(Table):
    kind: str | None = None
    files: tuple[str, ...] = ()

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> WorkloadTable:
        if (self.kind is None) == (not self.files):
            raise ValueError("give either `kind` or `files`")
        if self.kind is not None and self.kind not in FAMILIES:
            raise ValueError(f"`kind` is none of {', '.join(FAMILIES)}")
        if len(self.files) == 1:
            raise ValueError("`files` needs two or more: the first one prepares the state, the others are killed")
        return self


class FuzzTable(Table):
    """A daemon: several clients drive it, by scenarios drawn from a plan file (docs/fuzz.md)."""

    plan: str
    clients: str | None = None  # the lab's own; an image of the subject's stands on these and adds an adapter
    corpus: str | None = None  # seeds that once failed


class HooksTable(Table):
    catalogue: str
    expected: Annotated[int, Field(gt=0)]
    barrier: str = "recovery.done"


class VerifierTable(Table):
    image: str
    command: Command
    audits: tuple[str, ...] = ()  # properties that say whether a trial ran as asked: a difference makes it invalid


class LedgerTable(Table):
    hold_at: str | None = None


class CoverageTable(Table):
    """What a campaign must have seen; see `docs/subjects.md`."""

    windows: tuple[str, ...] = ()
    by: str = ""
    values: tuple[str, ...] = ()
    ledger: tuple[Literal["resent", "deduped", "fenced", "receipts"], ...] = ()

    @pydantic.model_validator(mode="after")
    def _all_or_none(self) -> CoverageTable:
        if not (bool(self.windows) == bool(self.by) == bool(self.values)):
            raise ValueError("`windows`, `by` and `values` go together")
        return self


class Deadlines(Table):
    """For each phase; the reasons stand in `docs/subjects.md`."""

    ready: Seconds = 20
    hook: Seconds = 30
    kill: Seconds = 10
    recovery: Seconds = 30
    resume: Seconds = 30
    look: Seconds = 20


class BugsTable(Table):
    catalogue: str
    prefix: Command

    @pydantic.model_validator(mode="after")
    def _names_the_bug(self) -> BugsTable:
        if not any("{bug}" in part for part in self.prefix):
            raise ValueError("`prefix` needs {bug}: without it the good program would run")
        return self


class Hook(Table):
    """One line of the catalogue. A name has no `#` and no `>`: these join names in points."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$")]
    meaning: Annotated[str, Field(min_length=1)]
    where: Literal["run", "recovery"]
    after: tuple[str, ...] = ()


class Bug(Table):
    """A planted bug: a known-bad variant that a property must catch, at one of its points or within some trials."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    meaning: Annotated[str, Field(min_length=1)]
    property: str
    points: tuple[str, ...] = ()  # of a daemon none: its kills are drawn
    within: Annotated[int, Field(ge=1, le=1000)] | None = None  # of a daemon: trials that it takes at most
    timing: bool = False  # it needs operations side by side, or waits: no short script shows it
    tags: dict[str, str] = {}
    workload: dict[str, str] = {}  # only in workloads that have these values, e.g. { journal_mode = "delete" }
    canary: bool = False


class File(Table):
    """A subject.toml."""

    format: int = FORMAT
    subject: SubjectTable
    workload: WorkloadTable | None = None
    fuzz: FuzzTable | None = None
    hooks: HooksTable | None = None
    verifier: VerifierTable | None = None
    promises: Annotated[dict[str, tuple[str, ...]], Field(min_length=1)]
    ledger: LedgerTable = LedgerTable()
    coverage: CoverageTable = CoverageTable()
    deadlines_s: Deadlines = Deadlines()
    bugs: BugsTable | None = None

    @pydantic.model_validator(mode="after")
    def _one_kind(self) -> File:
        if (self.workload is None) == (self.fuzz is None):
            raise ValueError("give either [workload], or [fuzz] for a daemon")
        if self.workload is not None and self.hooks is None:
            raise ValueError("[hooks] is missing: only a daemon can do without")
        if self.workload is not None and self.verifier is None:
            raise ValueError("[verifier] is missing: only a daemon can do without")
        return self


class HookCatalogue(Table):
    hook: tuple[Hook, ...]


class BugCatalogue(Table):
    bug: tuple[Bug, ...]


class Subject(Table):
    """A subject, whole: the tables of its file, its catalogues, and the folder that its paths are relative to."""

    folder: Path
    subject: SubjectTable
    workload: WorkloadTable | None
    fuzz: FuzzTable | None = None
    hooks: tuple[Hook, ...]
    expected_hooks: int
    barrier: str
    verifier: VerifierTable
    promises: dict[str, tuple[str, ...]]
    ledger: LedgerTable
    coverage: CoverageTable
    deadlines: Deadlines
    bugs: tuple[Bug, ...]
    bug_prefix: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def driven_by(self) -> Driver:
        """Who gives it its work; a campaign can run subjects of one kind."""
        return "clients" if self.fuzz is not None else "itself"

    def bug(self, name: str) -> Bug:
        """The planted bug of that name. Raises UsageError."""
        for bug in self.bugs:
            if bug.name == name:
                return bug
        names = ", ".join(b.name for b in self.bugs) or "none"
        raise UsageError(f"subject {self.name} has no planted bug {name!r}", f"It has: {names}.")

    def command(self, base: tuple[str, ...], bug: str | None) -> tuple[str, ...]:
        """`run` or `recover`, of the good program or of one with a planted bug."""
        if bug is None:
            return base
        return tuple(part.replace("{bug}", bug) for part in self.bug_prefix) + base


def hooks_of(point: str) -> tuple[str, ...]:
    """A bug's point: "hook", or "hook > hook" with a second crash in the recovery."""
    return tuple(part.strip() for part in point.split(">"))
