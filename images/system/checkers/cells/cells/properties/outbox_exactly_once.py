"""A crash between the send and its durable record does not deliver twice in silence, and loses nothing.

What was really sent is the ledger's word. Each copy beyond the first must be explained by a crash that may have sent
it, and must be marked as a possible duplicate: so at most one is unmarked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from verifier.cells.case import Case
from verifier.cells.racing import exit_codes
from verifier.cells.story import DONE, Op, Story
from verifier.finding import Check

TERMINAL = ("delivered", "failed", "abandoned")
TOOL = "deliver"


class Copy(NamedTuple):
    """One delivery that landed."""

    request: int
    marked: bool
    content: Any

    @property
    def told(self) -> str:
        return f"request {self.request} ({'marked' if self.marked else 'unmarked'})"


def check(case: Case) -> Check:
    """At every look; terminal rows and at least one copy at the end. Without a delivery there is nothing to see."""
    check = Check()
    records = {op.do["delivery"]: op for op in case.story.named("record") if op.may_have_happened}
    if case.sound(check):
        rows = dict(case.view("deliveries"))
        copies = _copies(case, check)
        for name in sorted(records.keys() | rows.keys() | copies.keys()):
            _delivery(case, check, name, records.get(name), rows.get(name), copies.get(name, []))
        _quiet_boots(case.story, check)
        exit_codes(case, check)
    return check if records or check.differs is not None else Check()


def _copies(case: Case, check: Check) -> dict[str, list[Copy]]:
    copies: dict[str, list[Copy]] = {}
    for ledger in case.ledgers:
        for effect in ledger["effects"]:
            fact, args = f"request {effect['request']}", effect["args"]
            check.same(f"{fact} tool", TOOL, effect["tool"], "a delivery is sent by this tool")
            marked = args.get("marked") if isinstance(args, dict) else None
            why = "a copy says whether it may be a duplicate"
            if check.holds(isinstance(marked, bool), f"{fact} marked", "true or false", marked, why):
                copy = Copy(effect["request"], marked, args.get("content"))
                copies.setdefault(effect["effect"], []).append(copy)
    return copies


def _delivery(case: Case, check: Check, name: str, record: Op | None, row: str | None, copies: list[Copy]) -> None:
    fact = f"deliveries[{name}]"
    if record is None:
        check.holds(False, fact, "no such delivery", row or copies[0].told, "nobody recorded it")
        return
    told = ", ".join(copy.told for copy in copies) or "no copy"
    unmarked = [copy for copy in copies if not copy.marked]
    why = "a crash must not deliver twice in silence: a further copy is marked"
    check.holds(len(unmarked) <= 1, f"{fact} copies", "at most one unmarked", told, why)
    explained = _explained(case, name)
    marked = len(copies) - len(unmarked)
    why = "each marked copy needs a crash, or a lost reply, that may have left one before it"
    check.holds(marked <= explained, f"{fact} copies", f"at most {explained} marked", told, why)
    for copy in copies:
        check.same(f"{fact} {copy.told} content", record.do["content"], copy.content, "what was recorded is sent")
    _row(case, check, fact, record, row, copies)


def _row(case: Case, check: Check, fact: str, record: Op, row: str | None, copies: list[Copy]) -> None:
    """The durable record of the delivery, beside what really was sent."""
    told = ", ".join(copy.told for copy in copies) or "no copy"
    if record.answer == DONE or copies:
        why = "it was recorded before it was sent" if copies else f"{record.who} was acknowledged"
        check.holds(row is not None, fact, "a row", "none", why)
    if row == "delivered":
        check.holds(bool(copies), f"{fact} copies", "at least one", told, "its row says that it was delivered")
    sent = _sent(case.story, record.do["delivery"])
    if sent:
        check.same(fact, "delivered", row, f"{sent[0].who} was acknowledged")
    if case.look == "end" and row is not None:
        check.holds(row in TERMINAL, fact, " or ".join(TERMINAL), row, "a clean boot leaves nothing on its way")
        check.holds(bool(copies), f"{fact} copies", "at least one", told, "what was recorded is sent")


def _explained(case: Case, name: str) -> int:
    """How many crashes, or replies that never came, may have left a copy that the store cannot know of."""
    lost = sum(
        request.get("do") == "send" and request.get("effect") == name and request["reply"] == "lost"
        for ledger in case.ledgers
        for request in ledger["requests"]
    )
    return lost + sum(_may_have_sent(case.story, process, boot, name) for process, boot in case.story.died.items())


def _may_have_sent(story: Story, process: int, boot: int, name: str) -> bool:
    """Did this process, which was killed, perhaps send it without saying so?

    It did if it was asked to and never answered; or if it swept, as every boot but the first does at its start. A
    delivery that was acknowledged as sent is not sent again by anybody.
    """
    if _sent(story, name):
        return False
    sends = [op for op in story.named("send") if op.do["delivery"] == name]
    recorded = any(op.do["delivery"] == name and op.boot <= boot for op in story.named("record"))
    swept = boot > 1 or any(_sweeps(op) and op.process == process for op in story.ops)
    return any(op.process == process for op in sends) or (recorded and swept)


def _sent(story: Story, name: str) -> list[Op]:
    """The acknowledged sends of a delivery; one that answers `"sent": 0` has sent nothing."""
    sends = (op for op in story.named("send") if op.do["delivery"] == name)
    return [op for op in sends if op.answer == DONE and op.result.get("sent", 1)]


def _sweeps(op: Op) -> bool:
    return op.name == "sweep" or (op.name == "race_processes" and op.do["do"]["op"] == "sweep")


def _quiet_boots(story: Story, check: Check) -> None:
    """What one sweep has finished, the next one finds finished."""
    swept = None
    for op in story.ops:
        if op.name == "sweep" and op.answer == DONE:
            if swept is not None and swept.process == op.process:
                check.same(f"{op.who} sent", 0, op.result["sent"], f"{swept.who} has left nothing to send")
            swept = op
        elif op.name in ("record", "send", "race_processes"):
            swept = None
