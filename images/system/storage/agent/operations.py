"""What the agent can be asked, and what it holds. Only paths in its own container and loop devices it made are touched.

/images (tmpfs): the ext4 template and its copies. /pool (a Docker volume on the engine's disk, as overlay's upper must
not lie on overlay): overlay's lower layer, and upper and work of each volume.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ext4
import loop
import tree
from mounting import mounted

IMAGES = Path("/images")
POOL = Path("/pool")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
MAX_TAR = 64 * 1024 * 1024
MAX_SIZE = 1024 * 1024 * 1024
PROBE_SIZE = 8 * 1024 * 1024


class Failed(Exception):
    """The request cannot be done; the message is for people."""


@dataclass(frozen=True)
class Image:
    """A copy of the template on its loop device."""

    path: Path
    loop: loop.Loop


@dataclass
class Agent:
    """One run's file systems."""

    # In every image's file name, so that a loop device can be told from another lab's.
    token: str = field(default_factory=lambda: secrets.token_hex(6))
    owner: tuple[int, int] | None = None  # of the overlay volumes, once prepared
    size: int = 0  # of an ext4 volume, once prepared
    images: dict[str, Image] = field(default_factory=dict)
    overlays: set[str] = field(default_factory=set)

    def do(self, do: str, **given: Any) -> dict[str, Any]:
        """One request. Raises Failed, or OSError with the kernel's answer."""
        operations = {
            ("prepare", "ext4"): self._prepare_ext4,
            ("prepare", "overlay"): self._prepare_overlay,
            ("fresh", "ext4"): self._fresh_ext4,
            ("fresh", "overlay"): self._fresh_overlay,
            ("release", "ext4"): self._release_ext4,
            ("release", "overlay"): self._release_overlay,
            ("probe", "ext4"): self._probe_ext4,
            ("probe", "overlay"): self._probe_overlay,
            ("probe", "tmpfs"): self._probe_tmpfs,
            ("space", None): self._space,
        }
        operation = operations.get((do, given.pop("layer", None)))
        if operation is None:
            raise Failed("no such request: " + ", ".join(f"{d} {layer or ''}".strip() for d, layer in operations))
        if "name" in given and not NAME.fullmatch(given["name"]):
            raise Failed("`name` is not 1 to 64 letters, digits, - and _")
        try:
            return operation(**given)
        except (tree.BadTar, ext4.MkfsFailed, loop.Busy) as error:
            raise Failed(str(error)) from error
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise Failed(f"the agent's disk is full: {self._free_text()}") from error
            raise

    def release_all(self) -> None:
        """Let go of everything: descriptors first, so that what cannot be freed now frees itself."""
        for image in self.images.values():
            os.close(image.loop.fd)
            image.path.unlink(missing_ok=True)
        for name in self.overlays:
            tree.remove(POOL / name)
        tree.remove(POOL / "lower")

    # ext4: sparse copies of one template, each on a loop device

    def _prepare_ext4(self, tar: str, uid: int, gid: int, size_bytes: int) -> dict[str, Any]:
        if not 0 < size_bytes <= MAX_SIZE:
            raise Failed(f"`size_bytes` is not from 1 to {MAX_SIZE}")
        content, new = IMAGES / "content", IMAGES / "template.new"
        try:
            tree.unpack(_decoded(tar), content, uid, gid)
            ext4.make_template(new, content, size_bytes, uid, gid)
            new.rename(IMAGES / "template")
        finally:
            tree.remove(content)
            new.unlink(missing_ok=True)
        self.size = size_bytes
        return {}

    def _fresh_ext4(self, name: str) -> dict[str, Any]:
        if not self.size:
            raise Failed("no ext4 has been prepared yet")
        if name in self.images:
            raise Failed(f"ext4 volume {name} is there already")
        # Every copy may grow to its full size: one that could not would look like a broken disk to its subject.
        if self.size > self._images_free():
            raise Failed(f"no room for one more ext4 of {self.size} bytes: {self._free_text()}")
        path = IMAGES / f"{self.token}-{name}"
        ext4.copy_sparse(IMAGES / "template", path)
        try:
            image = Image(path, loop.attach(path))
        except BaseException:
            path.unlink()
            raise
        self.images[name] = image
        return {"device": image.loop.device}

    def _release_ext4(self, name: str) -> dict[str, Any]:
        image = self.images.pop(name, None)
        if image is None:
            raise Failed(f"there is no ext4 volume {name}")
        try:
            image.loop.detach()
        finally:
            image.path.unlink()
        return {}

    # overlay: one lower layer for all, upper and work for each

    def _prepare_overlay(self, tar: str, uid: int, gid: int) -> dict[str, Any]:
        if self.overlays:
            raise Failed(f"the lower layer is in use by {', '.join(sorted(self.overlays))}: it cannot change now")
        self.owner = None
        tree.unpack(_decoded(tar), POOL / "lower", uid, gid)
        self.owner = (uid, gid)
        return {}

    def _fresh_overlay(self, name: str) -> dict[str, Any]:
        if self.owner is None:
            raise Failed("no overlay has been prepared yet")
        if name in self.overlays or name == "lower":
            raise Failed(f"overlay volume {name} is there already")
        upper, work = POOL / name / "upper", POOL / name / "work"
        try:
            upper.mkdir(parents=True)
            work.mkdir()
            # The root of an overlay shows the owner and mode of its upper folder.
            os.chown(upper, *self.owner)
            upper.chmod((POOL / "lower").stat().st_mode & 0o7777)
        except BaseException:
            tree.remove(POOL / name)
            raise
        self.overlays.add(name)
        return {"lower": "lower", "upper": f"{name}/upper", "work": f"{name}/work"}

    def _release_overlay(self, name: str) -> dict[str, Any]:
        if name not in self.overlays:
            raise Failed(f"there is no overlay volume {name}")
        tree.remove(POOL / name)
        self.overlays.remove(name)
        return {}

    # Can this machine do it? `why` is null if so.

    def _probe_ext4(self) -> dict[str, Any]:
        content, path = IMAGES / "probe", IMAGES / f"{self.token}.probe"
        with _undone(content, path):
            content.mkdir()
            ext4.make_template(path, content, PROBE_SIZE, 0, 0)
            device = loop.attach(path)
            try:
                why = _why_not(device.node, "ext4")
            finally:
                device.detach()
        return {"why": why}

    def _probe_overlay(self) -> dict[str, Any]:
        folder = POOL / f"{self.token}.probe"
        with _undone(folder):
            for name in ("lower", "upper", "work"):
                (folder / name).mkdir(parents=True)
            return {
                "why": _why_not(
                    "overlay", "overlay", f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
                )
            }

    def _probe_tmpfs(self) -> dict[str, Any]:
        return {"why": _why_not("tmpfs", "tmpfs", "size=1m")}

    def _space(self) -> dict[str, Any]:
        return {"images": self._images_free(), "pool": _available(POOL)}

    def _images_free(self) -> int:
        """Bytes that nobody has been promised."""
        promised = sum(self.size - image.path.stat().st_blocks * 512 for image in self.images.values())
        return _available(IMAGES) - promised

    def _free_text(self) -> str:
        return f"{self._images_free()} bytes are free for images, {_available(POOL)} on the engine's disk"


def _why_not(source: str, filesystem: str, options: str = "") -> str | None:
    """Mount it, write to it: None, or what failed."""
    try:
        with mounted(source, filesystem, options) as folder:
            (folder / "probe").write_bytes(b"probe")
    except OSError as error:
        return str(error.strerror or error)
    return None


@contextlib.contextmanager
def _undone(*paths: Path) -> Iterator[None]:
    """Remove what a probe made, however it ended."""
    try:
        yield
    finally:
        for path in paths:
            if path.is_dir():
                tree.remove(path)
            else:
                path.unlink(missing_ok=True)


def _available(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _decoded(tar: str) -> bytes:
    try:
        data = base64.b64decode(tar, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise Failed(f"`tar` is not base64: {error}") from error
    if len(data) > MAX_TAR:
        raise Failed(f"the prepared state has {len(data)} bytes; at most {MAX_TAR} can be carried")
    return data
