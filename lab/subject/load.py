"""Reads a `subject.toml` with its catalogues: what is tested, by which commands, and what it promises.

The built-in subjects are read by the same code from the same kind of file; nothing here knows one by name.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import pydantic
import pydantic_core
from pydantic import BaseModel, ConfigDict, Field

import faults
from lab.engine.errors import UsageError
from lab.model import ANSWER, RECOVERS
from lab.workloads import FAMILIES

IMAGES = Path(__file__).resolve().parents[2] / "images"
SUBJECTS = IMAGES / "subjects"  # the built-in ones
Command = Annotated[tuple[str, ...], Field(min_length=1)]
FileT = TypeVar("FileT", bound="Table")
MAX_SHOWN = 80  # characters of a wrong value
DAEMON_MOMENTS = (ANSWER, "invoke", "start", "end")  # at which a daemon is killed, beside its hooks


class Table(BaseModel):
    """A table of a TOML file. Unknown keys and wrong types are errors, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SubjectTable(Table):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    image: str  # "build:DIR" or the name of an image that is there
    data: Annotated[str, Field(pattern=r"^/[a-z0-9/_-]+$")]
    uid: Annotated[int, Field(gt=0)] = 1000  # root would need no permission that a promise could depend on
    run: Command
    recover: Command
    race: Command | None = None  # one of several released at once; only the cells need it
    memory_mb: Annotated[int, Field(ge=16, le=4096)] = 128


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


FUZZ_VERIFIER = VerifierTable(
    image=f"build:{IMAGES / 'system' / 'checkers' / 'models'}",
    command=("verify", "fuzz"),
    audits=("machine-kept-up", "work-done"),
)  # of a daemon that names no other: the oracle knows no subject


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
    """Seconds for each phase; the reasons stand in `docs/subjects.md`."""

    ready: Annotated[float, Field(gt=0, le=600)] = 20
    hook: Annotated[float, Field(gt=0, le=600)] = 30
    kill: Annotated[float, Field(gt=0, le=600)] = 10
    recovery: Annotated[float, Field(gt=0, le=600)] = 30
    resume: Annotated[float, Field(gt=0, le=600)] = 30
    look: Annotated[float, Field(gt=0, le=600)] = 20


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


class _File(Table):
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
    def _one_kind(self) -> _File:
        if (self.workload is None) == (self.fuzz is None):
            raise ValueError("give either [workload], or [fuzz] for a daemon")
        if self.workload is not None and self.hooks is None:
            raise ValueError("[hooks] is missing: only a daemon can do without")
        if self.workload is not None and self.verifier is None:
            raise ValueError("[verifier] is missing: only a daemon can do without")
        return self


class _Hooks(Table):
    hook: tuple[Hook, ...]


class _Bugs(Table):
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


def load(name_or_path: str) -> Subject:
    """The subject of that name in `images/subjects/`, or of the `subject.toml` at that path. Raises UsageError."""
    path = Path(name_or_path)
    if path.suffix != ".toml" and "/" not in name_or_path:
        path = SUBJECTS / name_or_path / "subject.toml"
        if not path.is_file():
            built_in = ", ".join(sorted(p.parent.name for p in SUBJECTS.glob("*/subject.toml")))
            raise UsageError(
                f"no subject {name_or_path!r}", f"Built in: {built_in}. Yours: the path of its subject.toml."
            )
    elif path.is_dir():
        path = path / "subject.toml"
    file = read_table(_File, path)
    folder = path.resolve().parent
    hooks = read_table(_Hooks, folder / file.hooks.catalogue).hook if file.hooks else ()
    bugs = read_table(_Bugs, folder / file.bugs.catalogue).bug if file.bugs else ()
    subject = Subject(
        folder=folder,
        subject=file.subject,
        workload=file.workload,
        fuzz=file.fuzz,
        hooks=hooks,
        expected_hooks=file.hooks.expected if file.hooks else 0,
        barrier=file.hooks.barrier if file.hooks and not file.fuzz else "",
        verifier=file.verifier or FUZZ_VERIFIER,
        promises=file.promises,
        ledger=file.ledger,
        coverage=file.coverage,
        deadlines=file.deadlines_s,
        bugs=bugs,
        bug_prefix=file.bugs.prefix if file.bugs else (),
    )
    _check_references(subject, path)
    return subject


