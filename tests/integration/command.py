"""Runs the `lab` command as a user does: another process, in a folder of its own, with every wait bounded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAB = Path(sys.executable).parent / "lab"
NOTES = Path(__file__).parents[2] / "images" / "subjects" / "notes" / "subject.toml"
TIMEOUT_S = 100.0


@dataclass(frozen=True)
class Ended:
    """A command that has ended: exit code, and all that it printed."""

    code: int
    out: str
    err: str


class Running:
    """A `lab` command at work. As a context, it is killed at the end if it still runs."""

    def __init__(
        self,
        where: Path,
        *words: str,
        environment: dict[str, str] | None = None,
        program: Sequence[str | Path] = (LAB,),
    ) -> None:
        self.where = where
        self._files = [(where / f".{name}-{time.monotonic_ns()}") for name in ("out", "err")]
        out, err = (path.open("wb") for path in self._files)
        with out, err:
            self.process = subprocess.Popen(
                [*program, *words], cwd=where, stdout=out, stderr=err, env={**os.environ, **(environment or {})}
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def until(self, true: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Wait until something is true while it runs."""
        deadline = time.monotonic() + timeout_s
        while not true():
            assert self.process.poll() is None, f"it ended first: {self.said()}"
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {self.said()}"
            time.sleep(0.02)

    def ended(self, timeout_s: float = TIMEOUT_S) -> Ended:
        code = self.process.wait(timeout_s)
        out, err = (path.read_text("utf-8", "replace") for path in self._files)
        return Ended(code, out, err)

    def said(self) -> str:
        return "\n".join(path.read_text("utf-8", "replace")[-1500:] for path in self._files)


def lab(
    where: Path,
    *words: str,
    environment: dict[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    program: Sequence[str | Path] = (LAB,),
) -> Ended:
    """Run it to its end."""
    with Running(where, *words, environment=environment, program=program) as running:
        return running.ended(timeout_s)


def notes(*words: str) -> tuple[str, ...]:
    """A run of the small example subject: quick, and not one of the lab's own."""
    return ("run", "matrix", "--subject", str(NOTES), "--seed", "7", *words)


def folder(where: Path) -> Path | None:
    """The only run in a folder."""
    found = sorted(path.parent for path in (where / ".lab" / "runs").glob("2*/run.json"))
    assert len(found) <= 1
    return found[0] if found else None


def journal(run: Path | None) -> list[dict[str, Any]]:
    """The whole lines of a run's journal, also while it is written."""
    path = run / "journal.jsonl" if run else None
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def finished(run: Path | None) -> list[int]:
    """The trials that have a result, in the order of the journal."""
    return [line["result"]["trial"]["ident"] for line in journal(run) if "result" in line]


def assert_each_trial_once(run: Path) -> None:
    """No trial has two results, and each crash point of the plan has one."""
    done = finished(run)
    assert [ident for ident, times in Counter(done).items() if times > 1] == []
    plan = json.loads((run / "plan.json").read_text())
    assert {t["ident"] for t in plan["trials"] if t["kind"] == "point"} <= set(done)


def summary(run: Path) -> dict[str, Any]:
    found = json.loads((run / "summary.json").read_text())
    assert isinstance(found, dict)
    return found
