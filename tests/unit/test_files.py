"""Files that a stranger may have prepared: only regular ones are read, no link is followed, nothing is half written."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from run_folder import disk_full_after

from lab.files import Folder, read_given


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's, outside the run's folder."""
    path = tmp_path / "victim"
    path.write_bytes(b"mine\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "run"
    path.mkdir()
    return Folder(path)


def test_a_file_the_user_names_is_read_through_a_link(tmp_path: Path, victim: Path) -> None:
    """A workload may lie where the user likes."""
    (tmp_path / "link").symlink_to(victim)
    assert read_given(tmp_path / "link", 5) == b"mine\n"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
        (lambda path: path.symlink_to(path), "is a symbolic link"),
        (lambda path: os.mkfifo(path), "is not a regular file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "No such device"),
        (lambda path: path.write_bytes(b"123456"), "is larger than 5 bytes"),
        (lambda path: None, "No such file"),
    ],
    ids=["endless device", "loop", "fifo", "folder", "socket", "too large", "nothing"],
)
def test_what_is_no_small_regular_file_is_refused_with_its_name(tmp_path: Path, make: object, why: str) -> None:
    """Planted: /dev/zero as a workload was read for ever; a FIFO waits for a writer that never comes."""
    path = tmp_path / "f"
    make(path)  # type: ignore[operator]
    with pytest.raises(OSError) as caught:
        read_given(path, 5)
    assert why in str(caught.value.strerror)
    assert caught.value.filename == str(path)


def test_a_nul_in_a_path_is_no_path(tmp_path: Path) -> None:
    """Planted: ValueError, embedded null byte, as a traceback."""
    with pytest.raises(OSError, match="is no path"):
        read_given(tmp_path / "a\0b", 5)


def test_what_is_written_is_read_back_and_nothing_else_is_left(folder: Folder) -> None:
    """Folders on the way are made, a second write replaces the first, no staged file stays."""
    folder.write("evidence/0001/a.json", b"one")
    folder.write("evidence/0001/a.json", b"two")
    assert folder.read("evidence/0001/a.json") == b"two"
    assert folder.has("evidence/0001/a.json")
    assert not folder.has("evidence/0001")
    assert not folder.has("evidence/0002/a.json")
    assert names(folder.path / "evidence" / "0001") == ["a.json"]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../victim", "a/../../victim", "a//b", ".", "evidence/."])
def test_a_name_that_leads_out_of_the_folder_is_refused(folder: Folder, victim: Path, name: str) -> None:
    """A journal names the folder of a trial's evidence, and a journal may come from a stranger."""
    for use in (folder.read, lambda n: folder.write(n, b"x"), lambda n: folder.append(n, b"x")):
        with pytest.raises(OSError, match="is no name below the folder"):
            use(name)
    assert not folder.has(name)
    assert victim.read_bytes() == b"mine\n"


def uses(folder: Folder, name: str) -> list[object]:
    """Everything that opens a file of that name."""

    def lock() -> None:
        with folder.locked(name):
            pass

    return [
        lambda: folder.read(name),
        lambda: list(folder.lines(name)),
        lambda: folder.append(name, b"x"),
        lambda: folder.cut_torn_line(name),
        lock,
    ]


def test_no_link_inside_the_folder_is_followed(folder: Folder, victim: Path) -> None:
    """Planted: a link named `lock` truncated its target; one in place of a folder would do as well."""
    (folder.path / "lock").symlink_to(victim)
    (folder.path / "away").symlink_to(victim.parent)
    for name, why in (("lock", "is a symbolic link"), ("away/victim", "Not a directory")):
        assert not folder.has(name)
        for use in uses(folder, name):
            with pytest.raises(OSError, match=why) as caught:
                use()  # type: ignore[operator]
            assert caught.value.filename == str(folder.path / name)
    with pytest.raises(OSError, match="Not a directory"):
        folder.write("away/victim", b"x")
    assert victim.read_bytes() == b"mine\n"


def test_a_write_replaces_a_link_and_leaves_its_target(folder: Folder, victim: Path) -> None:
    """Planted: `.report.html.new`, prepared as a link, was written through."""
    for name in ("report.html", ".report.html.new"):
        (folder.path / name).symlink_to(victim)
    folder.write("report.html", b"report")
    assert not (folder.path / "report.html").is_symlink()
    assert folder.read("report.html") == b"report"
    assert victim.read_bytes() == b"mine\n"


def test_a_fifo_is_refused_and_not_waited_for(folder: Folder) -> None:
    """`lab show` must not hang on a folder that somebody sent."""
    os.mkfifo(folder.path / "journal.jsonl")
    assert not folder.has("journal.jsonl")
    for use in uses(folder, "journal.jsonl"):
        with pytest.raises(OSError, match=r"is not a regular file|No such device"):
            use()  # type: ignore[operator]


def test_a_full_disk_leaves_the_file_as_it_was(folder: Folder) -> None:
    """Whole or not at all, for a file that is replaced and for one that grows."""
    folder.write("a", b"old")
    folder.append("j", b"line 1\n")
    with disk_full_after(4096):
        for use in (folder.write, folder.append):
            with pytest.raises(OSError, match="File too large"):
                use({folder.write: "a", folder.append: "j"}[use], b"x" * 100_000)
    assert folder.read("a") == b"old"
    assert folder.read("j") == b"line 1\n"
    assert names(folder.path) == ["a", "j"]


def test_a_torn_last_line_is_cut_and_whole_lines_are_read(folder: Folder) -> None:
    """A killed lab leaves one; its next line must not go on where it broke off."""
    folder.append("j", b"one\ntwo\n" + b"x" * 3_000_000)
    assert list(folder.lines("j")) == [b"one", b"two"]
    folder.cut_torn_line("j")
    folder.append("j", b"three\n")
    assert folder.read("j") == b"one\ntwo\nthree\n"
    folder.write("j", b"torn")
    folder.cut_torn_line("j")
    assert folder.read("j") == b""


def test_a_line_without_end_is_bounded(folder: Folder) -> None:
    """A journal of one line of a gigabyte."""
    folder.write("j", b"short\n" + b"x" * 5000)
    with pytest.raises(OSError, match="has a line larger than 1 KiB"):
        list(folder.lines("j", 1024))


def test_a_lock_is_held_by_one(folder: Folder) -> None:
    """Two labs must not work on one run; what the lock file holds stays."""
    folder.write("lock", b"text")
    with folder.locked("lock"), pytest.raises(BlockingIOError), folder.locked("lock"):
        pass
    with folder.locked("lock"):
        assert folder.read("lock") == b"text"
