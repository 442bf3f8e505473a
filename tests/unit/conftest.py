"""Fixtures that several unit test files share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_trial import Lab


@pytest.fixture(scope="session")
def kernel_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The real ledger and verifier as processes, and a prepared state that trials of the kernel start from."""
    lab = Lab(tmp_path_factory.mktemp("kernel"))
    yield lab
    lab.end()


@pytest.fixture
def kernel_lab(kernel_services: Lab) -> Iterator[Lab]:
    """The same for one test, whose trials are closed behind it."""
    yield kernel_services
    kernel_services.close_trials()
