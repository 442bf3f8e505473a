"""Bad input and bad luck around a run: one clear error, the right exit code, no traceback, nothing left."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from command import LAB, NOTES, lab, notes
from remains import LABEL

from lab.cli import main as cli
from lab.engine import services

pytestmark = pytest.mark.docker

ROOT = os.geteuid() == 0
# Everything is imported before the rights go: the interpreter itself may lie where only root can read.
GC_AS_NOBODY = """
import os, sys, lab.engine.gc, lab.engine.client
from lab.cli.main import main
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.argv = ["lab", "gc"]
main()
"""


def runs_here(engine: docker.DockerClient) -> set[str]:
    """The runs that the engine has something of."""
    containers = engine.api.containers(all=True, filters={"label": LABEL})
    volumes = engine.api.volumes(filters={"label": LABEL})["Volumes"] or []
    return {thing["Labels"][LABEL] for thing in (*containers, *volumes)}


@pytest.mark.parametrize("words", [notes(), ("doctor",), ("gc",), ("bench",), ("hooks", "kernel")], ids=lambda w: w[0])
def test_no_engine_is_one_clear_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Planted: the SDK's traceback of four nested exceptions."""
    ended = lab(tmp_path, *words, environment={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert ended.code == 3
    assert "no Docker engine answers at unix:///nowhere/docker.sock" in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / ".lab").exists()


def test_no_permission_on_the_socket_says_so(tmp_path: Path) -> None:
    """Planted: "no engine" where there is one, and a person installs a second."""
    with socket.socket(socket.AF_UNIX) as listening:
        place = Path("/tmp") / f"lab-test-{os.getpid()}.sock"
        listening.bind(str(place))
        listening.listen()
        place.chmod(0o600 if ROOT else 0)
        try:
            ended = subprocess.run(
                [sys.executable, "-c", GC_AS_NOBODY],
                env={**os.environ, "DOCKER_HOST": f"unix://{place}"},
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
        finally:
            place.unlink()
    assert ended.returncode == 3, ended
    assert "no permission on the Docker engine's socket" in ended.stderr
    assert "Add yourself to the group `docker`" in ended.stderr


def changed_subject(tmp_path: Path, old: str, new: str) -> str:
    """The example subject with one thing changed in its subject.toml."""
    place = tmp_path / "notes"
    shutil.copytree(NOTES.parent, place)
    text = (place / "subject.toml").read_text()
    assert old in text
    text = text.replace('"build:../notes-verifier"', f'"build:{NOTES.parent.parent / "notes-verifier"}"')
    (place / "subject.toml").write_text(text.replace(old, new))
    return str(place / "subject.toml")


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ('"build:."', '"lab-no-such-image:1"', 3, "image lab-no-such-image:1 is not on the engine"),
        ('"build:."', '"build:nowhere"', 64, "no Dockerfile in"),
        ('["notes", "run"]', '["no-such-command"]', 3, "no-such-command"),
        ('["notes", "run"]', '["false"]', 3, "exit code 1 while preparing its state; it printed nothing"),
        ('["notes", "run"]', '["sleep", "600"]', 3, "did not finish the workload that prepares its state"),
        ("[hooks]", "[hooks]\ncolour = 1", 64, "hooks.colour: unknown key"),
    ],
    ids=["image", "folder", "command", "fails", "hangs", "key"],
)
def test_a_subject_that_cannot_run_is_an_error_and_leaves_nothing(
    engine: docker.DockerClient, tmp_path: Path, old: str, new: str, code: int, says: str
) -> None:
    """Planted: a stranger's image pulled; a run without a single trial; services left behind by an early error."""
    before = runs_here(engine)
    subject = changed_subject(tmp_path, old, new)
    text = Path(subject).read_text()
    Path(subject).write_text(text.replace("hook      = 10", "hook      = 2"))
    ended = lab(tmp_path, "run", "matrix", "--subject", subject, "--points", "4", "--storage", "tmpfs")
    assert ended.code == code, ended
    assert says in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / ".lab").exists()
    mine = runs_here(engine) - before
    assert lab(tmp_path, "gc").code == 0
    assert not {run for run in mine if run in runs_here(engine) and _agentless(engine, run)}


def _agentless(engine: docker.DockerClient, run: str) -> bool:
    """Not another lab that works on this engine at the same time."""
    return not engine.api.containers(filters={"label": [f"{LABEL}={run}", "crashlab.role=agent"]})


def test_a_layer_that_cannot_be_mounted_is_an_error_and_is_never_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planted: the layer left out of the plan; two green layers then look like three. The kernel's own refusal, for
    the agent is given no right to mount."""
    rights = [right for right in services.AGENT_HOST_CONFIG["cap_add"] if right != "SYS_ADMIN"]
    monkeypatch.setitem(services.AGENT_HOST_CONFIG, "cap_add", rights)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["lab", *notes("--points", "4", "--storage", "tmpfs,ext4")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert "cannot be had on this engine" in said.err
    assert "`lab doctor` tries each layer" in said.err
    assert not (tmp_path / ".lab").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "20200101-000000-beef"), "no run '20200101-000000-beef'"),
        (("resume", "latest"), "no run 'latest'"),
        (("verify", ""), "no run ''"),
        (("report", "../.."), "no run '../..'"),
        (notes("--storage", "floppy"), "no storage layer 'floppy'"),
        (notes("--storage", "tmpfs,tmpfs"), "a storage layer is named twice"),
        (notes("--bug", "no-such-bug"), "has no planted bug 'no-such-bug'"),
        (notes("--points", "0"), "0 is not in the range"),
        (notes("--shard", "3/2"), "1 <= i <= n"),
        (("run", "matrix", "--subject", "no-such-subject"), "no subject 'no-such-subject'"),
        (("run", "matrix", "--subject", "/nowhere/subject.toml"), "cannot read /nowhere/subject.toml"),
        (("dance",), "No such command 'dance'"),
    ],
    ids=lambda value: "-".join(value).replace("/", "_")[-40:] if isinstance(value, tuple) else None,
)
def test_bad_usage_is_exit_code_64_before_anything_is_made(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    """Planted: usage errors that exit with 2, which means "not enough evidence"."""
    ended = lab(tmp_path, *words)
    assert ended.code == 64, ended
    assert says in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / ".lab").exists()


@pytest.mark.parametrize("size_kb", [16, 160, 400])
def test_a_full_disk_for_the_record_is_a_clear_error_and_leaves_nothing(
    engine: docker.DockerClient, tmp_path: Path, size_kb: int
) -> None:
    """Planted: a traceback; or trials that run on although no result can be kept. Full at the inputs, at the census,
    and in the middle of the trials."""
    before = runs_here(engine)
    (tmp_path / ".lab").mkdir()
    unshare = ["unshare", "--mount"] if ROOT else ["unshare", "--mount", "--map-root-user"]
    words = notes("--points", "30", "--storage", "tmpfs", "--evidence", "all")
    script = f'mount -t tmpfs -o size={size_kb}k none .lab && exec "$@"'
    ended = subprocess.run(
        [*unshare, "sh", "-c", script, "sh", str(LAB), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 3, ended
    assert "Traceback" not in ended.stderr
    assert "No space left on device" in ended.stderr
    assert "Is the disk full?" in ended.stderr
    assert not {run for run in runs_here(engine) - before if _agentless(engine, run)}
