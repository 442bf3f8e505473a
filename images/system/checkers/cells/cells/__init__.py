"""The verifier of session stores: one conformance cell a workload, judged from docs/cells.md alone.

It reads any store through the SELECTs of its `views.toml`, so it knows no store by name and shares no code with one.
"""

from __future__ import annotations

from typing import Any

from verifier.cells.case import read_case
from verifier.cells.properties import (
    checkpoint_validity,
    consume_once,
    fork_determinism,
    journal_mode,
    outbox_exactly_once,
    prefix_durability,
    recovery_determinism,
    rotation_atomicity,
)
from verifier.tree import Tree

CELLS = {
    "prefix-durability": prefix_durability.check,
    "consume-once": consume_once.check,
    "rotation-atomicity": rotation_atomicity.check,
    "fork-determinism": fork_determinism.check,
    "outbox-exactly-once": outbox_exactly_once.check,
    "recovery-determinism": recovery_determinism.check,
    "checkpoint-validity": checkpoint_validity.check,
}


def judge(files: Tree, request: dict[str, Any]) -> dict[str, Any]:
    """The cell that the workload asks for, and whether it ran in the journal mode that the workload asks for.

    A pure function of the files, the request and the image's views. Raises ValueError for a request that no lab makes.
    """
    cell = request["workload"]["cell"]
    if cell not in CELLS:
        raise ValueError(f"there is no cell {cell!r}; there are: {', '.join(CELLS)}")
    case = read_case(files, request)
    return {cell: CELLS[cell](case).answer(), "journal-mode": journal_mode.check(case).answer()}
