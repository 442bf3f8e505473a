"""Racers, in processes of one container or in containers of their own: that each of them really raced."""

from __future__ import annotations

from verifier.cells.case import Case
from verifier.cells.story import DONE
from verifier.finding import Check

WON, LOST = 0, 10  # exit codes; any other is a crash


def exit_codes(case: Case, check: Check) -> None:
    """Seven crashes and one winner are not a proof. Raises ValueError if a race was run with too few racers."""
    why = "a racer exits 0 (won) or 10 (lost); anything else is a crash, and a crash proves nothing"
    for racer in case.story.racers:
        check.holds(racer.code in (WON, LOST), f"racer {racer.number} exit code", "0 or 10", racer.code, why)
    for op in case.story.named("race_processes"):
        if op.answer == DONE:
            crashed = [code for code in op.result["exits"] if code not in (WON, LOST)]
            check.same(f"{op.who} exits other than 0 and 10", [], crashed, why)
            check.same(f"{op.who} racers", op.do["racers"], len(op.result["exits"]), "every racer has an exit code")
    wanted = case.workload.get("racers", 0)
    if case.story.racers and len(case.story.racers) != wanted:
        raise ValueError(f"{len(case.story.racers)} racers have ended, but the workload asks for {wanted}")
