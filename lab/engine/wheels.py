"""Fetches the Python wheels that an image's `wheels.txt` pins, on the host, where pip's own configuration works.

A build step may have no way to a package index (a proxy's certificates, a mirror that only the host knows). So a
folder to build may hold a `wheels.txt`, a requirements file with one `name==version --hash=sha256:…` a line, and its
Dockerfile finds those wheels in `wheels/`. The pins are part of the folder's digest, and so, by their hashes, is every
byte of the wheels: only a build needs them, and only the first one needs the network.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from lab.engine.errors import Interrupted, LabError
from lab.engine.host import run, state_folder

PINS = "wheels.txt"
DOWNLOAD_TIMEOUT_S = 300.0  # 10 MB over a slow mirror; about 3 s here
# The same wheels whatever the host is: those for the base image's Python on x86-64, or on any machine. An extension
# module of another machine is one that Python does not see, so on arm64 a package must do without its own.
FOR_THE_BASE = (
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.11",
    "--platform=manylinux2014_x86_64",
)


def fetch(pins: Path, cache: Path | None = None, stop: threading.Event | None = None) -> tuple[Path, ...]:
    """The wheels that the file `pins` names, from the cache if they are there. Raises LabError, Interrupted by `stop`.

    A folder of the cache is named by the pins and appears whole or not at all.
    """
    cache = cache or state_folder() / "wheels"
    folder = cached(pins, cache)
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as scratch:
            _download(pins, Path(scratch) / "wheels", stop)
            _publish(Path(scratch) / "wheels", folder)
    return tuple(sorted(folder.glob("*.whl")))


def cached(pins: Path, cache: Path) -> Path:
    """Where the wheels of `pins` lie in the cache, once they are there."""
    return cache / hashlib.sha256(pins.read_bytes()).hexdigest()[:16]


def _download(pins: Path, into: Path, stop: threading.Event | None) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--require-hashes", *FOR_THE_BASE, "--dest", str(into), "-r", str(pins)]
    try:
        run(command, DOWNLOAD_TIMEOUT_S, stop)
    except Interrupted:
        raise
    except LabError as error:
        raise LabError(
            f"the wheels of {pins} cannot be fetched: {error.what}",
            "They come from the package index of pip's own configuration: `pip config list`.",
        ) from error


def _publish(fetched: Path, folder: Path) -> None:
    """Another lab may have been faster; its wheels have the same hashes."""
    try:
        os.rename(fetched, folder)  # noqa: PTH104  (its error says whether somebody was faster)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(fetched)
