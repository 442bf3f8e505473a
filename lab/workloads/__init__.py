"""Families of workloads by the name that a subject.toml gives as `kind`. A new one is a module and a line here."""

from collections.abc import Callable
from dataclasses import dataclass

from lab.model import Json, Promises
from lab.workloads import agent_tasks, session_cells


@dataclass(frozen=True)
class Family:
    """How a family makes its scripts; all of it is pure."""

    generate: Callable[[int, int], Json]  # seed, index: a workload of the campaign
    prepared: Callable[[int], Json]  # seed: the short workload behind the prepared state
    ledger_rules: Callable[[Json], dict[str, list[str]]]  # workload: its `decline` and `lose_reply`
    promised: Callable[[Json, Promises], Promises]  # workload, the subject's promises: those that it asks for


FAMILIES = {
    agent_tasks.KIND: Family(
        agent_tasks.generate, agent_tasks.prepared, agent_tasks.ledger_rules, lambda _, promises: promises
    ),
    session_cells.KIND: Family(
        session_cells.by_index, session_cells.prepared, session_cells.no_rules, session_cells.promised
    ),
}


def rules_of(workload: Json) -> dict[str, list[str]]:
    """The ledger's rules of a workload: a family knows its own; a file of the subject's says them under "ledger"."""
    if family := FAMILIES.get(workload.get("kind", "")):
        return family.ledger_rules(workload)
    rules = workload.get("ledger", {})
    return {"decline": rules.get("decline", []), "lose_reply": rules.get("lose_reply", [])}


def promises_of(workload: Json, promises: Promises) -> Promises:
    """What a trial of this workload is judged by: a family may ask for some of the subject's promises only."""
    family = FAMILIES.get(workload.get("kind", ""))
    return family.promised(workload, promises) if family else promises
