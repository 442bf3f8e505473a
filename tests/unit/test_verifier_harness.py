"""The verifier as a process: its protocol, its bounds, and that no failure of its own can pass for a verdict."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from checkers import PACKAGES, launch
from kernel_states import finished
from verifier import tree

LAUNCH = launch(PACKAGES["kernel"])


def verify(data: Path, *requests: Any, name: str = "kernel") -> list[dict[str, Any]]:
    """Every line that a verifier answers, its hello first."""
    lines = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in requests)
    command = [sys.executable, "-IS", "-c", LAUNCH, name]
    done = subprocess.run(
        command, input=lines, env={"LAB_DATA": str(data)}, capture_output=True, text=True, timeout=20, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A finished kernel's files on disk."""
    for path, content in finished().files(clean=True).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return tmp_path


def test_it_says_who_it_is_looks_and_gives_a_copy_that_can_be_judged_again(volume: Path) -> None:
    """The whole protocol: hello, look, copy, and a look at the copy where nothing is mounted."""
    look = finished().ask_look("end")
    hello, first, copied, nothing = verify(volume, look, {"ask": "copy", "n": 1}, {"ask": "copy", "n": 2})
    assert (hello["verifier"], len(hello["version"])) == ("kernel", 12)
    assert all(p["differs"] is None and p["facts"] > 0 for p in first["properties"].values())
    assert "no look 2" in nothing["error"]
    _, again = verify(Path("/nowhere"), {**look, "volume": copied["volume"]})
    assert again["properties"] == first["properties"]


def test_its_mount_line_is_the_one_of_the_data_path() -> None:
    """The filesystem is read from inside, by the mount point and not by a prefix of it."""
    assert verify(Path("/proc"))[0]["mount"].split(" ")[4] == "/proc"
    assert verify(Path("/proc/self"))[0]["mount"] == ""


@pytest.mark.parametrize(
    "request_",
    [
        "",
        "nonsense",
        "[]",
        {"ask": "look"},
        {"ask": "look", "look": "later"},
        {"ask": "dance"},
        {"ask": "copy", "n": 9},
    ],
)
def test_what_it_cannot_do_is_an_error_and_it_goes_on(volume: Path, request_: Any) -> None:
    """A verifier that is silent, or ends, would be taken for a slow one."""
    answers = verify(volume, request_, finished().ask_look("end"))
    assert "error" in answers[1]
    assert "properties" in answers[2]


def test_a_workload_it_cannot_read_is_an_error_and_no_verdict(volume: Path) -> None:
    """The controller's fault must not look like the subject's."""
    look = finished().ask_look("end")
    for broken in ({"kind": "other"}, {**look["workload"], "tasks": look["prepared"]["workload"]["tasks"]}):
        assert "properties" not in verify(volume, {**look, "workload": broken})[1]


def test_a_volume_that_is_not_there_is_an_error() -> None:
    """An unmounted volume must never be judged as an empty one."""
    assert "FileNotFoundError" in verify(Path("/nowhere"), finished().ask_look("end"))[1]["error"]


def test_an_unknown_verifier_is_said_so() -> None:
    """A typing error in subject.toml."""
    done = subprocess.run(
        [sys.executable, "-IS", "-c", LAUNCH, "kernal"], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 64
    assert "no verifier 'kernal'" in done.stderr


def test_links_and_sockets_are_not_followed(tmp_path: Path) -> None:
    """A subject must not lead the verifier out of the volume, nor make it wait at a pipe."""
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "lost+found" / "1").write_bytes(b"x")
    subprocess.run(["mkfifo", str(tmp_path / "pipe")], check=True, timeout=5)
    assert tree.read(str(tmp_path)) == {"file": b"x"}


def test_a_volume_that_is_too_large_is_an_error_in_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is bounded: a sparse file of a terabyte costs nothing to make."""
    with (tmp_path / "big").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(tree.TooLarge):
        tree.read(str(tmp_path))
    packed = tree.pack({"a": b"x" * 2000})
    monkeypatch.setattr(tree, "LIMIT", 1000)
    with pytest.raises(tree.TooLarge):
        tree.unpack(packed)


def test_a_copy_is_the_tree_and_nothing_else_is_unpacked() -> None:
    """Links in a copy are not followed, and what is no archive is said to be none."""
    files = {"log/1.seg": b"\0\1", "b": b""}
    assert tree.unpack(tree.pack(files)) == files
    assert tree.pack(files) == tree.pack(dict(reversed(files.items())))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert tree.unpack(base64.b64encode(made.getvalue()).decode()) == {}
    for wrong in ("%", base64.b64encode(b"no archive").decode(), tree.pack(files)[:40]):
        with pytest.raises(ValueError, match=r"no base64 of a tar\.gz"):
            tree.unpack(wrong)


def test_looks_are_kept_once_and_forgotten_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three looks see mostly the same bytes; one that does not fit is answered with null."""
    from verifier.main import Looks

    looks = Looks(lambda files, request: {}, "/nowhere")

    def look(content: bytes) -> Any:
        request = {"ask": "look", "look": "end", "volume": tree.pack({"a": content})}
        return looks.answer(json.dumps(request).encode())

    monkeypatch.setattr(tree, "LIMIT", 1000)
    for content in (b"x" * 600, b"x" * 600, b"y" * 600):
        assert "properties" in look(content)
    volumes = [looks.answer(b'{"ask":"copy","n":%d}' % n)["volume"] for n in (1, 2, 3)]
    assert volumes[0] == volumes[1] == tree.pack({"a": b"x" * 600})
    assert volumes[2] is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"look": "later"},
        {"history": -1},
        {"history": True},
        {"history": None},
        {"volume": "no archive"},
        {"volume": 7},
    ],
)
def test_a_look_that_cannot_have_been_is_not_remembered(wrong: dict[str, Any]) -> None:
    """Half of it kept, and every later look would be compared with one that nobody took."""
    from verifier.main import Looks

    looks = Looks(lambda files, request: {"earlier": len(request["earlier"])}, "/nowhere")
    memory = {"ask": "remember", "look": "killed", "history": 3, "volume": None}
    assert "error" in looks.answer(json.dumps(memory | wrong).encode())
    look = json.dumps({"ask": "look", "look": "end", "volume": tree.pack({})}).encode()
    assert looks.answer(look)["properties"] == {"earlier": 0}
    assert looks.answer(json.dumps(memory).encode()) == {}
    assert looks.answer(b'{"ask":"copy","n":2}') == {"volume": None}  # as it was told: too large to be kept
