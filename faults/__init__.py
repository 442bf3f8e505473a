"""The faults, by name: module `faults.<name>` holds one as `FAULT`; others are registered."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

from faults.base import Fault, Holder, Process, Site
from lab.engine.errors import UsageError
from lab.storage import Layer

__all__ = ["Fault", "FaultSequence", "Holder", "Process", "Site", "find", "names", "parse", "register"]

_modules = frozenset(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")
_registered: dict[str, Fault] = {}


@dataclass(frozen=True)
class FaultSequence:
    """The faults of one trial's crash points, in order; the last one strikes at all further points."""

    names: tuple[str, ...]

    def at(self, index: int) -> str:
        """The name of the fault at a trial's crash point `index`, from 0."""
        return self.names[min(index, len(self.names) - 1)]

    def unavailable(self, layer: Layer) -> str | None:
        """Why it cannot strike on `layer`: the first reason of its faults. None if it can."""
        reasons = ((name, find(name).available(layer)) for name in self.names)
        return next((f"{name} is not available on {layer.name}: {why}" for name, why in reasons if why), None)

    def __str__(self) -> str:
        return ">".join(self.names)


def names() -> tuple[str, ...]:
    """Every fault there is."""
    return tuple(sorted(_modules | set(_registered)))


def find(name: str) -> Fault:
    """The fault of that name. Raises UsageError."""
    if name in _registered:
        return _registered[name]
    if name not in _modules:
        raise UsageError(f"no fault {name!r}", f"There are: {', '.join(names())}.")
    fault: Fault = importlib.import_module(f"faults.{name}").FAULT
    return fault


def register(fault: Fault) -> None:
    """Add a fault from elsewhere. Raises ValueError if there is one of that name."""
    if fault.name in names():
        raise ValueError(f"there is a fault {fault.name} already")
    _registered[fault.name] = fault


def parse(text: str) -> tuple[FaultSequence, ...]:
    """What `--fault` takes: `a,b` runs the plan once for each; `a>b` strikes with `a` first, then with `b`.

    Raises UsageError.
    """
    found = tuple(FaultSequence(tuple(name.strip() for name in part.split(">"))) for part in text.split(","))
    for sequence in found:
        for name in sequence.names:
            find(name)
    if len(set(found)) != len(found):
        raise UsageError(f"--fault {text} names one twice")
    return found
