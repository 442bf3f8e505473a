"""Faults are found by name, spelled in one way, and strike what they are given to the end."""

from __future__ import annotations

import importlib
from typing import ClassVar

import pytest

import faults
from faults import Fault, FaultSequence, Site
from lab.engine.errors import UsageError
from lab.storage import Layer, Volume, find
from lab.storage.mountinfo import Expected

VOLUME = Volume("v", Expected("ext4"), find("ext4"))


class Recorder:
    """A process, and a holder of its volume, that write down how they were treated."""

    def __init__(self) -> None:
        self.treated: list[str] = []

    def kill(self) -> None:
        self.treated.append("kill")

    def wait_until_gone(self) -> None:
        self.treated.append("wait_until_gone")

    def let_go(self) -> None:
        self.treated.append("let_go")

    def take_again(self) -> None:
        self.treated.append("take_again")


class Remount(Fault):
    """A fault from outside, on the volume: everybody lets go of it, and the engine mounts it anew."""

    name: ClassVar[str] = "remount"
    loses_page_cache: ClassVar[bool] = True

    def available(self, layer: Layer) -> str | None:
        return None if layer.can_be_cut else "it keeps nothing without a mount"

    def strike(self, site: Site) -> None:
        site.process.kill()
        site.process.wait_until_gone()
        for holder in site.holders:
            holder.let_go()
        for holder in site.holders:
            holder.take_again()


@pytest.fixture
def remount(monkeypatch: pytest.MonkeyPatch) -> Remount:
    """Registered for one test only."""
    monkeypatch.setattr(faults, "_registered", {})
    fault = Remount()
    faults.register(fault)
    return fault


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
    for ask in (faults.find, faults.parse):
        with pytest.raises(UsageError, match=r"There are: .*sigkill"):
            ask(name)


def test_sigkill_strikes_once_and_waits_until_the_process_is_gone() -> None:
    """A fault that returns early lets the verifier look at a process that still writes."""
    process, holder = Recorder(), Recorder()
    faults.find("sigkill").strike(Site(process, VOLUME, (holder,)))
    assert process.treated == ["kill", "wait_until_gone"]
    assert holder.treated == []


def test_sigkill_keeps_the_page_cache_and_is_available_on_every_layer() -> None:
    """What was written and not synced outlives a process: only a power cut may lose it."""
    assert faults.find("sigkill").loses_page_cache is False
    assert all(faults.find("sigkill").available(find(name)) is None for name in ("ext4", "tmpfs", "overlay"))


def test_a_fault_that_is_registered_from_outside_is_found_and_strikes(remount: Remount) -> None:
    """Asked for: a fault is one file, and needs no other."""
    assert faults.find("remount") is remount
    assert faults.names() == ("remount", "sigkill")
    process, holder = Recorder(), Recorder()
    remount.strike(Site(process, VOLUME, (holder,)))
    assert (process.treated, holder.treated) == (["kill", "wait_until_gone"], ["let_go", "take_again"])
    with pytest.raises(ValueError, match="already"):
        faults.register(remount)


@pytest.mark.usefixtures("remount")
def test_one_list_spells_what_each_crash_point_is_struck_by() -> None:
    """`a,b` is two passes of the plan; `a>b` is one, whose second and further crash points are struck by b."""
    once, mixed = faults.parse("sigkill, sigkill>remount")
    assert (str(once), str(mixed)) == ("sigkill", "sigkill>remount")
    assert [once.at(n) for n in range(2)] == ["sigkill", "sigkill"]
    assert [mixed.at(n) for n in range(4)] == ["sigkill", "remount", "remount", "remount"]
    assert faults.parse(str(mixed)) == (mixed,)


@pytest.mark.usefixtures("remount")
@pytest.mark.parametrize("text", ["sigkill,", ">sigkill", "sigkill>>remount", "sigkill,sigkill", ",", ">"])
def test_a_list_of_faults_with_a_hole_or_a_double_is_refused(text: str) -> None:
    """A second pass of the same plan proves nothing twice; an empty name is a typing error."""
    with pytest.raises(UsageError):
        faults.parse(text)


@pytest.mark.usefixtures("remount")
def test_a_layer_on_which_a_fault_cannot_strike_is_said_with_the_reason() -> None:
    """A plan for it would be all errors, one container after the other."""
    sequence = FaultSequence(("sigkill", "remount"))
    assert sequence.unavailable(find("ext4")) is None
    assert sequence.unavailable(find("tmpfs")) == "remount is not available on tmpfs: it keeps nothing without a mount"
