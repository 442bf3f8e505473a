"""Faults are found by name, and a SIGKILL is struck and then seen to the end."""

from __future__ import annotations

import importlib

import pytest

import faults


class Recorder:
    """A target that writes down how it was treated."""

    def __init__(self) -> None:
        self.treated: list[str] = []

    def kill(self) -> None:
        self.treated.append("kill")

    def wait_until_gone(self) -> None:
        self.treated.append("wait_until_gone")


def test_every_fault_is_found_by_its_name_and_says_what_it_does() -> None:
    """A new module without `FAULT`, or one that carries another's name, would be found only by a trial."""
    assert "sigkill" in faults.names()
    for name in faults.names():
        fault = faults.find(name)
        assert fault.name == name
        assert isinstance(fault.loses_page_cache, bool)
        assert importlib.import_module(f"faults.{name}").__doc__


@pytest.mark.parametrize("name", ["", "sigkil", "base", "SIGKILL", "os", "..sigkill", "a.b", "faults.sigkill"])
def test_an_unknown_fault_is_named_with_those_there_are(name: str) -> None:
    """A typing error; and no name may import something that is not a fault."""
    with pytest.raises(LookupError, match=r"there are: .*sigkill"):
        faults.find(name)


def test_sigkill_strikes_once_and_waits_until_the_process_is_gone() -> None:
    """A fault that returns early lets the verifier look at a process that still writes."""
    target = Recorder()
    faults.find("sigkill").strike(target)
    assert target.treated == ["kill", "wait_until_gone"]


def test_sigkill_keeps_the_page_cache() -> None:
    """What was written and not synced outlives a process: only a power cut may lose it."""
    assert faults.find("sigkill").loses_page_cache is False
