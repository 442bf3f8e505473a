"""What the agent can be asked, and what it holds. Only paths in its own container and loop devices it made are touched.

/images (tmpfs): the templates of layers with an image, and their copies. /pool (a Docker volume on the engine's disk,
as overlay's upper must not lie on overlay): for layers with folders, the folder that all volumes of a layer share, and
those of each volume.
"""

from __future__ import annotations

import base64
import binascii
import errno
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import image
import loop
import recipe as recipes
import tree
from mounting import mounted
from recipe import Recipe

IMAGES = Path("/images")
POOL = Path("/pool")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
LAYER = re.compile(r"[a-z0-9.:-]{1,64}", re.ASCII)
MAX_TAR = 64 * 1024 * 1024


class Failed(Exception):
    """The request cannot be done; the message is for people."""


@dataclass(frozen=True)
class Prepared:
    """A layer with its prepared state: a template, or the folder that its volumes share."""

    recipe: Recipe
    state: Path
    uid: int
    gid: int


@dataclass(frozen=True)
class Made:
    """One volume: a copy of its layer's template on a loop device, or a folder with its folders."""

    layer: str
    path: Path
    device: loop.Loop | None
    size_bytes: int


@dataclass
class Agent:
    """One run's file systems."""

    # In every image's file name, so that a loop device can be told from another lab's.
    token: str = field(default_factory=lambda: secrets.token_hex(6))
    layers: dict[str, Prepared] = field(default_factory=dict)
    volumes: dict[str, Made] = field(default_factory=dict)

    def do(self, do: str, **given: Any) -> dict[str, Any]:
        """One request. Raises Failed, or OSError with the kernel's answer."""
        operations = {
            "prepare": self._prepare,
            "fresh": self._fresh,
            "release": self._release,
            "probe": self._probe,
            "space": self._space,
        }
        if do not in operations:
            raise Failed(f"no such request: {', '.join(operations)}")
        if "name" in given and not NAME.fullmatch(given["name"]):
            raise Failed("`name` is not 1 to 64 letters, digits, - and _")
        if "layer" in given and not LAYER.fullmatch(given["layer"]):
            raise Failed("`layer` is not 1 to 64 letters, digits, and any of . : -")
        try:
            return operations[do](**given)
        except (recipes.BadRecipe, tree.BadTar, image.MkfsFailed, loop.Busy) as error:
            raise Failed(str(error)) from error
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise Failed(f"the agent's disk is full: {self._free_text()}") from error
            raise

    def release_all(self) -> None:
        """Let go of everything: descriptors first, so that what cannot be freed now frees itself."""
        for made in self.volumes.values():
            if made.device is not None:
                os.close(made.device.fd)
            tree.remove(made.path)
        for prepared in self.layers.values():
            tree.remove(prepared.state)

    def _prepare(self, layer: str, recipe: Mapping[str, Any], tar: str, uid: int, gid: int) -> dict[str, Any]:
        parsed, content = recipes.parse(recipe), _decoded(tar)
        if parsed.folders:
            # The volumes' paths are mount options, in which a colon separates two lower folders.
            state = POOL / f"lower-{layer.replace(':', '_')}"
            if users := sorted(name for name, made in self.volumes.items() if made.layer == layer):
                raise Failed(f"the state of {layer} is in use by {', '.join(users)}: it cannot change now")
            self.layers.pop(layer, None)
            tree.unpack(content, state, uid, gid)
        else:
            state = IMAGES / f"template-{layer}"
            new = IMAGES / f"{self.token}-template"
            try:
                image.make_template(new, parsed, content, uid, gid)
                new.rename(state)
            finally:
                new.unlink(missing_ok=True)
        self.layers[layer] = Prepared(parsed, state, uid, gid)
        return {}

    def _fresh(self, layer: str, name: str) -> dict[str, Any]:
        if layer not in self.layers:
            raise Failed(f"no {layer} has been prepared yet")
        if name in self.volumes:
            raise Failed(f"volume {name} is there already")
        prepared = self.layers[layer]
        if prepared.recipe.folders:
            return self._fresh_folders(layer, prepared, name)
        return self._fresh_image(layer, prepared, name)

    def _fresh_image(self, layer: str, prepared: Prepared, name: str) -> dict[str, Any]:
        # Every copy may grow to its full size: one that could not would look like a broken disk to its subject.
        size_bytes = prepared.recipe.size_bytes
        if size_bytes > self._images_free():
            raise Failed(f"no room for one more {layer} of {size_bytes} bytes: {self._free_text()}")
        path = IMAGES / f"{self.token}-{name}"
        image.copy_sparse(prepared.state, path)
        try:
            device = loop.attach(path, prepared.recipe.filesystem)
        except BaseException:
            path.unlink()
            raise
        self.volumes[name] = Made(layer, path, device, size_bytes)
        return {"device": device.device}

    def _fresh_folders(self, layer: str, prepared: Prepared, name: str) -> dict[str, Any]:
        path, folders = POOL / f"volume-{name}", prepared.recipe.folders
        try:
            for folder in folders:
                (path / folder).mkdir(parents=True)
            # The root of an overlay shows the owner and mode of its upper folder.
            written = path / folders[0]
            os.chown(written, prepared.uid, prepared.gid)
            written.chmod(prepared.state.stat().st_mode & 0o7777)
        except BaseException:
            tree.remove(path)
            raise
        self.volumes[name] = Made(layer, path, None, 0)
        return {"folders": {"lower": prepared.state.name, **{f: f"{path.name}/{f}" for f in folders}}}

    def _release(self, name: str) -> dict[str, Any]:
        if name not in self.volumes:
            raise Failed(f"there is no volume {name}")
        made = self.volumes.pop(name)
        try:
            if made.device is not None:
                made.device.detach()
        finally:
            tree.remove(made.path)
        return {}

    def _probe(self, recipe: Mapping[str, Any], uid: int, gid: int) -> dict[str, Any]:
        """Can this machine do it? `why` is null if so."""
        parsed = recipes.parse(recipe)
        if parsed.mkfs:
            return {"why": self._why_no_image(parsed, uid, gid)}
        folder = POOL / f"{self.token}-probe"
        paths = {name: folder / name for name in ("lower", *parsed.folders)}
        try:
            for path in paths.values():
                path.mkdir(parents=True)
            options = parsed.options(uid, gid, **{name: str(path) for name, path in paths.items()})
            return {"why": _why_not(parsed.filesystem, parsed.filesystem, options)}
        finally:
            tree.remove(folder)

    def _why_no_image(self, parsed: Recipe, uid: int, gid: int) -> str | None:
        path = IMAGES / f"{self.token}-probe"
        try:
            image.make_template(path, parsed, tree.EMPTY, uid, gid)
            device = loop.attach(path, parsed.filesystem)
            try:
                return _why_not(device.node, parsed.filesystem, parsed.options(uid, gid))
            finally:
                device.detach()
        except image.MkfsFailed as error:
            return str(error)
        except OSError as error:
            return str(error.strerror or error)
        finally:
            path.unlink(missing_ok=True)

    def _space(self) -> dict[str, Any]:
        return {"images": self._images_free(), "pool": _available(POOL)}

    def _images_free(self) -> int:
        """Bytes that nobody has been promised."""
        copies = [made for made in self.volumes.values() if made.device is not None]
        promised = sum(made.size_bytes - made.path.stat().st_blocks * 512 for made in copies)
        return _available(IMAGES) - promised

    def _free_text(self) -> str:
        return f"{self._images_free()} bytes are free for images, {_available(POOL)} on the engine's disk"


def _why_not(source: str, filesystem: str, options: str) -> str | None:
    """Mount it, write to it: None, or what failed."""
    try:
        with mounted(source, filesystem, options) as folder:
            (folder / "probe").write_bytes(b"probe")
    except OSError as error:
        return str(error.strerror or error)
    return None


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
