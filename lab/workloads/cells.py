"""The conformance cells as data: what each asks, where its clause comes from, what it needs, and on which legs it runs.

The table of cells in the docs is made of this, and a test holds them together. May not run anything.
"""

from __future__ import annotations

from dataclasses import dataclass

PAPER = '"Resume Means Resume", arXiv 2608.03836'
DEFAULT = ("default",)
CI_MODES = ("default", "delete", "wal")
NIGHTLY_MODES = (*CI_MODES, "truncate", "persist", "memory", "off")


@dataclass(frozen=True)
class Legs:
    """Journal modes that a cell runs in; each of them on every storage layer."""

    ci: tuple[str, ...] = CI_MODES
    nightly: tuple[str, ...] = NIGHTLY_MODES


@dataclass(frozen=True)
class Cell:
    """One clause, and the probe of it. Its name is that of the verifier's property."""

    name: str
    clause: str
    source: str  # where the clause comes from
    checked: str
    views: tuple[str, ...]  # a store without one of these does not offer the cell
    legs: Legs = Legs()
    least: tuple[str, int] | None = None  # (op, count): as many must be acknowledged before the first kill
    races: bool = False  # also run with racers: whole `work`, then `racers` containers, then `recover`


# Journal modes change how a transaction reaches the disk. A claim is one predicated UPDATE: which of two racers it lets
# through is decided by SQLite's locks, which are the same in every mode.
ONE_UPDATE = Legs(ci=DEFAULT, nightly=DEFAULT)

CELLS = (
    Cell(
        "prefix-durability",
        "prefix continuation",
        PAPER,
        "every acknowledged append survives: a contiguous prefix, no hole, no duplicate, at most one unanswered more",
        ("sessions", "messages"),
        least=("append", 200),
    ),
    Cell(
        "consume-once",
        "consume-once",
        PAPER,
        "a parked hand-off is claimed by exactly one of N racers, and after a crash it is done or can be claimed again",
        ("items",),
        ONE_UPDATE,
        races=True,
    ),
    Cell(
        "rotation-atomicity",
        "prefix continuation",
        f"{PAPER}, read for a session that goes on in another",
        "a rotation is visible entirely or not at all: parent closed, child there, summary in it",
        ("sessions", "messages"),
        least=("rotate", 50),
    ),
    Cell(
        "fork-determinism",
        "fork determinism",
        PAPER,
        "after an edit or a rewind exactly the chosen prefix is there, and the abandoned branch does not come back",
        ("sessions", "messages"),
    ),
    Cell(
        "outbox-exactly-once",
        "effect exactly-once",
        PAPER,
        "no second copy in silence: at most one unmarked, at least one, a terminal row, and further boots send nothing",
        ("deliveries",),
        races=True,
    ),
    Cell(
        "recovery-determinism",
        "recovery determinism",
        PAPER,
        "two independent recovery passes see the same, byte for byte",
        ("sessions", "messages"),
    ),
    Cell(
        "checkpoint-validity",
        "checkpoint validity",
        PAPER,
        "what was persisted always loads: no half-written row, nothing that points at what is not there",
        ("sessions", "messages"),
    ),
)


def table() -> str:
    """The cells as a Markdown table, as docs/cells.md has it."""
    lines = [
        "| cell | clause | what is checked | views | before the kill | legs in CI | legs nightly |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(cell) for cell in CELLS]
    return "\n".join(lines) + "\n"


def _row(cell: Cell) -> str:
    least = f"at least {cell.least[1]} × `{cell.least[0]}` acknowledged" if cell.least else "–"
    cells = (
        f"`{cell.name}`",
        f"{cell.clause} ({cell.source})",
        cell.checked,
        _listed(cell.views),
        least,
        _legs(cell.legs.ci, races=cell.races),
        _legs(cell.legs.nightly, races=cell.races),
    )
    return "| " + " | ".join(cells) + " |"


def _legs(modes: tuple[str, ...], *, races: bool) -> str:
    return _listed(modes) + ("; and a race of containers" if races else "")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
