"""Which engine is refused before anything is asked of it; and which lock the labs of one engine share."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from lab.engine.client import connect
from lab.engine.errors import EngineUnavailable
from lab.engine.host import engine_lock, locked

# What Podman 4.3.1 says of itself on Docker's /version, in part.
PODMAN = b"""{"Platform": {"Name": "linux/amd64/debian-12"},
"Components": [{"Name": "Podman Engine", "Version": "4.3.1"}],
"Version": "4.3.1", "ApiVersion": "1.41", "MinAPIVersion": "1.24"}"""


class Podman(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(PODMAN)))
        self.end_headers()
        self.wfile.write(PODMAN)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An engine on a unix socket that answers as Podman does."""
    path = tmp_path / "podman.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Podman) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield
        server.shutdown()


@pytest.mark.usefixtures("podman")
def test_podman_is_refused_by_its_name_at_once() -> None:
    """Reported: it was taken for "Docker 4.3.1", and failed after minutes."""
    with pytest.raises(EngineUnavailable, match=r"podman\.sock is Podman 4\.3\.1, which the lab does not support"):
        connect()


def test_a_lock_belongs_to_one_engine_and_follows_no_link(tmp_path: Path) -> None:
    """Reported: one lock per user, so that two engines waited for each other and two users did not."""
    assert engine_lock("A:B", "images") != engine_lock("A:C", "images")
    assert engine_lock("A:B", "images").name == "crashlab-A-B-images.lock"
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "lock", 0.0, print):
        pass
    assert target.read_text() == "kept"
