"""What each line of a clients' history must carry (docs/fuzz.md says what it means), for live ones and stored ones.

An event that has no entry here is none that anything reads, and may carry what it likes.
"""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic import BaseModel, create_model

from lab.codec import from_json
from lab.model import Json

COMPLETIONS: Final = ("ok", "fail", "info")
_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "invoke": {"id": int, "step": int, "client": int, "op": str, "args": dict[str, Any], "at_ms": float},
    "ok": {"id": int, "result": Any, "at_ms": float},
    "fail": {"id": int, "error": dict[str, Any], "at_ms": float},
    "info": {"id": int, "why": str, "at_ms": float},
    "check": {"life": int, "final": bool, "observed": Any},
    "check-failed": {"life": int, "why": str},
    "still": {"ms": float, "at_ms": float},
    "settled": {"idle": bool},
    "error": {"what": str},
    "killed": {"life": int, "at": str},
    "ledger": {"ledger": dict[str, Any]},
}
_SHAPES: Final[dict[str, type[BaseModel]]] = {
    event: create_model(event, **cast(Any, {name: (kind, ...) for name, kind in fields.items()}))
    for event, fields in _FIELDS.items()
}


class LineCheck:
    """Line after line of one history: each has its shape, and what is completed has been invoked and is not yet."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def check(self, line: Json) -> None:
        """Raises ValueError, one line that says what is wrong."""
        event = line.get("event")
        if not isinstance(event, str):
            raise ValueError("it names no event")
        if (shape := _SHAPES.get(event)) is not None:
            from_json(shape, line)
        if event == "invoke":
            self._open.add(line["id"])
        elif event in COMPLETIONS:
            if line["id"] not in self._open:
                raise ValueError(f"`{event}` of request {line['id']}, which is not open")
            self._open.remove(line["id"])
