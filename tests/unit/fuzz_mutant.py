"""The oracle with one rule taken out: a copy of its source in which one text is replaced, loaded beside it."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkers import HARNESS, PACKAGES
from fuzz_history import History, Judge, judge


@dataclass(frozen=True)
class Rule:
    """One rule of the oracle, and the history that shows what it is for."""

    says: str
    history: Callable[[], History]
    property: str  # that differs with the rule; or, of a false alarm, without it
    module: str  # of verifier/fuzz
    rule: str  # its source
    instead: str
    word: str = ""  # of what the property says

    def __str__(self) -> str:
        return self.says

    def seen(self, by: Judge = judge) -> bool:
        """Does this oracle report the history?"""
        why = self.history().broken(by).get(self.property)
        return why is not None and self.word in why

    def mutant(self, folder: Path) -> Judge:
        """The oracle without the rule, which must be there exactly once: one that was reworded is not left in."""
        for source in (HARNESS / "verifier", PACKAGES["models"]):
            into = folder / "verifier"
            shutil.copytree(source, into, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        path = folder / "verifier" / "fuzz" / f"{self.module}.py"
        source = path.read_text()
        assert source.count(self.rule) == 1, f"{self.rule!r} is {source.count(self.rule)} times in {self.module}.py"
        path.write_text(source.replace(self.rule, self.instead))
        return _load(folder)


def _load(folder: Path) -> Judge:
    """Import `verifier.fuzz` from there, and leave the real one in its place."""
    real = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "verifier"}
    for name in real:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        mutated: Judge = importlib.import_module("verifier.fuzz").judge
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == "verifier"]:
            del sys.modules[name]
        sys.modules.update(real)
    return mutated
