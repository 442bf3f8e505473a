"""What the lab's base image is built FROM: the image that the user names, or one of a pinned Debian release.

The pinned public image, or the same release made of Debian packages by `.ci/base`, where no registry is reached. Which
one a base image stands on is written in its label `crashlab.base`.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass

import docker
import docker.auth
import docker.errors
import requests
from docker.utils import parse_repository_tag

from lab.engine.errors import DeadlinePassed, ImageMissing
from lab.engine.host import Say
from lab.engine.request import Post, pieces

CHOICE = "LAB_BASE"  # the variable that names another image
MADE = "lab/bootstrapped:bookworm"  # by .ci/base: the release of the pinned image
PULL_SILENCE_S = 30.0  # an engine that reaches its registry reports progress several times a second
PULL_TIMEOUT_S = 600.0  # 30 MB over a slow line
TODO = f"`.ci/base` makes one of Debian packages, on Debian as root; or name one that you have: {CHOICE}=IMAGE."


@dataclass(frozen=True)
class Source:
    """An image on the engine that the base can be built from, and how it came to be the one."""

    reference: str
    origin: str  # "chosen", "bootstrapped" or "public image"


def source(
    client: docker.DockerClient, pinned: str, chosen: str | None, say: Say, stop: threading.Event | None
) -> Source:
    """The chosen image; else the one that `.ci/base` made, if it did; else the pinned one. Pulled if it is not there.

    Raises ImageMissing with what a person can do, and Interrupted.
    """
    if chosen is None and present(client, MADE):
        return Source(MADE, "bootstrapped")
    found = Source(chosen, "chosen") if chosen else Source(pinned, "public image")
    if not present(client, found.reference):
        say(f"images   pulling {found.reference}")
        pull(client, found.reference, stop)
    return found


def present(client: docker.DockerClient, reference: str) -> bool:
    try:
        client.images.get(reference)
    except docker.errors.ImageNotFound:
        return False
    return True


def pull(
    client: docker.DockerClient, reference: str, stop: threading.Event | None = None, silence_s: float = PULL_SILENCE_S
) -> None:
    """Let the engine pull an image. Raises ImageMissing with the engine's reason, or when it says nothing for long.

    Not the SDK's `pull`, which waits for ever on an engine whose registry does not answer.
    """
    repository, tag = parse_repository_tag(reference)
    registry, _ = docker.auth.resolve_repository_name(repository)
    credentials = docker.auth.get_config_header(client.api, registry)
    headers = {"X-Registry-Auth": credentials.decode()} if credentials else {}
    query = {"fromImage": repository, "tag": tag or "latest"}
    post = Post("/images/create", query, headers, b"", f"pulling {reference}", silence_s, PULL_TIMEOUT_S)
    try:
        with contextlib.closing(pieces(client, post, stop)) as events:
            for event in events:
                if why := event.get("error") or event.get("message"):
                    raise _not_pulled(reference, why)
    except DeadlinePassed as error:
        raise _not_pulled(reference, error.what) from error
    except requests.exceptions.RequestException as error:
        raise _not_pulled(reference, f"nothing heard for {silence_s:g} s ({error})") from error
    if not present(client, reference):
        raise _not_pulled(reference, "it is not there although the engine has pulled it")


def _not_pulled(reference: str, why: str) -> ImageMissing:
    return ImageMissing(f"{reference} is not on the engine and cannot be pulled: {why}", TODO)
