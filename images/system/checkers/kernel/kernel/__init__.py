"""The kernel's verifier: five properties, judged from docs/format.md, docs/workload.md and docs/protocol.md alone."""

from __future__ import annotations

from typing import Any

from verifier.kernel.case import read_case
from verifier.kernel.properties import (
    effects_exactly_once,
    intents_resolved,
    legal_state,
    prefix_durable,
    refold_identical,
)
from verifier.tree import Tree

PROPERTIES = {
    "prefix-durable": prefix_durable.check,
    "legal-state": legal_state.check,
    "intents-resolved": intents_resolved.check,
    "refold-identical": refold_identical.check,
    "effects-exactly-once": effects_exactly_once.check,
}


def judge(files: Tree, request: dict[str, Any]) -> dict[str, Any]:
    """A pure function of the files and the request of one look."""
    case = read_case(files, request)
    return {name: check(case).answer() for name, check in PROPERTIES.items()}
