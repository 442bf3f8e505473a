"""Images really built on the engine: once, again only if changed, and with the builder's own words if they fail."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
from command import Running, lab

from lab.engine import images
from lab.engine.client import connect
from lab.engine.errors import ImageBuildFailed, ImageMissing, Interrupted

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
    mine = [
        c
        for c in client.containers.list(all=True, ignore_removed=True)
        if c.id not in before and "the cause is here" in str(c.attrs)
    ]
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
    tag = images.ensure_folders(client, {"base": images.BASE}, print)["base"]
    assert client.images.get(tag).labels[images.LABEL_BASE]


SLOW = f"echo begun {uuid.uuid4().hex}; sleep 300"  # never a cached layer


def steps(client: docker.DockerClient) -> list[str]:
    """The containers in which a slow step of a build runs, or was left."""
    return [
        c.id
        for c in client.containers.list(all=True, ignore_removed=True)
        if c.attrs["Config"]["Cmd"] == ["/bin/sh", "-c", SLOW]
    ]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_wish_to_stop_ends_a_build_and_starts_no_further_one(client: docker.DockerClient, folder: Path) -> None:
    """Report 17: a stop during a build was acted on at its end, after up to 600 s, and the next image was built."""
    (folder / "Dockerfile").write_text(f"ARG BASE\nFROM ${{BASE}}\nRUN {SLOW}\n")
    other = folder / "other"
    other.mkdir()
    (other / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    stop, said, ended = threading.Event(), list[str](), list[float]()

    def work() -> None:
        with pytest.raises(Interrupted, match=f"while building {folder.name}"):
            images.ensure_folders(client, {"it": folder, "other": other}, said.append, stop)
        ended.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: steps(client) != [])
    began = time.monotonic()
    stop.set()
    thread.join(30)
    assert ended and ended[0] - began < 5
    assert steps(client) == []
    assert said == [f"images   {folder.name}: building"]


@pytest.fixture
def chosen(client: docker.DockerClient) -> Iterator[str]:
    """An image to build the base FROM; what is built on it is removed."""
    name = f"test-{uuid.uuid4().hex[:8]}:1"
    client.api.tag(images.ensure_folders(client, {"base": images.BASE}, print)["base"], *name.split(":"))
    yield name
    for image in client.images.list("lab/base"):
        if image.labels.get(images.LABEL_BASE) == f"chosen: {name}":
            client.images.remove(image.id, force=True)
    with contextlib.suppress(docker.errors.ImageNotFound):
        client.images.remove(name, force=True)


def test_the_base_is_built_from_the_image_that_the_user_names(client: docker.DockerClient, chosen: str) -> None:
    """Planted: another base under the tag of the default one; two checkouts on one engine then change each other's."""
    default = images.ensure_folders(client, {"base": images.BASE}, print)["base"]
    tag = images.ensure_folders(client, {"base": images.BASE}, print, chosen_base=chosen)["base"]
    assert tag != default
    assert client.images.get(tag).labels[images.LABEL_BASE] == f"chosen: {chosen}"
    assert images.ensure_folders(client, {"base": images.BASE}, print)["base"] == default


def test_a_base_that_cannot_be_had_is_one_error_that_says_what_to_do(tmp_path: Path) -> None:
    """Planted: the engine's "manifest unknown" alone, on a machine that `.ci/base` could have helped."""
    ended = lab(tmp_path, "setup", environment={"LAB_BASE": "127.0.0.1:9/no-such-image:1"})
    assert ended.code == 3, ended
    assert ended.err.startswith("error    127.0.0.1:9/no-such-image:1 is not on the engine and cannot be pulled: ")
    assert "`.ci/base` makes one" in ended.err and "LAB_BASE=IMAGE" in ended.err


def test_ctrl_c_ends_a_set_up_in_the_middle_of_a_build(
    client: docker.DockerClient, chosen: str, tmp_path: Path
) -> None:
    """Report 17, on the command itself. The base's own build is slow: what it is built FROM has a trigger for that."""
    slow = tmp_path / "Dockerfile"
    slow.write_text(f"FROM {chosen}\nONBUILD RUN {SLOW}\n")
    client.images.build(path=str(tmp_path), tag=chosen, rm=True)
    with Running(tmp_path, "setup", "--base", chosen) as running:
        running.until(lambda: steps(client) != [])
        began = time.monotonic()
        running.signal(signal.SIGINT)
        ended = running.ended(30)
    assert time.monotonic() - began < 5
    assert ended.code == 130, ended
    assert steps(client) == []
    assert ended.out.count("building") == 1
