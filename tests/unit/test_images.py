"""An image's tag is its content's digest. No Docker is needed: a tag is known before anything is built."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from lab.engine import base, images
from lab.engine.errors import ImageMissing, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to build from, with one module and one script."""
    folder = tmp_path / "My Program"
    (folder / "src").mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY src /src\n")
    (folder / "src" / "main.py").write_text("print(1)\n")
    (folder / "src" / "start").write_text("#!/bin/sh\n")
    return folder


def tag(folder: Path) -> str:
    return images.read_context(folder).tag()


def test_the_same_content_has_the_same_tag_whenever_and_by_whom_it_was_written(folder: Path, tmp_path: Path) -> None:
    """Planted: times, umasks and compiled modules in the digest, and every checkout builds everything anew."""
    before = tag(folder)
    copy = tmp_path / "elsewhere" / folder.name
    shutil.copytree(folder, copy)
    os.utime(copy / "src" / "main.py", (1, 1))
    (copy / "src" / "main.py").chmod(0o600)
    (copy / "src" / "__pycache__").mkdir()
    (copy / "src" / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"x")
    assert tag(copy) == before


@pytest.mark.parametrize("change", ["content", "executable", "name", "dockerfile", "empty folder", "link"])
def test_a_change_that_the_image_would_show_changes_its_tag(folder: Path, change: str) -> None:
    """Planted: a digest over file contents alone, and a renamed hook script runs as its old self."""
    before = tag(folder)
    match change:
        case "content":
            (folder / "src" / "main.py").write_text("print(2)\n")
        case "executable":
            (folder / "src" / "start").chmod(0o755)
        case "name":
            (folder / "src" / "main.py").rename(folder / "src" / "other.py")
        case "dockerfile":
            (folder / "Dockerfile").write_text("FROM scratch\nCOPY src /lib\n")
        case "empty folder":
            (folder / "src" / "data").mkdir()
        case "link":
            (folder / "src" / "run").symlink_to("start")
    assert tag(folder) != before


def test_another_base_gives_another_tag(folder: Path) -> None:
    """Planted: the base left out, and a new Python under a subject goes unseen in the record."""
    context = images.read_context(folder)
    assert context.tag("sha256:aaaa") != context.tag("sha256:bbbb")


def test_only_a_dockerfile_that_asks_for_an_image_of_the_labs_stands_on_it(folder: Path) -> None:
    """Planted: every image on the lab's base; a user's own `FROM` would be built anew with each base."""
    assert images.read_context(folder).below is None
    (folder / "Dockerfile").write_text("# mine\nARG BASE\nFROM ${BASE}\n")
    assert images.read_context(folder).below == "BASE"
    (folder / "Dockerfile").write_text("ARG VERIFIER\nFROM ${VERIFIER}\n")
    assert images.read_context(folder).below == "VERIFIER"
    (folder / "Dockerfile").write_text("ARG VERIFIERS=3\nFROM scratch\n")
    assert images.read_context(folder).below is None


def tags_with(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The tag of each of the lab's own images in that copy of them, as if every image were built."""
    monkeypatch.setattr(images, "SYSTEM", root)

    def built(folder: Path) -> str:
        context = images.read_context(folder)
        return context.tag(built(root / images.BELOW[context.below]) if context.below else "")

    return {str(file.parent.relative_to(root)): built(file.parent) for file in root.rglob("Dockerfile")}


@pytest.mark.parametrize(
    ("edited", "changed"),
    [
        ("checkers/models/fuzz/waits.py", {"checkers/models"}),
        ("checkers/cells/cells/views.py", {"checkers/cells"}),
        ("checkers/kernel/kernel/fold.py", {"checkers/kernel"}),
        ("checkers/base/verifier/tree.py", {"checkers/base", "checkers/cells", "checkers/kernel", "checkers/models"}),
    ],
)
def test_an_edited_checker_changes_no_other_checkers_image(
    edited: str, changed: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of them in one image, an edit of the fuzz oracle made every kernel pass one by an older verifier."""
    root = tmp_path / "system"
    shutil.copytree(images.SYSTEM, root, ignore=shutil.ignore_patterns("__pycache__"))
    before = tags_with(root, monkeypatch)
    (root / edited).write_text((root / edited).read_text() + "# edited\n")
    after = tags_with(root, monkeypatch)
    assert {name for name in before if before[name] != after[name]} == changed
    assert len({tag.split(":")[0] for tag in before.values()}) == len(before)  # each has a name of its own


def test_a_tag_names_its_folder_in_characters_that_docker_takes(folder: Path) -> None:
    """A folder called "My Program" is the user's good right."""
    assert tag(folder).startswith("lab/my-program:")


def test_what_dockerignore_names_is_neither_sent_nor_digested(folder: Path) -> None:
    """Planted: .dockerignore not read, and a run's own output in the folder changes the image it came from."""
    (folder / ".dockerignore").write_text("# results\nout\n")
    before = tag(folder)
    (folder / "out").mkdir()
    (folder / "out" / "result.json").write_text("{}")
    assert tag(folder) == before


def test_a_folder_without_a_dockerfile_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    """`image = "build:."` in the wrong folder."""
    with pytest.raises(UsageError, match=str(tmp_path)):
        images.read_context(tmp_path)


def test_a_pipe_in_the_folder_is_refused_and_not_read_for_ever(folder: Path) -> None:
    """Planted: every name opened and read; a FIFO blocks the set-up without a word."""
    os.mkfifo(folder / "src" / "pipe")
    with pytest.raises(UsageError, match="pipe"):
        images.read_context(folder)


@contextmanager
def mute_engine(path: Path) -> Iterator[docker.DockerClient]:
    """A client of a socket that accepts and never answers: an engine whose registry does not answer looks like this."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        kept: list[socket.socket] = []
        thread = threading.Thread(target=lambda: kept.append(server.accept()[0]), daemon=True)
        thread.start()
        client = docker.DockerClient(base_url=f"unix://{path}", version="1.41")
        try:
            yield client
        finally:
            client.close()
            thread.join(5)
            for connection in kept:
                connection.close()


def test_a_registry_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """Planted: the SDK's own `pull`, which has no timeout: set-up behind a firewall that drops packets never ended."""
    with (
        mute_engine(tmp_path / "engine.sock") as client,
        pytest.raises(ImageMissing, match=r"nothing heard for 0\.2 s"),
    ):
        base.pull(client, "debian:bookworm-slim", silence_s=0.2)
