"""The walk-through for users: what it shows in another language is a subject like any other."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from command import NOTES, folder, lab, summary

pytestmark = pytest.mark.docker

GUIDE = Path(__file__).parents[2] / "docs" / "bring-your-own.md"
FUZZ = GUIDE.with_name("fuzz.md")


def test_the_shell_script_of_the_guide_passes_as_a_subject(tmp_path: Path) -> None:
    """Planted: a snippet that nobody ran; and a lab that only a Python program can talk to."""
    script = re.search(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert script is not None
    place = tmp_path / "notes-in-sh"
    shutil.copytree(NOTES.parent, place)
    (place / "notes.sh").write_text(script[1])
    (place / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY notes.sh /notes.sh\n")
    text = (place / "subject.toml").read_text()
    for command in ("run", "recover"):
        text = text.replace(f'["notes", "{command}"]', f'["sh", "/notes.sh", "{command}"]')
    text = text.replace("build:../notes-verifier", f"build:{NOTES.parents[1] / 'notes-verifier'}")
    text = text.partition("[bugs]")[0]
    (place / "subject.toml").write_text(text)
    ended = lab(tmp_path, "run", "matrix", "--subject", str(place), "--points", "9", "--storage", "overlay")
    assert ended.code == 0, ended
    run = folder(tmp_path)
    assert run is not None
    assert (summary(run)["trials"], summary(run)["verdicts"]["pass"]) == (9, 9)
    hooks = summary(run)["hooks"]
    assert (hooks["expected"], hooks["covered"], hooks["never"]) == (8, 8, [])


def test_every_file_that_the_guide_links_to_is_there() -> None:
    """Planted: a guide to files that were renamed."""
    for page in (GUIDE, FUZZ):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_daemon_of_the_fuzz_page_passes_and_its_planted_bug_is_caught(tmp_path: Path) -> None:
    """Every file of the page as it stands there. Planted: its bug, and a page whose program nobody ran."""
    parts = re.findall(r"^### [^\n]*`([\w.]+)`\n+```\w*\n(.*?)```", FUZZ.read_text(), re.DOTALL | re.MULTILINE)
    place = tmp_path / "drafts"
    place.mkdir()
    for name, text in parts:
        (place / name).write_text(text)
    assert {"Dockerfile", "drafts.py", "subject.toml", "fuzz.toml", "hooks.toml", "bugs.toml"} <= {n for n, _ in parts}
    asked = ("run", "fuzz", "--subject", str(place), "--seed", "1", "--workers", "2", "--shrink", "0")
    ended = lab(tmp_path, *asked, "--trials", "3")
    assert ended.code == 0, ended
    run = folder(tmp_path)
    assert run is not None
    assert (summary(run)["trials"], summary(run)["kills"] > 6) == (3, True)
    bug = re.search(r'name *= *"(.*)"', dict(parts)["bugs.toml"])
    assert bug is not None
    assert lab(tmp_path, *asked, "--bug", bug[1]).code == 1
