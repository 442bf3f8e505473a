"""What a store must hold, by what it answered: its sessions and messages after each acknowledged operation.

An operation without an answer may have happened or not, whole or not at all; both are followed, as two possible stores,
until a later answer tells them apart. One look then sees one of the possible stores, or the store is wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from verifier.cells.case import Case
from verifier.cells.story import DONE, Op
from verifier.finding import Check

CHANGING = ("create", "append", "rewind", "edit", "rotate")  # what changes sessions or messages
COMPACTED = "compacted"


class Message(NamedTuple):
    role: str | None  # None: the store's own choice, as for a summary
    content: str
    origin: Op


class Session:
    """One session and its active messages."""

    def __init__(self, origin: Op, parent: str | None = None) -> None:
        self.origin = origin
        self.parent = parent
        self.closed = ""
        self.messages: list[Message] = []

    def copy(self) -> Session:
        other = Session(self.origin, self.parent)
        other.closed, other.messages = self.closed, list(self.messages)
        return other


Sessions = dict[str, Session]


class Impossible(Exception):
    """The operation cannot happen in this state."""


def apply(state: Sessions, op: Op) -> None:
    """Do one operation whole. Raises Impossible, and has changed nothing then."""
    do = op.do
    name = do["session"]
    if op.name == "create":
        if name in state:
            raise Impossible(f"there already is a session {name!r}")
        state[name] = Session(op)
        return
    if name not in state:
        raise Impossible(f"there is no session {name!r}")
    session = state[name]
    if op.name == "append":
        session.messages.append(Message(do["role"], do["content"], op))
    elif op.name == "rotate":
        if do["child"] in state or session.closed:
            raise Impossible(f"session {name!r} has already been rotated")
        session.closed = COMPACTED
        state[do["child"]] = child = Session(op, name)
        child.messages.append(Message(None, do["summary"], op))
    else:
        if do["keep"] >= len(session.messages):
            raise Impossible(f"session {name!r} has no message behind the first {do['keep']}")
        del session.messages[do["keep"] :]
        if op.name == "edit":
            session.messages.append(Message("user", do["content"], op))


def possible(case: Case, check: Check) -> list[Sessions]:
    """Every store that the answers allow. An answer that none of them allows is counted as a difference."""
    states: list[Sessions] = [{}]
    for op in case.story.named(*CHANGING):
        if not op.may_have_happened:
            continue
        if op.answer == DONE:
            states = _acknowledged(states, op, check)
        else:
            states += [after for state in states for after in _after(state, op)]
    return states


def _acknowledged(states: list[Sessions], op: Op, check: Check) -> list[Sessions]:
    kept = []
    reason = ""
    for state in states:
        try:
            apply(state, op)
            kept.append(state)
        except Impossible as impossible:
            reason = str(impossible)
    if kept:
        return kept
    check.holds(False, op.who, "an operation that cannot be done is not acknowledged", reason, "it answered ok")
    return states


def _after(state: Sessions, op: Op) -> list[Sessions]:
    """The states that an unanswered operation may have left, beside the one in which it did not happen."""
    # A store may do an edit in two steps: docs/cells.md allows it.
    ways = [op._replace(name="rewind"), op] if op.name == "edit" else [op]
    found = []
    for way in ways:
        copy = {name: session.copy() for name, session in state.items()}
        try:
            apply(copy, way)
            found.append(copy)
        except Impossible:
            continue
    return found


def compare(case: Case, check: Check) -> None:
    """The sessions and messages that the views show are one of the possible stores.

    If none fits, the difference is that from the store which fits for the longest.
    """
    found = observed(case)
    best: Check | None = None
    for state in possible(case, check):
        trial = Check()
        _compare_one(trial, state, found)
        if best is None or trial.differs is None or (best.differs is not None and trial.facts > best.facts):
            best = trial
        if trial.differs is None:
            break
    assert best is not None  # there is always one possible store
    check.facts += best.facts
    check.differs = check.differs or best.differs


class Found(NamedTuple):
    """The views `sessions` and `messages`, by session."""

    sessions: dict[str, tuple[Any, Any]]  # parent, closed
    messages: dict[str, list[tuple[Any, Any]]]  # role, content


def observed(case: Case) -> Found:
    messages: dict[str, list[tuple[Any, Any]]] = {}
    for session, _, role, content in case.view("messages"):
        messages.setdefault(session, []).append((role, content))
    return Found({name: (parent, closed) for name, parent, closed in case.view("sessions")}, messages)


def _compare_one(check: Check, state: Sessions, found: Found) -> None:
    """Stops at the first difference, so that the number of facts says how long the two agree."""
    for name, session in state.items():
        if not _same_session(check, name, session, found):
            return
    for name in [*found.sessions, *found.messages]:
        why = "a session is there only if it was asked for"
        if not check.holds(name in state, f"sessions[{name}]", "no such session", "a session", why):
            return


def _same_session(check: Check, name: str, session: Session, found: Found) -> bool:
    fact, origin = f"sessions[{name}]", session.origin.who
    if not check.holds(name in found.sessions, fact, "a session", "none", f"{origin} made it"):
        return False
    parent, closed = found.sessions[name]
    same = check.same(f"{fact}.parent", session.parent, parent, f"{origin} made it")
    same = same and check.same(f"{fact}.closed", session.closed, closed or "", "closed by a rotation, and only then")
    return same and _same_messages(check, name, session.messages, found.messages.get(name, []))


def _same_messages(check: Check, name: str, expected: list[Message], found: list[tuple[Any, Any]]) -> bool:
    for at, message in enumerate(expected):
        wanted = {"role": message.role, "content": message.content}
        there = {"role": found[at][0], "content": found[at][1]} if at < len(found) else None
        if there is not None and message.role is None:
            wanted["role"] = there["role"]
        if there != wanted:
            why = _what_is_wrong(at, message, expected, found)
            return check.holds(False, f"messages[{name}][{at}]", wanted, there or "nothing", why)
        check.facts += 1
    extra = found[len(expected)] if len(found) > len(expected) else None
    contents = {message.content for message in expected}
    why = "it is there twice" if extra and extra[1] in contents else "it was abandoned, or nobody appended it"
    there = {"role": extra[0], "content": extra[1]} if extra else None
    return check.same(f"messages[{name}][{len(expected)}]", None, there, why)


def _what_is_wrong(at: int, message: Message, expected: list[Message], found: list[tuple[Any, Any]]) -> str:
    """Name the way in which the recovered session is no prefix."""
    rest = [content for _, content in found[at:]]
    if not rest:
        kind = "the end is lost"
    elif message.content in rest:
        kind = "something stands before it that does not belong there"
    elif at + 1 < len(expected) and rest[0] == expected[at + 1].content:
        kind = "a hole: what follows it is there"
    else:
        kind = "another message is in its place"
    said = "was acknowledged" if message.origin.answer == DONE else "was under way"
    return f"{message.origin.who} {said}; {kind}"
