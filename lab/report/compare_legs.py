"""The legs of a cells campaign side by side: on the layers, in the journal modes, in two runs. Pure; lines of text.

Only what ran is compared: `not offered` and a leg that is not there differ from everything, and get no mark.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.model import Word
from lab.report import legs
from lab.report.data import RunData
from lab.report.table import in_parts


def layers_of_legs(data: RunData) -> list[str]:
    """Each leg, its words on the layers, if there are several."""
    if len(data.storages) < 2:
        return []
    found = legs.outcomes(data)
    rows = [
        [leg.cell, leg.journal_mode, *_marked([found[leg.cell, leg.journal_mode, s] for s in data.storages])]
        for leg in legs.shown(data)
    ]
    return _lines(["cell", "mode", *data.storages], rows)


def modes_of_cells(data: RunData) -> list[str]:
    """Each cell on each layer, its words in the journal modes."""
    rows = [[row.cell, row.layer, *_marked(row.outcomes)] for row in legs.rows(data)]
    return _lines(["cell", "layer", *legs.modes(data)], rows)


def legs_of_runs(first: RunData, second: RunData, storage: str) -> list[str]:
    """Each leg of either run, its words in the two runs on one layer."""
    found = [legs.outcomes(data) for data in (first, second)]
    either = dict.fromkeys((leg.cell, leg.journal_mode) for data in (first, second) for leg in legs.shown(data))
    rows = [[cell, mode, *_marked([of.get((cell, mode, storage)) for of in found])] for cell, mode in either]
    return _lines(["cell", "mode", f"{storage} A", f"{storage} B"], rows)


def _marked(outcomes: Sequence[legs.Outcome | None]) -> list[str]:
    """Their words; one that is not that of the first which has a verdict is marked."""
    words = [outcome.word if outcome else legs.NO_LEG for outcome in outcomes]
    verdicts = [word for word in words if word in list(Word)]
    return [f"≠ {word}" if word in verdicts and word != verdicts[0] else word for word in words]


def _lines(head: list[str], rows: list[list[str]]) -> list[str]:
    return [line for part in in_parts([head, *rows], left=2) for line in (*part, "")][:-1] if rows else []
