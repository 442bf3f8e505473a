"""THE tables of legal transitions, as data. Whatever changes a state asks here; the hooks are named after the rows."""

ATTEMPT = (
    (None, "created"),  # the task is taken on, or a failed attempt is tried again
    ("created", "admitted"),  # a slot is free
    ("created", "cancelled"),  # cancelled before admission
    ("admitted", "running"),  # it starts
    ("running", "waiting"),  # its tool call is on its way
    ("waiting", "running"),  # the call's outcome is recorded
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "timed_out"),  # the next step would pass the deadline
    ("running", "interrupted"),  # recovery found it without an owner
    ("waiting", "interrupted"),  # the same, or the reply that it waits for is lost
    ("interrupted", "running"),  # resumed
)

INTENT = (
    (None, "proposed"),  # the script asks for a call that no intent exists for
    ("proposed", "dispatched"),  # durable before the request is sent
    ("dispatched", "applied"),  # the outside has confirmed it
    ("dispatched", "resolved_failed"),  # the outside declined it
    ("dispatched", "proposed"),  # certain, behind a fence, that it has not landed
    ("applied", "resolved_ok"),  # its outcome belongs to the attempt
)

LEGAL = {"attempt": frozenset(ATTEMPT), "intent": frozenset(INTENT)}

OWNED = ("running", "waiting")  # only a live owner may hold these
IN_A_SLOT = ("admitted", "running", "waiting", "interrupted")


def hook(kind: str, before, to: str) -> str:
    """The name that the hooks of a transition begin with: `attempt.new-created`."""
    return f"{kind}.{before or 'new'}-{to}"


def legal(kind: str, before, to: str) -> bool:
    """Whether the table of `kind` has this transition."""
    return (before, to) in LEGAL[kind]
