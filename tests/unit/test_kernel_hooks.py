"""The catalogue of hooks against the code, and the protocol that a stopped kernel speaks."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib

import pytest
from kernel_process import FULL, KERNEL, NONCE, PYTHON, Record
from kernel_trial import Lab

CATALOGUE: list[Record] = tomllib.loads((KERNEL / "hooks.toml").read_text())["hook"]
SUBJECT: Record = tomllib.loads((KERNEL / "subject.toml").read_text())
EXPECTED = 85  # raise it when a transition or a hook is added


def in_kernel(program: str) -> str:
    """Run a program with the kernel's package on its path, as the kernel itself is run."""
    program = f"import sys; sys.path.insert(0, {str(KERNEL)!r}); {program}"
    done = subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    return done.stdout


def hooks_of_the_code() -> list[str]:
    """Three for each transition of the tables, and every name that the sources give to `reach`."""
    transitions = json.loads(
        in_kernel(
            "from kernel import states; from kernel.codec import canonical; "
            "print(canonical([states.hook(k, *t) for k, rows in (('attempt', states.ATTEMPT), "
            "('intent', states.INTENT)) for t in rows]))"
        )
    )
    found = [f"{name}.{when}" for name in transitions for when in ("before", "durable", "applied")]
    tables = json.loads(in_kernel("from kernel import tables, codec; print(codec.canonical(list(tables.NAMES)))"))
    for path in (KERNEL / "kernel").glob("*.py"):
        for form, name in re.findall(r'reach\(\s*(f?)"([^"]+)"', path.read_text()):
            found += [name.format(name=table) for table in tables] if form else [name]
    return found


def test_the_catalogue_is_exactly_what_the_tables_and_the_code_define() -> None:
    """A transition added without its hooks, or a hook renamed in one place only."""
    names = [hook["name"] for hook in CATALOGUE]
    assert sorted(names) == sorted(hooks_of_the_code())
    assert len(names) == len(set(names)) == EXPECTED == SUBJECT["hooks"]["expected"]


def test_each_hook_has_one_line_of_meaning_and_only_recovery_hooks_have_hints() -> None:
    """The catalogue is what a person reads to understand a crash point."""
    names = {hook["name"] for hook in CATALOGUE}
    for hook in CATALOGUE:
        assert hook["meaning"] and "\n" not in hook["meaning"]
        assert set(hook.get("after", [])) <= names
        assert ("after" in hook) == (hook["where"] == "recovery")


def test_an_unarmed_kernel_writes_its_history_and_no_hook(kernel_lab: Lab) -> None:
    """A hook is inert unless it is asked for."""
    records = kernel_lab.trial(FULL).finish("run")
    assert not [record for record in records if "hit" in record]
    operations = [(record["type"], record["id"]) for record in records]
    assert operations == [(kind, n) for n in range(1, len(records) // 2 + 1) for kind in ("invoke", "ok")]


def test_a_hook_that_is_armed_without_its_number_is_refused(kernel_lab: Lab) -> None:
    """A typing error must not become a run without a crash."""
    process = kernel_lab.trial(FULL).start("run", hook="log.synced")
    assert process.wait() == 64
    assert "NAME#N" in process.log


def test_every_acknowledged_append_carries_the_lsn_that_follows_the_last(kernel_lab: Lab) -> None:
    """`prefix-durable` compares the history with the log by these numbers."""
    records = kernel_lab.trial(FULL).finish("run")
    lsns = [record["lsn"] for record in records if record["type"] == "ok"]
    assert lsns == list(range(lsns[0], lsns[0] + len(lsns)))
    assert all(record["record"]["r"] in ("attempt", "intent", "cursor") for record in records if "record" in record)


def test_a_hook_armed_at_the_barriers_own_name_stops_there_as_a_hook(kernel_lab: Lab) -> None:
    """docs/protocol.md: the last point of a recovery can be a second crash point."""
    trial = kernel_lab.trial(FULL)
    trial.kill_at("run", "log.synced#9")
    process = trial.start("recover", barrier="recovery.done", hook="recovery.done#1")
    assert process.await_hit() == {"lab": NONCE, "hit": "recovery.done", "n": 1}
    process.release()
    process.kill()


def test_a_barrier_whose_controller_is_gone_ends_the_process(kernel_lab: Lab) -> None:
    """Nobody will ever write the line: a container that waits for it would never go away."""
    trial = kernel_lab.trial(FULL)
    trial.kill_at("run", "log.synced#9")
    process = trial.start("recover", barrier="recovery.done")
    process.await_hit()
    process.leave()
    assert process.wait() == 1
    assert "barrier recovery.done was never released" in process.log


@pytest.mark.parametrize(
    "hook", ["intent.sent", "intent.durable_unsent", "intent.landed_unrecorded", "recovery.settling"]
)
def test_the_windows_of_an_intent_are_tagged_with_its_class(kernel_lab: Lab, hook: str) -> None:
    """A campaign counts its coverage of effect classes by these tags."""
    trial = kernel_lab.trial(FULL)
    trial.kill_at("run", "intent.sent#2")
    records = trial.finish("recover", census="1")
    tags = [record["tags"]["class"] for record in records if record.get("hit") == hook]
    assert tags and set(tags) <= {"pure", "keyed", "once"}
