"""Builds the lab's images, and a subject's own, from folders with a Dockerfile. Never pulls what it was not told to.

A tag carries its content's digest, `lab/<folder>:<12 hex>`: what is up to date is not built again, two checkouts never
overwrite each other's images, and a run's record says exactly what ran. A Dockerfile that begins with `ARG BASE` and
`FROM ${BASE}` stands on the lab's own base (images/system/base); `BELOW` has the other images of the lab's that a
Dockerfile can stand on in the same way, such as the harness of the checkers.
The wheels that a `wheels.txt` pins lie in `wheels/` of a build. Built through the classic API, without BuildKit.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import requests
from docker.utils.build import exclude_paths

from lab.engine import base, wheels
from lab.engine.errors import ImageBuildFailed, ImageMissing, UsageError
from lab.engine.host import Say, engine_lock, locked

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


def _with_wheels(context: Context) -> bytes:
    """The tar of a context as a build needs it. Raises LabError if its wheels cannot be fetched."""
    if context.pins is None:
        return context.tar
    buffer = io.BytesIO(context.tar)
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for wheel in wheels.fetch(context.pins):
            archive.add(wheel, arcname=f"wheels/{wheel.name}")
    return buffer.getvalue()


def ensure(client: docker.DockerClient, names: Iterable[str], say: Say) -> dict[str, str]:
    """Build those of the lab's own images (folders of images/system/) that are not up to date; name → tag."""
    return ensure_folders(client, {name: SYSTEM / name for name in names}, say)


def resolve(client: docker.DockerClient, reference: str, beside: Path, say: Say) -> str:
    """The image that a subject.toml in the folder `beside` names: "build:DIR" is built, any other must be there.

    Raises ImageMissing: nothing is pulled, since a stranger's image of that name could be had in its place.
    """
    if reference.startswith(BUILD):
        folder = (beside / reference.removeprefix(BUILD)).resolve()
        name = _name(folder)
        return ensure_folders(client, {name: folder}, say)[name]
    if not base.present(client, reference):
        raise ImageMissing(
            f"image {reference} is not on the engine, and the lab pulls none",
            f'Build or load it first, or say image = "build:DIR" ({beside / "subject.toml"}).',
        )
    return reference


def ensure_folders(client: docker.DockerClient, folders: Mapping[str, Path], say: Say) -> dict[str, str]:
    """Build what is not up to date; name → tag. Two labs that do so at once take turns.

    Raises ImageBuildFailed, ImageMissing (no base to be had), UsageError (no Dockerfile) and DeadlinePassed (the turn).
    """
    contexts = {name: read_context(folder) for name, folder in folders.items()}
    tags, fresh = {}, []
    with locked(engine_lock(client.info()["ID"], "images"), LOCK_WAIT_S, say):
        for name, context in contexts.items():
            tags[name], built = _up_to_date(client, context, say)
            if not built:
                fresh.append(name)
    if fresh:
        say(f"images   {', '.join(fresh)}: up to date")
    return tags


def _up_to_date(client: docker.DockerClient, context: Context, say: Say) -> tuple[str, bool]:
    """The tag of an image, built if it is not there, after what it stands on; and whether it was built."""
    arguments, labels, below_id = {}, {}, ""
    if context.below is not None:
        below, _ = _up_to_date(client, read_context(SYSTEM / BELOW[context.below]), say)
        arguments, below_id = {context.below: below}, str(client.images.get(below).id)
    tag = context.tag(below_id)
    if base.present(client, tag):
        return tag, False
    if context.folder == BASE:
        source = base.source(client, _pinned(context), say)
        arguments, labels = {"FROM": source.reference}, {LABEL_BASE: f"{source.origin}: {source.reference}"}
    _build(client, context, tag, arguments, labels, say)
    return tag, True


def _pinned(context: Context) -> str:
    """The public image that the base starts from, where a registry can be reached."""
    pinned = re.search(r"^ARG\s+FROM=(\S+)", context.dockerfile, re.MULTILINE)
    if pinned is None:
        raise UsageError(f"{context.folder}/Dockerfile names no image to start from", "It begins with `ARG FROM=…`.")
    return pinned[1]


def _build(
    client: docker.DockerClient,
    context: Context,
    tag: str,
    arguments: Mapping[str, str],
    labels: Mapping[str, str],
    say: Say,
) -> None:
    """Build one image; on failure the last lines of its output are the error's message."""
    began, lines = time.monotonic(), deque[str](maxlen=LAST_LINES)
    say(f"images   {context.name}: building")
    try:
        for line in _build_output(client, context, tag, arguments, labels):
            lines.append(line)
            if time.monotonic() - began > BUILD_TIMEOUT_S:
                raise _failed(context, [*lines, f"not done after {BUILD_TIMEOUT_S:.0f} s"])
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise _failed(context, [*lines, str(getattr(error, "explanation", None) or error)]) from error
    if not base.present(client, tag):
        raise _failed(context, list(lines))
    say(f"images   {context.name}: built in {time.monotonic() - began:.1f} s")


def _build_output(
    client: docker.DockerClient, context: Context, tag: str, arguments: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[str]:
    """Each line that the build prints, its error last. On the host network: a proxy may be the only way out."""
    events = client.api.build(
        fileobj=io.BytesIO(_with_wheels(context)),
        custom_context=True,
        tag=tag,
        buildargs=dict(arguments),
        labels=dict(labels),
        network_mode="host",
        rm=True,
        forcerm=True,
        decode=True,
        timeout=int(BUILD_SILENCE_S),
    )
    for event in events:
        text = event.get("stream") or event.get("error") or ""
        yield from filter(None, (line.rstrip() for line in ESCAPES.sub("", text).splitlines()))


def _failed(context: Context, lines: Iterable[str]) -> ImageBuildFailed:
    output = "\n  ".join(lines) or "(it printed nothing)"
    return ImageBuildFailed(f"image {context.name} did not build, from {context.folder}:\n  {output}")


def packages(client: docker.DockerClient, image: str) -> tuple[str, ...]:
    """The Debian packages of an image as "name version", sorted; empty if it has none. Nothing of it is run."""
    container = client.api.create_container(image, ["true"], labels={"crashlab.run": "images"})["Id"]
    try:
        chunks, _ = client.api.get_archive(container, "/var/lib/dpkg/status")
        archive = io.BytesIO(b"".join(chunks))
    except docker.errors.NotFound:
        return ()
    finally:
        client.api.remove_container(container, force=True)
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
