"""Images really built on the engine: once, again only if changed, and with the builder's own words if they fail."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from lab.engine import images
from lab.engine.client import connect
from lab.engine.errors import ImageBuildFailed, ImageMissing

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def folder(tmp_path: Path, client: docker.DockerClient) -> Iterator[Path]:
    """A folder of a name that no other test has; the images built from it are removed."""
    folder = tmp_path / f"test-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    (folder / "message").write_text("hello\n")
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY message /message\nRUN cat /message\n")
    yield folder
    for image in client.images.list(f"lab/{folder.name}"):
        client.images.remove(image.id, force=True)


def build(client: docker.DockerClient, folder: Path, said: list[str]) -> str:
    return images.ensure_folders(client, {"it": folder}, said.append)["it"]


def test_what_is_up_to_date_is_not_built_again_and_a_change_is(client: docker.DockerClient, folder: Path) -> None:
    """Planted: one fixed tag, and a changed subject runs as its old image."""
    said: list[str] = []
    first = build(client, folder, said)
    assert any("built in" in line for line in said)
    said.clear()
    assert build(client, folder, said) == first
    assert said == ["images   it: up to date"]
    (folder / "message").write_text("bye\n")
    second = build(client, folder, said)
    assert second != first
    assert client.images.get(second).id != client.images.get(first).id


def test_a_failing_build_shows_its_last_words_and_leaves_no_container(
    client: docker.DockerClient, folder: Path
) -> None:
    """Planted: "build failed" alone; and the classic builder's failed container kept for ever."""
    before = {c.id for c in client.containers.list(all=True)}
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN echo the cause is here >&2; exit 7\n")
    with pytest.raises(ImageBuildFailed) as caught:
        build(client, folder, [])
    assert folder.name in str(caught.value)
    assert "the cause is here" in str(caught.value)
    assert "returned a non-zero code: 7" in str(caught.value)
    mine = [c for c in client.containers.list(all=True) if c.id not in before and "the cause is here" in str(c.attrs)]
    assert not mine


def test_a_dockerfile_that_is_none_fails_with_the_engines_reason(client: docker.DockerClient, folder: Path) -> None:
    """The engine refuses it before the first step: another way to fail, with no output at all."""
    (folder / "Dockerfile").write_text("FORM debian\n")
    with pytest.raises(ImageBuildFailed, match=r"(?i)form"):
        build(client, folder, [])


def test_two_labs_that_build_at_once_get_one_image(client: docker.DockerClient, folder: Path) -> None:
    """Planted: no lock; both build, and the image of the first loses its name to that of the second."""
    said: list[str] = []
    tags: list[str] = []
    threads = [threading.Thread(target=lambda: tags.append(build(client, folder, said))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(tags) == 3
    assert len(set(tags)) == 1
    assert sum("built in" in line for line in said) == 1


def test_an_image_that_is_not_there_is_an_error_and_never_a_pull(client: docker.DockerClient, tmp_path: Path) -> None:
    """Planted: the SDK's `run`, which pulls a stranger's image of that name."""
    with pytest.raises(ImageMissing, match="lab-no-such-image:1"):
        images.resolve(client, "lab-no-such-image:1", tmp_path, print)


def test_a_subjects_build_folder_is_relative_to_its_file(client: docker.DockerClient, folder: Path) -> None:
    """Planted: relative to the working directory; `lab run --subject elsewhere/subject.toml` built the wrong folder."""
    beside = folder.parent / "other"
    beside.mkdir()
    tag = images.resolve(client, f"build:../{folder.name}", beside, print)
    assert tag == build(client, folder, [])


def test_the_packages_read_from_an_image_are_those_that_dpkg_lists(client: docker.DockerClient, folder: Path) -> None:
    """Planted: removed packages counted as installed; dpkg keeps them in the same file."""
    tag = build(client, folder, [])
    listed = client.containers.run(
        tag, ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"], network_mode="none", remove=True
    )
    expected = {
        line.removeprefix("installed ") for line in listed.decode().splitlines() if line.startswith("installed ")
    }
    found = images.packages(client, tag)
    assert set(found) == expected
    assert any(re.match(r"python3 3\.", line) for line in found)


def test_the_base_says_what_it_was_made_from(client: docker.DockerClient, folder: Path) -> None:
    """Planted: the label forgotten; a bootstrapped Debian then passes for the public image."""
    labels = client.images.get(build(client, folder, [])).labels
    assert re.match(r"(public image: debian:|bootstrapped: lab/bootstrapped:)bookworm", labels[images.LABEL_BASE])


def test_the_base_can_be_asked_for_alone(client: docker.DockerClient) -> None:
    """Planted: the base built like any folder, from a public image that an engine without a registry does not have."""
    tag = images.ensure(client, ["base"], print)["base"]
    assert client.images.get(tag).labels[images.LABEL_BASE]
