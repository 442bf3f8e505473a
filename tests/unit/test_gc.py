"""Which runs `lab gc` takes for dead. A live one that is taken loses its volumes in the middle of a trial."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lab.engine.gc import DYING_S, STARTING_S, Remains, _seconds
from lab.engine.services import LABEL_KEPT, LABEL_ROLE

NOW_S = datetime(2026, 11, 30, 10, 15, 2, tzinfo=UTC).timestamp()


def container(role: str, state: str, age_s: float) -> dict[str, Any]:
    """A container as the engine lists it."""
    return {"Id": role, "State": state, "Created": int(NOW_S - age_s), "Labels": {LABEL_ROLE: role}}


def volume(age_s: float, name: str = "lab-run-pool") -> dict[str, Any]:
    """A volume as the engine lists it."""
    made = datetime.fromtimestamp(NOW_S - age_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"Name": name, "CreatedAt": made, "Labels": {}}


OLD_S, YOUNG_S = STARTING_S + 5, STARTING_S - 5


@pytest.mark.parametrize(
    ("containers", "volumes", "alive"),
    [
        ([container("agent", "running", OLD_S)], [volume(OLD_S)], True),
        ([container("agent", "running", OLD_S), container("process", "exited", OLD_S)], [], True),
        ([container("agent", "exited", YOUNG_S), container("process", "running", YOUNG_S)], [volume(YOUNG_S)], False),
        ([container("process", "running", YOUNG_S)], [volume(YOUNG_S)], False),
        ([container("agent", "created", YOUNG_S)], [volume(OLD_S)], True),
        ([container("agent", "created", OLD_S)], [volume(OLD_S)], False),
        ([], [volume(DYING_S - 1)], True),
        ([], [volume(DYING_S + 1)], False),
        ([], [volume(DYING_S - 1, "lab-run-store")], False),
        ([], [volume(DYING_S - 1), volume(DYING_S - 1, "lab-run-store")], False),
    ],
    ids=[
        "its agent runs",
        "its agent runs beside dead ones",
        "its agent has ended, a subject runs on",
        "it has no agent any more",
        "its agent is just starting",
        "its agent never started",
        "the engine has just made its pool, with its agent",
        "only its pool is left",
        "a volume that only a run with an agent makes",
        "only volumes are left, young as they are",
    ],
)
def test_a_run_is_alive_while_its_agent_is_or_may_be_starting(
    containers: list[dict[str, Any]], volumes: list[dict[str, Any]], alive: bool
) -> None:
    """The agent ends with its lab, also on a remote engine where no process can be looked up."""
    assert Remains("run", containers, volumes).alive(NOW_S) is alive


def test_what_a_person_asked_to_keep_is_known_by_its_label() -> None:
    """`lab replay --keep`: one labelled thing keeps the whole run, else its container loses its volume."""
    kept = {**volume(OLD_S), "Labels": {LABEL_KEPT: "yes"}}
    assert Remains("run", [container("agent", "exited", OLD_S)], [kept]).kept
    assert not Remains("run", [container("agent", "exited", OLD_S)], [volume(OLD_S)]).kept


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-30T10:15:02Z", NOW_S),
        ("2026-11-30T11:15:02+01:00", NOW_S),
        ("2026-11-30T10:15:02.123456789Z", NOW_S),  # nine decimals: Python takes six
        ("2026-11-30T05:15:02.9-05:00", NOW_S),
        ("2026-11-30T10:15:02", NOW_S),
    ],
)
def test_the_engines_times_are_read_in_every_way_it_writes_them(text: str, seconds: float) -> None:
    """A zone that is dropped makes a starting run an hour old, and dead."""
    assert _seconds(text) == seconds
