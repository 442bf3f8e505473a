"""The verifier on the real kernel: killed for real, recovered, resumed, with the real ledger, and never a false alarm.

The two share no code, only the documents. So what either misreads shows here.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernel_states  # noqa: F401 - makes the verifier importable
import pytest
from kernel_process import FULL, KERNEL, PREPARED, LedgerService, Process, Trial, call, do, task, workload
from verifier import tree
from verifier.kernel import PROPERTIES, judge

from lab.model import RECOVERS

Json = dict[str, Any]


class Judged:
    """One trial of the real kernel, and what the verifier says of each look at it."""

    def __init__(self, service: LedgerService, name: str, prepared: Path, folder: Path, script: Json, **more: Any):
        self._before = {"workload": PREPARED, "ledger": service.ask("snapshot", "prepared")["ledger"]}
        self._trial = Trial(service, name, shutil.copytree(prepared, folder / name), script, **more)
        self._history: list[Json] = []
        self._process = 1
        self.facts = dict.fromkeys(PROPERTIES, 0)
        self.findings: list[tuple[str, str, Json]] = []

    def look(self, look: str) -> None:
        ledger = self._trial.ledger("drain" if look == "end" else "snapshot")
        request = {"ask": "look", "look": look, "workload": self._trial.workload, "prepared": self._before}
        found = judge(tree.read(str(self._trial.folder)), {**request, "history": self._history, "ledger": ledger})
        for name, finding in found.items():
            self.facts[name] += finding["facts"]
            if finding["differs"]:
                self.findings.append((look, name, finding["differs"]))

    def crash(self, command: str, hook: str, bug: str | None = None) -> bool:
        """Kill a process at a hook and look. False if it ended before it got there."""
        process = self._trial.start(command, bug, hook=hook)
        try:
            process.await_hit()
        except AssertionError:
            process.wait()
            self._heard(process)
            return False
        process.kill()
        self._heard(process)
        self._history.append({"process": self._process, "died": True})
        self._process += 1
        self.look("killed")
        return True

    def recover(self, bug: str | None = None) -> None:
        """Recover, look at the barrier, resume to the end, look. One that fails is left at that."""
        lock = self._trial.folder / "LOCK"
        if lock.exists():  # in a container the next process has the dead one's number; here it is made a living one's
            lock.write_text(str(os.getpid()))
        process = self._trial.start("recover", bug, barrier="recovery.done")
        try:
            process.await_hit()
        except AssertionError:
            process.wait()
            self.findings.append(("recovered", RECOVERS, {"log": process.log}))
            return
        standing = len(self._history)
        self._history += _operations(process._parsed(), self._process)
        self.look("recovered")
        del self._history[standing:]
        process.release()
        code = process.wait()
        self._heard(process)
        if code:
            self.findings.append(("end", RECOVERS, {"log": process.log}))
            return
        self.look("end")

    def close(self) -> None:
        self._trial.close()

    def _heard(self, process: Process) -> None:
        self._history += _operations(process.records, self._process)

    @property
    def named(self) -> set[str]:
        """The properties that differ."""
        return {name for _, name, _ in self.findings}


def _operations(records: list[Json], process: int) -> list[Json]:
    return [{k: v for k, v in r.items() if k != "lab"} | {"process": process} for r in records if "op" in r]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    ledger = LedgerService(tmp_path_factory.mktemp("ledger"))
    yield ledger
    ledger.end()


@pytest.fixture(scope="module")
def prepared(service: LedgerService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that a short workload was finished on."""
    folder = tmp_path_factory.mktemp("prepared")
    Trial(service, "prepared", folder, PREPARED).finish("run")
    return folder


# Where it is killed, where its recovery is killed, and which sends are held until their sender has died.
CRASHES: list[tuple[str, str | None, list[int]]] = [
    ("attempt.new-created.before#1", None, []),
    ("intent.durable_unsent#1", None, []),  # once: fence, no receipt, sent again
    ("intent.durable_unsent#2", None, []),
    ("intent.sent#1", None, [1]),  # once: decided late, behind the fence
    ("intent.sent#3", None, [3]),
    ("intent.landed_unrecorded#1", None, []),  # once: receipt found
    ("intent.durable_unsent#1", "intent.durable_unsent#1", []),
    ("intent.sent#1", "intent.sent#1", [1]),
    ("intent.landed_unrecorded#2", "recovery.done#1", []),
]
OTHER = workload(
    task(21, [call("charge", "once", amount=9), do("cancel")]),
    task(22, [call("mail", "keyed", to="z"), call("look", "pure", at=1), do("fail")], [do("finish")], deadline=30),
    slots=1,
    checkpoint_every=3,
    segment_bytes=400,
)


@pytest.mark.parametrize("script", [FULL, OTHER], ids=["full", "small-segments"])
@pytest.mark.parametrize(("first", "second", "hold"), CRASHES)
def test_the_real_kernel_passes_wherever_it_is_killed(
    service: LedgerService,
    prepared: Path,
    tmp_path: Path,
    script: Json,
    first: str,
    second: str | None,
    hold: list[int],
) -> None:
    """No false alarm: at the windows where alarms would be easiest, in the run and in the recovery."""
    judged = Judged(service, tmp_path.name.replace(".", "-")[-60:], prepared, tmp_path, script, hold=hold)
    assert judged.crash("run", first)
    if second is None or judged.crash("recover", second):
        judged.recover()
    judged.close()
    assert judged.findings == []
    assert min(judged.facts.values()) > 20, judged.facts


@pytest.mark.parametrize("hook", ["log.half_written", "pager.root_half_written"])
def test_half_written_frames_and_roots_of_the_real_kernel_are_no_corruption(
    service: LedgerService, prepared: Path, tmp_path: Path, hook: str
) -> None:
    """A torn tail, or a torn older root, is what a crash leaves; the recovery mends it."""
    judged = Judged(service, f"half-{hook.partition('.')[0]}", prepared, tmp_path, FULL)
    assert judged.crash("run", f"{hook}#3")
    judged.recover()
    judged.close()
    assert judged.findings == []


BUGS = tomllib.loads((KERNEL / "bugs.toml").read_text())["bug"]


@pytest.fixture(scope="module")
def census(service: LedgerService, prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    """Every hit of a run without a crash."""
    trial = Trial(service, "census", shutil.copytree(prepared, tmp_path_factory.mktemp("census") / "data"), FULL)
    records = trial.finish("run", census="1")
    trial.close()
    return [record for record in records if "hit" in record]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug["name"])
def test_each_planted_bug_is_caught_by_the_property_that_it_names(
    service: LedgerService, prepared: Path, tmp_path: Path, census: list[Json], bug: Json
) -> None:
    """A property that no bad kernel can break would prove nothing about the good one."""
    first, _, second = bug["points"][0].partition(" > ")
    wanted = bug.get("tags", {}).items()
    number = next(h["n"] for h in census if h["hit"] == first and wanted <= h.get("tags", {}).items())
    hold = [number] if first == "intent.sent" else []
    judged = Judged(service, f"bug-{bug['name']}", prepared, tmp_path, FULL, hold=hold)
    assert judged.crash("run", f"{first}#{number}", bug["name"])
    assert not second or judged.crash("recover", f"{second}#1", bug["name"])
    judged.recover(bug["name"])
    judged.close()
    assert bug["property"] in judged.named, judged.findings
