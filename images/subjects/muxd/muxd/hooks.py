"""Where the lab can stop us: hooks as records on standard output, see docs/protocol.md.

A hook may be reached by any thread. The one that reaches the armed hit says so and stands still; the others go on.
Nothing in here may change what the daemon does, apart from standing still.
"""

import json
import os
import time
from threading import Lock

from muxd.errors import UsageError


class Hooks:
    """The hooks of one life. `environ` is the environment as a mapping; of an empty one nothing is armed."""

    def __init__(self, environ):
        self._nonce = environ.get("LAB_NONCE")
        self._census = environ.get("LAB_CENSUS") == "1"
        self._armed = _armed(environ.get("LAB_HOOK"))
        self._hits: dict[str, int] = {}
        self._counting = Lock()

    def reach(self, name: str) -> None:
        """A thread stands at hook `name`: count it, and stop here if that is what the lab asked for."""
        with self._counting:
            n = self._hits[name] = self._hits.get(name, 0) + 1
        is_armed = (name, n) == self._armed
        if (is_armed or self._census) and self._nonce is not None:
            record = {"lab": self._nonce, "hit": name, "n": n}
            os.write(1, b"\x1e" + json.dumps(record, separators=(",", ":")).encode() + b"\n")
        while is_armed:
            time.sleep(3600)


def _armed(text):
    if not text:
        return None
    name, _, n = text.rpartition("#")
    if not name or not n.isdigit():
        raise UsageError(f"LAB_HOOK={text}: a hook is armed as NAME#N")
    return name, int(n)
