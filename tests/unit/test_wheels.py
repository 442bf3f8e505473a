"""Pinned wheels are fetched once, are what their hashes say, and go into a build but not into its tag."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from lab.engine import images, wheels
from lab.engine.errors import LabError
from lab.subject.load import SUBJECTS

HERMES = SUBJECTS / "hermes"
PINNED = {"hermes_agent-0.19.0", "pyyaml-6.0.3"}
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0",
           "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "0"}  # fmt: skip


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)


def test_a_build_has_the_pinned_wheels_and_the_folder_none() -> None:
    """Planted: wheels in the tar that the tag is a digest of; an image could not be found up to date without them."""
    context = images.read_context(HERMES)
    assert not [name for name in names(context.tar) if name.startswith("wheels/")]
    wheels_of_it = [Path(name).name for name in names(images._with_wheels(context, None)) if name.endswith(".whl")]
    assert {"-".join(name.split("-")[:2]) for name in wheels_of_it} == PINNED


def names(tar: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return archive.getnames()


def test_a_changed_pin_changes_the_tag(tmp_path: Path) -> None:
    """Planted: pins read from outside the folder; a subject at another version runs as its old image."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / wheels.PINS).write_text("a==1 --hash=sha256:00\n")
    before = images.read_context(tmp_path).tag()
    (tmp_path / wheels.PINS).write_text("a==2 --hash=sha256:00\n")
    assert images.read_context(tmp_path).tag() != before


def test_what_is_in_the_cache_is_not_fetched_again(tmp_path: Path, no_index: None) -> None:
    """Planted: a download for every build; without a network no image could be built a second time."""
    pins = tmp_path / wheels.PINS
    pins.write_text("a==1 --hash=sha256:00\n")
    with pytest.raises(LabError):
        wheels.fetch(pins, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []  # nothing half: the next one would take it for whole
    folder = wheels.cached(pins, tmp_path / "cache")
    folder.mkdir()
    (folder / "a-1-py3-none-any.whl").write_bytes(b"")
    assert wheels.fetch(pins, tmp_path / "cache") == (folder / "a-1-py3-none-any.whl",)


def test_a_wheel_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    """Planted: hashes not required; what the index offers under the name would be run."""
    pins = tmp_path / wheels.PINS
    pins.write_text(f"pyyaml==6.0.3 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(LabError, match="HASH"):
        wheels.fetch(pins, tmp_path / "cache")
    pins.write_text("pyyaml==6.0.3\n")
    with pytest.raises(LabError, match="hash"):
        wheels.fetch(pins, tmp_path / "cache")


def test_an_index_that_cannot_be_reached_is_told_with_what_to_do(tmp_path: Path, no_index: None) -> None:
    """Planted: pip's output alone, from which nobody sees whose wheels they were."""
    with pytest.raises(LabError, match=r"pip config list"):
        wheels.fetch(HERMES / wheels.PINS, tmp_path)
