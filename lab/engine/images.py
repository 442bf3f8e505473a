"""Builds the lab's images, and a subject's own, from folders with a Dockerfile. Never pulls what it was not told to.

A tag carries its content's digest, `lab/<folder>:<12 hex>`: what is up to date is not built again, two checkouts never
overwrite each other's images, and a run's record says exactly what ran. A Dockerfile that begins with `ARG BASE` and
`FROM ${BASE}` stands on the lab's own base (images/system/base); `BELOW` has the other images of the lab's that a
Dockerfile can stand on in the same way, such as the harness of the checkers.
The wheels that a `wheels.txt` pins lie in `wheels/` of a build. Built through the classic API, without BuildKit.
A wish to stop ends the build that runs, with the container of its step, and starts no further one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import tarfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
from docker.utils.build import exclude_paths

from lab.engine import base, wheels
from lab.engine.errors import ENGINE_FAILURES, DeadlinePassed, ImageBuildFailed, ImageMissing, Interrupted, UsageError
from lab.engine.host import Say, engine_lock, locked
from lab.engine.removal import remove_container
from lab.engine.request import Post, pieces
from lab.engine.services import LABEL_RUN

SYSTEM = Path(__file__).resolve().parents[2] / "images" / "system"  # the lab's own
BASE = SYSTEM / "base"
BELOW = {  # what of ours a Dockerfile can stand on: its argument, and the folder of SYSTEM
    "BASE": "base",
    "VERIFIER": "checkers/base",  # the harness of every checker
    "CELLS": "checkers/cells",  # the checker of session stores, which lacks only a store's views
    "CLIENTS": "clients",  # of the fuzz campaign, to which an adapter is added
}
STANDS_ON = re.compile(rf"^ARG\s+({'|'.join(BELOW)})\b", re.MULTILINE)
BUILD = "build:"  # how a subject.toml says that its image is a folder
DIGEST_HEX = 12  # 48 bits: no two contents of one name will ever meet by chance
LAST_LINES = 20  # of a failed build, for a person
BUILD_SILENCE_S = 600.0  # one silent step, such as a compiler's
BUILD_TIMEOUT_S = 1800.0  # a whole build
LOCK_WAIT_S = 2 * BUILD_TIMEOUT_S
LABEL_BASE = "crashlab.base"  # on the base image: what it was made from
IGNORED = ("**/__pycache__", "**/*.pyc")  # made by running the code, not part of it
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # the classic builder colours a step's standard error
STEP = re.compile(r" ---> Running in ([0-9a-f]{12,64})")  # the container of a build's step


@dataclass(frozen=True)
class Context:
    """A folder as it is sent to the engine: a tar in which nothing but names, modes and content tells two apart."""

    name: str  # a valid name of an image
    folder: Path
    dockerfile: str
    tar: bytes

    @property
    def pins(self) -> Path | None:
        """Its wheels.txt, if it has one. The wheels themselves are not in the tar: the pins hold their hashes."""
        pins = self.folder / wheels.PINS
        return pins if pins.is_file() else None

    @property
    def below(self) -> str | None:
        """The argument by which it asks for an image of the lab's to stand on; `BELOW` has that image's folder."""
        found = STANDS_ON.search(self.dockerfile)
        return found[1] if found else None

    def tag(self, below_id: str = "") -> str:
        digest = hashlib.sha256(self.tar + below_id.encode()).hexdigest()
        return f"lab/{self.name}:{digest[:DIGEST_HEX]}"


def read_context(folder: Path) -> Context:
    """Read a folder to build from, less what its .dockerignore and IGNORED name. Raises UsageError."""
    dockerfile = folder / "Dockerfile"
    if not dockerfile.is_file():
        raise UsageError(f"no Dockerfile in {folder}", "An image is built from a folder that has one.")
    ignore = folder / ".dockerignore"
    patterns = [*IGNORED, *(ignore.read_text().splitlines() if ignore.is_file() else ())]
    patterns = [p.strip() for p in patterns if p.strip() and not p.startswith("#")]
    names = sorted(exclude_paths(str(folder), patterns))
    return Context(_name(folder), folder, dockerfile.read_text(), _tar(folder, names))


def _name(folder: Path) -> str:
    """A folder's last name, as an image may have it; of one of the lab's own its path, so that no two are the same."""
    path = folder.resolve()
    name = str(path.relative_to(SYSTEM)) if path.is_relative_to(SYSTEM) else path.name
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "image"


def _tar(folder: Path, names: Iterable[str]) -> bytes:
    """The same bytes for the same content on any machine: no times, no owners, and modes without the umask's part."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            path = folder / name
            info = archive.gettarinfo(path, arcname=name)
            if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
                raise UsageError(f"{path} is neither a file, a folder nor a link: it cannot go into an image")
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            if info.islnk():  # a second name of one file, seen before: content all the same
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
            info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            if info.isreg():
                with path.open("rb") as file:
                    archive.addfile(info, file)
            else:
                archive.addfile(info)
    return buffer.getvalue()