def _check_references(subject: Subject, path: Path) -> None:
    """What a file names must be there, and be there once: a typing error must not become a check that cannot fail."""
    names = [hook.name for hook in subject.hooks]
    for what, listed in (("hook", names), ("bug", [bug.name for bug in subject.bugs])):
        twice = sorted({name for name in listed if listed.count(name) > 1})
        if twice:
            raise UsageError(f"{path}: the {what} catalogue lists {', '.join(twice)} twice")
    if len(names) != subject.expected_hooks:
        raise UsageError(
            f"{path}: [hooks] expected = {subject.expected_hooks}, but the catalogue lists {len(names)}",
            "If you added or removed a hook on purpose, change the number.",
        )
    for moment in DAEMON_MOMENTS if subject.fuzz else (ANSWER,):
        if moment in names:
            raise UsageError(
                f"{path}: the hook catalogue lists {moment!r}, which is the name of a moment", "Rename it."
            )
    for hook, where in _named_hooks(subject):
        if hook not in names:
            raise UsageError(f"{path}: {where} names the hook {hook!r}, which is not in the catalogue")
    for name, promised in subject.promises.items():
        for fault in promised:
            if fault not in faults.names():
                there = ", ".join(faults.names())
                raise UsageError(f"{path}: [promises] {name} names the fault {fault!r}", f"There are: {there}.")
    for bug in subject.bugs:
        if bug.property not in (*subject.promises, *subject.verifier.audits, RECOVERS):
            raise UsageError(
                f"{path}: bug {bug.name} names the property {bug.property!r}, which is not under [promises]",
                "What is not promised is only noted, so nothing could catch it.",
            )
        wanted, value = ("within", bug.within) if subject.fuzz else ("points", bug.points)
        if not value:
            raise UsageError(f"{path}: bug {bug.name} lacks `{wanted}`: nothing says where it must be caught")


def _named_hooks(subject: Subject) -> Iterator[tuple[str, str]]:
    """Every hook that is named somewhere, with the place."""
    if subject.barrier:
        yield subject.barrier, "[hooks] barrier"
    if subject.ledger.hold_at:
        yield subject.ledger.hold_at, "[ledger] hold_at"
    for window in subject.coverage.windows:
        yield window, "[coverage] windows"
    for bug in subject.bugs:
        for point in bug.points:
            yield from ((hook, f"bug {bug.name}") for hook in hooks_of(point))
    for hook in subject.hooks:
        yield from ((name, f"`after` of hook {hook.name}") for name in hook.after)


def hooks_of(point: str) -> tuple[str, ...]:
    """A bug's point: "hook", or "hook > hook" with a second crash in the recovery."""
    return tuple(part.strip() for part in point.split(">"))


def read_table(kind: type[FileT], path: Path) -> FileT:
    """A TOML file of that shape. Raises UsageError with the place and the reason."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    try:
        # As JSON: only there is a list strictly a tuple, while "1000" is no number and "yes" no truth.
        return kind.model_validate_json(json.dumps(data, default=str), strict=True)
    except pydantic.ValidationError as error:
        lines = [f"{'.'.join(str(part) for part in e['loc']) or 'file'}: {_plain(e)}" for e in error.errors()]
        raise UsageError(f"{path}:\n    " + "\n    ".join(lines), "docs/subjects.md describes every key.") from error


def _plain(error: pydantic_core.ErrorDetails) -> str:
    """A validation error in a person's words."""
    if error["type"] == "extra_forbidden":
        return "unknown key"
    if error["type"] == "missing":
        return "missing"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])  # our own words, of a whole table: they name what is wrong in it
    found = repr(error["input"])
    return f"{error['msg']} (found {found if len(found) <= MAX_SHOWN else found[:MAX_SHOWN] + '…'})"
