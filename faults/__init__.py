"""The faults, found by name: module `faults.<name>` holds one as `FAULT`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import cast

from faults.base import Fault


def names() -> tuple[str, ...]:
    """Every fault there is."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base"))


def find(name: str) -> Fault:
    """The fault of that name. Raises LookupError."""
    if name not in names():
        raise LookupError(f"no fault {name!r}; there are: {', '.join(names())}")
    return cast(Fault, importlib.import_module(f"faults.{name}").FAULT)