def _with_wheels(context: Context, stop: threading.Event | None) -> bytes:
    """The tar of a context as a build needs it. Raises LabError if its wheels cannot be fetched."""
    if context.pins is None:
        return context.tar
    buffer = io.BytesIO(context.tar)
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for wheel in wheels.fetch(context.pins, stop=stop):
            archive.add(wheel, arcname=f"wheels/{wheel.name}")
    return buffer.getvalue()


def resolve(
    client: docker.DockerClient, reference: str, beside: Path, say: Say, stop: threading.Event | None = None
) -> str:
    """The image that a subject.toml in the folder `beside` names: "build:DIR" is built, any other must be there.

    Raises ImageMissing: nothing is pulled, since a stranger's image of that name could be had in its place.
    """
    if reference.startswith(BUILD):
        folder = (beside / reference.removeprefix(BUILD)).resolve()
        name = _name(folder)
        return ensure_folders(client, {name: folder}, say, stop)[name]
    if not base.present(client, reference):
        raise ImageMissing(
            f"image {reference} is not on the engine, and the lab pulls none",
            f'Build or load it first, or say image = "build:DIR" ({beside / "subject.toml"}).',
        )
    return reference


def ensure_folders(
    client: docker.DockerClient,
    folders: Mapping[str, Path],
    say: Say,
    stop: threading.Event | None = None,
    chosen_base: str | None = None,
) -> dict[str, str]:
    """Build what is not up to date; name → tag. Two labs that do so at once take turns.

    `stop` ends the wait for a turn, or the build that runs. The base image is built FROM `chosen_base`, else from what
    LAB_BASE names, else from the default. Raises ImageBuildFailed, ImageMissing (no base to be had), UsageError (no
    Dockerfile), Interrupted (by `stop`) and DeadlinePassed (the turn).
    """
    contexts = {name: read_context(folder) for name, folder in folders.items()}
    builder = _Builder(client, say, stop, chosen_base or os.environ.get(base.CHOICE) or None)
    tags, fresh = {}, []
    with locked(engine_lock(client.info()["ID"], "images"), LOCK_WAIT_S, say, stop):
        for name, context in contexts.items():
            tags[name], built = builder.up_to_date(context)
            if not built:
                fresh.append(name)
    if fresh:
        say(f"images   {', '.join(fresh)}: up to date")
    return tags


