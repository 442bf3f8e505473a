"""A scenario as a file that `lab replay` runs, and as lines for a person: what the shrinker leaves of a failure.

The file is read by `lab replay`, perhaps years later and after an edit by hand: whatever is wrong with it is said in
words, with its place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pydantic

from lab import codec
from lab.engine.errors import UsageError
from lab.model import Limits, Scenario
from lab.plan.plan_file import LimitsTable, PlanFile

FORMAT = 2
KIND = "crash-fuzz script"  # what tells it from any other JSON file with a format number
TODO = "`lab replay` takes a run and a trial's number, or a script that `lab run fuzz` wrote (docs/fuzz.md)."


@dataclass(frozen=True)
class Script:
    """A scenario with all that it takes to run it again, and what broke then."""

    __pydantic_config__: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(extra="forbid")

    scenario: Scenario
    storage: str
    property: str  # that broke
    bug: str | None  # planted
    subject: str  # as it was given: a name, or the path of a subject.toml
    run: str  # where it was found
    kind: str = KIND
    format: int = FORMAT


_READER = pydantic.TypeAdapter(Script)


def read(path: Path) -> Script:
    """The script of that file. Raises UsageError with the place and the reason."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", TODO) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no script: it is not text", TODO) from error
    return parse(text, path)


def parse(text: str, path: Path) -> Script:
    """The script in the text of a file. Raises UsageError with the place and the reason."""
    _check_kind(path, text)
    try:
        script = _READER.validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        said = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise UsageError(f"{path} is damaged:\n    " + "\n    ".join(said[:5]), TODO) from error
    for wrong in _wrong(script.scenario):
        raise UsageError(f"{path} is damaged: {wrong}", TODO)
    return script


def check_operations(script: Script, plan: PlanFile, path: Path) -> None:
    """Raises UsageError for an operation that the subject's plan file does not have."""
    for op in script.scenario.operations:
        if op.op not in plan.operations:
            raise UsageError(f"{path} is damaged: step {op.step}: {script.subject} has no operation {op.op!r}", TODO)


def _check_kind(path: Path, text: str) -> None:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: it is not JSON ({error})", TODO) from error
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(f"{path} is no script of a crash fuzz", TODO)
    if data.get("format") != FORMAT:
        raise UsageError(
            f"{path} has format {data.get('format')!r}, this lab reads format {FORMAT}",
            "Run it with the lab that wrote it.",
        )


def _wrong(scenario: Scenario) -> list[str]:
    """What the types cannot say; a file may have been edited by hand."""
    operations = [op for life in scenario.lives for op in life.ops]  # pauses too
    steps = [op.step for op in operations]
    said = [f"step {step} is there twice" for step in sorted({s for s in steps if steps.count(s) > 1})]
    said += [f"step {op.step}: no client {op.client}" for op in operations if not 1 <= op.client <= scenario.clients]
    said += _wrong_limits(scenario.limits)
    if not scenario.lives:
        return ["it has no life"]
    if scenario.lives[-1].kill is not None:
        said.append("its last life is killed, so that nothing could be read back")
    for number, life in enumerate(scenario.lives, 1):
        if life.kill is None and number < len(scenario.lives):
            said.append(f"life {number} has no kill, but another life follows")
        elif life.kill is not None:
            checks = (
                (life.kill.hook, "names no hook and no moment"),
                (life.kill.occurrence >= 1, "needs a count from 1"),
                (life.kill.after_ms >= 0, "is before its place"),
            )
            said += [f"the kill of life {number} {why}" for right, why in checks if not right]
    return said


def _wrong_limits(limits: Limits) -> list[str]:
    """One that nobody can keep would be broken by every daemon."""
    try:
        LimitsTable(**codec.to_json(limits))
    except pydantic.ValidationError as error:
        return [f"its limit {e['loc'][0]}: {e['msg']}" for e in error.errors()]
    return [] if limits.answer_ms < limits.timeout_ms else ["its limit timeout_ms is not above answer_ms"]


def path_of(ident: int) -> str:
    """The reproducer of a trial, relative to its run."""
    return f"shrunk/{ident:04d}.json"


def how_path_of(ident: int) -> str:
    return f"shrunk/{ident:04d}-how.json"
