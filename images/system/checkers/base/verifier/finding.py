"""What one property found: how many facts were compared, and the first that differs.

For every verifier, also a user's own. May not raise on any value that JSON can hold.
"""

from __future__ import annotations

from typing import Any


class Check:
    """Counts the facts of one property and keeps the first that differs."""

    def __init__(self) -> None:
        self.facts = 0
        self.differs: dict[str, Any] | None = None

    def same(self, fact: str, expected: Any, found: Any, why: str) -> bool:
        """Compare one fact. `why` says, for a person, which promise a difference breaks."""
        return self.holds(expected == found, fact, expected, found, why)

    def holds(self, true: bool, fact: str, expected: Any, found: Any, why: str) -> bool:
        """Count one fact that has already been compared, where `expected` is a sentence and not a value."""
        self.facts += 1
        if not true and self.differs is None:
            self.differs = {"fact": fact, "expected": expected, "found": found, "why": why}
        return true

    def answer(self) -> dict[str, Any]:
        """As the protocol has it."""
        return {"facts": self.facts, "differs": self.differs}
