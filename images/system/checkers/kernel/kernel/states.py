"""The verifier's own copy of the two transition tables of the format. Data only; never shared with the subject."""

from __future__ import annotations

TERMINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out"})
OWNED = frozenset({"running", "waiting"})  # only a live owner may hold these
HOLDS_SLOT = frozenset({"admitted", "running", "waiting", "interrupted"})
SETTLED = frozenset({"proposed", "resolved_ok", "resolved_failed"})  # what recovery may leave of an intent
RESOLVED = frozenset({"resolved_ok", "resolved_failed"})
LANDED = frozenset({"applied", "resolved_ok"})  # the outside has confirmed it

ATTEMPT: frozenset[tuple[str | None, str]] = frozenset(
    {
        (None, "created"),
        ("created", "admitted"),
        ("created", "cancelled"),
        ("admitted", "running"),
        ("running", "waiting"),
        ("waiting", "running"),
        ("running", "succeeded"),
        ("running", "failed"),
        ("running", "cancelled"),
        ("running", "timed_out"),
        ("running", "interrupted"),
        ("waiting", "interrupted"),
        ("interrupted", "running"),
    }
)

INTENT: frozenset[tuple[str | None, str]] = frozenset(
    {
        (None, "proposed"),
        ("proposed", "dispatched"),
        ("dispatched", "applied"),
        ("dispatched", "resolved_failed"),
        ("dispatched", "proposed"),
        ("applied", "resolved_ok"),
    }
)
