"""The kernel killed for real at its hooks, recovered and resumed: the end must not depend on where it was killed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_process import FULL, PREPARED, LedgerService, Trial


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


def test_a_kernel_killed_in_the_middle_recovers_and_ends_as_if_it_had_not_been(
    service: LedgerService, prepared: Path, tmp_path: Path
) -> None:
    """The thin slice: run, SIGKILL at a hook, recover, the same effects as without."""
    quiet = Trial(service, "quiet", shutil.copytree(prepared, tmp_path / "quiet"), FULL)
    quiet.finish("run")
    killed = Trial(service, "killed", shutil.copytree(prepared, tmp_path / "killed"), FULL)
    killed.kill_at("run", "intent.landed_unrecorded#2")
    killed.finish("recover")
    effects = [sorted(e["effect"] for e in trial.ledger("drain")["effects"]) for trial in (quiet, killed)]
    assert effects[0] == effects[1] and len(effects[0]) == 3