@dataclass(frozen=True)
class _Builder:
    """Builds one image after the other, under the lock of their engine."""

    client: docker.DockerClient
    say: Say
    stop: threading.Event | None
    chosen_base: str | None

    def up_to_date(self, context: Context) -> tuple[str, bool]:
        """The tag of an image, built if it is not there, after what it stands on; and whether it was built."""
        arguments, labels, below_id = {}, {}, ""
        if context.below is not None:
            below, _ = self.up_to_date(read_context(SYSTEM / BELOW[context.below]))
            arguments, below_id = {context.below: below}, self._id(below)
        elif context.folder == BASE and self.chosen_base:
            below_id = self._id(self._source(context).reference)
        tag = context.tag(below_id)
        if base.present(self.client, tag):
            return tag, False
        if context.folder == BASE:
            source = self._source(context)
            arguments, labels = {"FROM": source.reference}, {LABEL_BASE: f"{source.origin}: {source.reference}"}
        self._build(context, tag, arguments, labels)
        return tag, True

    def _id(self, reference: str) -> str:
        return str(self.client.images.get(reference).id)

    def _source(self, context: Context) -> base.Source:
        """What the base image is built FROM; the pinned image is the default of its Dockerfile's argument."""
        pinned = re.search(r"^ARG\s+FROM=(\S+)", context.dockerfile, re.MULTILINE)
        if pinned is None:
            raise UsageError(
                f"{context.folder}/Dockerfile names no image to start from", "It begins with `ARG FROM=…`."
            )
        return base.source(self.client, pinned[1], self.chosen_base, self.say, self.stop)

    def _build(self, context: Context, tag: str, arguments: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Build one image; on failure the last lines of its output are the error's message."""
        query = {
            "t": tag,
            "rm": "1",
            "forcerm": "1",
            "networkmode": "host",  # a proxy may be the only way out
            "buildargs": json.dumps(dict(arguments)),
            "labels": json.dumps(dict(labels)),
        }
        headers = {"Content-Type": "application/tar"}
        # As the SDK's own `build` does, for a FROM that the engine must log in to pull.
        self.client.api._set_auth_headers(headers)  # type: ignore[attr-defined]
        body = _with_wheels(context, self.stop)
        request = Post("/build", query, headers, body, f"building {context.name}", BUILD_SILENCE_S, BUILD_TIMEOUT_S)
        began, lines = time.monotonic(), deque[str](maxlen=LAST_LINES)
        self.say(f"images   {context.name}: building")
        try:
            self._run(request, lines)
        except DeadlinePassed as error:
            raise _failed(context, [*lines, error.what]) from error
        except ENGINE_FAILURES as error:
            raise _failed(context, [*lines, str(error)]) from error
        if not base.present(self.client, tag):
            raise _failed(context, lines)
        self.say(f"images   {context.name}: built in {time.monotonic() - began:.1f} s")

    def _run(self, request: Post, lines: deque[str]) -> None:
        """Let the engine build, and add each line that it prints, its error last. Ended early, it leaves nothing."""
        step = None
        try:
            with contextlib.closing(pieces(self.client, request, self.stop)) as output:
                for piece in output:
                    text = ESCAPES.sub("", piece.get("stream") or piece.get("error") or piece.get("message") or "")
                    for line in filter(None, (line.rstrip() for line in text.splitlines())):
                        lines.append(line)
                        if running := STEP.fullmatch(line):
                            step = running[1]
        except (Interrupted, KeyboardInterrupt, DeadlinePassed):
            if step is not None:
                remove_container(self.client, step)  # the engine does so too, in its own time
            raise


def _failed(context: Context, lines: Iterable[str]) -> ImageBuildFailed:
    output = "\n  ".join(lines) or "(it printed nothing)"
    return ImageBuildFailed(f"image {context.name} did not build, from {context.folder}:\n  {output}")


def packages(client: docker.DockerClient, image: str) -> tuple[str, ...]:
    """The Debian packages of an image as "name version", sorted; empty if it has none. Nothing of it is run."""
    container = client.api.create_container(image, ["true"], labels={LABEL_RUN: "images"})["Id"]
    try:
        chunks, _ = client.api.get_archive(container, "/var/lib/dpkg/status")
        archive = io.BytesIO(b"".join(chunks))
    except docker.errors.NotFound:
        return ()
    finally:
        remove_container(client, container)
    with tarfile.open(fileobj=archive) as tar:
        file = tar.extractfile("status")
        text = file.read().decode() if file else ""
    return tuple(sorted(filter(None, map(_installed, text.split("\n\n")))))


def _installed(paragraph: str) -> str:
    """ "name version" of one paragraph of dpkg's status file, or nothing if that package is not installed."""
    fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and not line.startswith(" "))
    if fields.get("Status", "").endswith(" installed"):
        return f"{fields['Package']} {fields['Version']}"
    return ""
