"""Reads a `subject.toml` with its catalogues, and checks that what they name is there.

The built-in subjects are read by the same code from the same kind of file; nothing here knows one by name.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic
import pydantic_core

from lab.engine.errors import UsageError
from lab.files import read_given
from lab.model import RECOVERS
from lab.subject.spec import FORMAT, MOMENTS, BugCatalogue, File, HookCatalogue, Subject, Table, VerifierTable, hooks_of
from lab.text import one_line

FileT = TypeVar("FileT", bound=Table)
IMAGES = Path(__file__).resolve().parents[2] / "images"
SUBJECTS = IMAGES / "subjects"  # the built-in ones
FUZZ_VERIFIER = VerifierTable(
    image=f"build:{IMAGES / 'system' / 'checkers' / 'models'}",
    command=("verify", "fuzz"),
    audits=("machine-kept-up", "work-done"),
)  # of a daemon that names no other: the oracle knows no subject

MAX_BYTES = 1024 * 1024  # of one TOML file
MAX_SHOWN = 80  # characters of a wrong value
# A dotted key of more than 32 parts: tomllib takes minutes for one of thousands.
_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')(?:[ \t]*\.[ \t]*(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')){32}"""
)


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
    file = read_table(File, path)
    folder = path.resolve().parent
    hooks = read_table(HookCatalogue, folder / file.hooks.catalogue).hook if file.hooks else ()
    bugs = read_table(BugCatalogue, folder / file.bugs.catalogue).bug if file.bugs else ()
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
    for moment in MOMENTS:
        if moment in names:
            raise UsageError(
                f"{path}: the hook catalogue lists {moment!r}, which is the name of a moment", "Rename it."
            )
    for hook, where in _named_hooks(subject):
        if hook not in names:
            raise UsageError(f"{path}: {where} names the hook {hook!r}, which is not in the catalogue")
    for bug in subject.bugs:
        if bug.property not in (*subject.promises, *subject.verifier.audits, RECOVERS):
            raise UsageError(
                f"{path}: bug {bug.name} names the property {bug.property!r}, which is not under [promises]",
                "What is not promised is only noted, so nothing could catch it.",
            )
        wanted, value = ("within", bug.within) if subject.driven_by == "clients" else ("points", bug.points)
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


def check_faults(subject: Subject, known: Iterable[str]) -> None:
    """That every fault under [promises] is one of `known`: one that is misspelled would promise nothing.

    A campaign calls this, which knows the faults. Raises UsageError.
    """
    there = tuple(known)
    for name, promised in subject.promises.items():
        for fault in promised:
            if fault not in there:
                raise UsageError(
                    f"{subject.folder / 'subject.toml'}: [promises] {name} names the fault {fault!r}"
                    f"{did_you_mean(fault, there)}",
                    f"There are: {', '.join(there)}.",
                )


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """`, did you mean …?`, or nothing if no known name is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def read_table(kind: type[FileT], path: Path) -> FileT:
    """A TOML file of that shape. Raises UsageError with the place and the reason."""
    data = _toml(path)
    version = data.get("format", FORMAT)
    if "format" in kind.model_fields and version != FORMAT:
        raise UsageError(
            f"{path}: format = {one_line(repr(version), MAX_SHOWN)} is not known; this lab reads {FORMAT}",
            "docs/upgrade.md says what has changed and what to write instead.",
        )
    try:
        # As JSON: only there is a list strictly a tuple, while "1000" is no number and "yes" no truth.
        return kind.model_validate_json(json.dumps(data, default=str), strict=True)
    except pydantic.ValidationError as error:
        lines = [f"{_place(e)}: {_plain(kind, e)}" for e in error.errors()]
        raise UsageError(f"{path}:\n    " + "\n    ".join(lines), "docs/subjects.md describes every key.") from error


def _toml(path: Path) -> dict[str, Any]:
    try:
        text = read_given(path, MAX_BYTES).decode("utf-8")
        if _LONG_KEY.search(text):
            raise UsageError(f"{path} is not read: it has a key of more than 32 parts")
        data = tomllib.loads(text)
        if _has_nul(data):
            raise UsageError(f"{path} is not read: it has a NUL in a text")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    except RecursionError:
        raise UsageError(f"{path} is not read: it is nested too deeply") from None
    return data


def _has_nul(data: object) -> bool:
    """Whether any text has a NUL: no path and no argument of a command can."""
    if isinstance(data, dict):
        return any("\0" in key or _has_nul(value) for key, value in data.items())
    return any(map(_has_nul, data)) if isinstance(data, list) else isinstance(data, str) and "\0" in data


def _place(error: pydantic_core.ErrorDetails) -> str:
    return one_line(".".join(str(part) for part in error["loc"]) or "file", MAX_SHOWN)


def _plain(kind: type[Table], error: pydantic_core.ErrorDetails) -> str:
    """A validation error in a person's words."""
    if error["type"] == "extra_forbidden":
        *where, key = error["loc"]
        return "unknown key" + did_you_mean(str(key), _keys_at(kind, where))
    if error["type"] == "missing":
        return "missing"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])  # our own words, of a whole table: they name what is wrong in it
    return f"{error['msg']} (found {one_line(repr(error['input']), MAX_SHOWN)})"


def _keys_at(kind: type[Table], where: Iterable[int | str]) -> list[str]:
    """The keys that the table at a place may have; none where it is not known."""
    for part in where:
        if isinstance(part, int) or part not in kind.model_fields:
            continue
        annotation = kind.model_fields[part].annotation
        inner = (annotation, *get_args(annotation))
        kind = next((c for c in inner if isinstance(c, type) and issubclass(c, Table)), Table)
    return list(kind.model_fields)
