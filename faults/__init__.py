"""The faults, found by name: module `faults.<name>` holds one as `FAULT`."""

from __future__ import annotations

import importlib
from typing import cast

from faults.base import Fault


def find(name: str) -> Fault:
    """The fault of that name. Raises LookupError."""
    if not name.isidentifier():
        raise LookupError(f"no fault {name!r}")
    try:
        module = importlib.import_module(f"faults.{name}")
        return cast(Fault, module.FAULT)
    except (ModuleNotFoundError, AttributeError) as error:
        raise LookupError(f"no fault {name!r}") from error
