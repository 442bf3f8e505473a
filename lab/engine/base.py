"""Where the base image's Debian comes from: the pinned public image, or a bootstrap where no registry is reached.

Both are the same Debian release. Which one a base image stands on is written in its label `crashlab.base`, and the
bootstrapped one is called `lab/bootstrapped`, so that nobody takes it for the public image.
"""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import requests

from lab.engine.errors import ImageMissing, LabError
from lab.engine.host import Say, can_install_packages, install_packages, run

SUITE = "bookworm"  # the release of the pinned image in images/base/Dockerfile
BOOTSTRAPPED = f"lab/bootstrapped:{SUITE}"
# e2fsprogs is not of the base, but every storage image needs it: with it here, a machine that must bootstrap fetches
# package lists once, and the storage image builds without a network.
INCLUDE = "python3,e2fsprogs"
BOOTSTRAP_TIMEOUT_S = 600  # about 20 s here; a slow mirror
PULL_SILENCE_S = 30.0  # an engine that reaches its registry reports progress several times a second
PULL_TIMEOUT_S = 600.0  # 30 MB over a slow line
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Linux calls them → as Docker and Debian do


@dataclass(frozen=True)
class Source:
    """An image on the engine that the base can be built from, and how it came there."""

    reference: str
    origin: str  # "public image" or "bootstrapped"


def source(client: docker.DockerClient, pinned: str, say: Say) -> Source:
    """The pinned image, pulled if need be; else a Debian bootstrapped here. Raises ImageMissing."""
    if present(client, pinned):
        return Source(pinned, "public image")
    say(f"images   pulling {pinned}")
    try:
        pull(client, pinned)
    except ImageMissing as error:
        say(f"images   {error.what}")
        bootstrap(client, pinned, say)
        return Source(BOOTSTRAPPED, "bootstrapped")
    return Source(pinned, "public image")


def present(client: docker.DockerClient, reference: str) -> bool:
    try:
        client.images.get(reference)
    except docker.errors.ImageNotFound:
        return False
    return True


def pull(
    client: docker.DockerClient,
    reference: str,
    silence_s: float = PULL_SILENCE_S,
    timeout_s: float = PULL_TIMEOUT_S,
) -> None:
    """Let the engine pull an image. Raises ImageMissing with the engine's reason, or when it says nothing for long.

    Not the SDK's `pull`, which waits for ever on an engine whose registry does not answer.
    """
    repository, _, tag = reference.partition(":")
    url = f"{client.api.base_url}/v{client.api.api_version}/images/create"
    query = {"fromImage": repository, "tag": tag}
    until = time.monotonic() + timeout_s
    try:
        with client.api.post(url, params=query, stream=True, timeout=silence_s) as response:
            for line in response.iter_lines():
                event = json.loads(line)
                if why := event.get("error") or event.get("message"):
                    raise ImageMissing(f"{reference} cannot be pulled: {why}")
                if time.monotonic() > until:
                    raise ImageMissing(f"{reference} cannot be pulled: not done after {timeout_s:.0f} s")
    except requests.exceptions.RequestException as error:
        raise ImageMissing(f"{reference} cannot be pulled: nothing heard for {silence_s:g} s ({error})") from error
    if not present(client, reference):
        raise ImageMissing(f"{reference} is not there although the engine has pulled it")


def bootstrap(client: docker.DockerClient, pinned: str, say: Say) -> None:
    """Make a Debian from this machine's own package sources and import it as BOOTSTRAPPED. Raises ImageMissing."""
    if present(client, BOOTSTRAPPED):
        return
    todo = f"Let the engine reach a registry, or give it the image: `docker load` one that holds {pinned}."
    if ARCHITECTURES.get(platform.machine(), platform.machine()) != client.version()["Arch"]:
        raise ImageMissing(f"no {pinned}, and the engine's architecture is not this machine's: no bootstrap", todo)
    if shutil.which("mmdebstrap") is None:
        if not can_install_packages():
            raise ImageMissing(f"no {pinned}, and no mmdebstrap on this machine to make one in its place", todo)
        say("images   installing mmdebstrap")
        install_packages(["mmdebstrap"])
    say(f"images   making a Debian {SUITE} from this machine's package sources instead (about 20 s)")
    with tempfile.TemporaryDirectory(prefix="crashlab-") as folder:
        root = Path(folder) / "root.tar"
        try:
            run(["mmdebstrap", "--variant=apt", f"--include={INCLUDE}", SUITE, str(root)], BOOTSTRAP_TIMEOUT_S)
        except LabError as error:
            raise ImageMissing(f"no {pinned}, and its bootstrap failed: {error.what}", todo) from error
        repository, _, tag = BOOTSTRAPPED.partition(":")
        client.api.import_image_from_file(str(root), repository=repository, tag=tag, changes=['CMD ["bash"]'])
    if not present(client, BOOTSTRAPPED):
        raise ImageMissing(f"the engine did not import {BOOTSTRAPPED}", todo)
