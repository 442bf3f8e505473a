"""Reads LAB_WORKLOAD, see docs/cells.md. What is no workload is refused before the store is opened."""

import json

from sessions import ops
from sessions.database import DEFAULT_MODE, MODES
from sessions.errors import UsageError


class Workload:
    """The script of a cell: `work` and `resume` are lists of ops, `race` is one op or None."""

    __slots__ = ("journal_mode", "race", "resume", "work")

    def __init__(self, text: str):
        try:
            data = json.loads(text)
            if (data["kind"], data["version"]) != ("session-cells", 1):
                raise ValueError(f"{data['kind']!r} version {data['version']!r}, not 'session-cells' version 1")
            self.journal_mode = DEFAULT_MODE if data["journal_mode"] == "default" else data["journal_mode"]
            if self.journal_mode not in MODES:
                raise ValueError(f"no journal mode {self.journal_mode!r}")
            self.work = list(_expanded(data["work"]))
            self.resume = list(_expanded(data["resume"]))
            self.race = data["race"]
            for op in (*self.work, *self.resume, *((self.race,) if self.race else ())):
                ops.check(op)
        except KeyError as error:
            raise UsageError(f"LAB_WORKLOAD cannot be worked: {error} is missing") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"LAB_WORKLOAD cannot be worked: {error}") from None


def _expanded(script):
    """Each op as it is done: `repeat` is N of them, with `{n}` in every text counting from 1."""
    for op in script:
        if "repeat" not in op:
            yield op
            continue
        body = {key: value for key, value in op.items() if key != "repeat"}
        for n in range(1, op["repeat"] + 1):
            yield {key: v.replace("{n}", str(n)) if isinstance(v, str) else v for key, v in body.items()}
