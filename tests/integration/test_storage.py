"""Fresh volumes really made, mounted by the engine, used as another user, and gone without a trace."""

from __future__ import annotations

import base64
import io
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import docker
import pytest

from lab.engine import images
from lab.engine.client import connect
from lab.engine.container import Container, Mount, Spec
from lab.engine.errors import LabError, ServiceFailed, StorageUnavailable
from lab.engine.removal import remove_volume
from lab.engine.services import AGENT_HOST_CONFIG, Service, pool_volume, storage_agent
from lab.engine.stream import LineParser, RecordParser
from lab.storage import Backend, Layer, Provisioner, Volume, find, layers, names, register
from lab.storage.layers import MKFS_EXT4

pytestmark = pytest.mark.docker

UID = 1000
OWNER = {"uid": UID, "gid": UID}
LABEL = {"crashlab.test": "storage"}
BACKING = "cat /sys/block/loop*/loop/backing_file 2>/dev/null || true"


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> str:
    return images.ensure_folders(client, {"storage": images.SYSTEM / "storage"}, print)["storage"]


@pytest.fixture
def run() -> str:
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def agent(client: docker.DockerClient, run: str, image: str) -> Iterator[Service]:
    with storage_agent(client, run, image, LABEL) as service:
        yield service


@pytest.fixture
def backend(client: docker.DockerClient, agent: Service, run: str) -> Backend:
    return Backend(client, agent, pool_volume(run), LABEL, UID)


@pytest.fixture(params=sorted(names()))
def layer(request: pytest.FixtureRequest, backend: Backend) -> Provisioner:
    layer = Provisioner(find(request.param), backend)
    layer.prepare(tar_of({"log/1.seg": b"sealed", "pages.db": b"pages"}))
    return layer


def tar_of(files: dict[str, bytes], *others: tarfile.TarInfo) -> bytes:
    """As the engine gives it: entries relative to the volume's root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info in [entry("./", tarfile.DIRTYPE, 0o755), entry("./log/", tarfile.DIRTYPE, 0o700), *others]:
            tar.addfile(info)
        for name, content in files.items():
            info = entry(f"./{name}", tarfile.REGTYPE, 0o600)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def entry(name: str, kind: bytes, mode: int, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    info.uid = info.gid = UID
    return info


@contextmanager
def fresh(layer: Provisioner, name: str | None = None) -> Iterator[Volume]:
    volume = layer.fresh(name or f"lab-test-{uuid.uuid4().hex[:8]}")
    try:
        yield volume
    finally:
        layer.destroy(volume)


@contextmanager
def holder(client: docker.DockerClient, image: str, volume: str) -> Iterator[Any]:
    """A container that keeps a volume mounted."""
    container = client.containers.run(
        image, ["sleep", "60"], detach=True, network_mode="none", labels=LABEL, volumes=[f"{volume}:/data"]
    )
    try:
        yield container
    finally:
        container.remove(force=True)


def shell(client: docker.DockerClient, image: str, script: str, volume: str | None = None) -> str:
    """What a script prints that runs as a subject does: another user, no capability. Raises if it fails."""
    spec = Spec(
        image=image, command=["sh", "-euc", script], name=f"lab-test-{uuid.uuid4().hex[:8]}", labels=LABEL,
        user=f"{UID}:{UID}", network="none", mounts=[Mount(volume, "/data")] if volume else [],
    )  # fmt: skip
    parser = RecordParser("none")
    container = Container(client, spec, parser)
    try:
        container.start()
        container.wait(20)
        container.stream.wait_ended(5, "a script's last words")
        assert container.state().exit_code == 0, parser.log.text()
        return parser.log.text()
    finally:
        container.remove()


def backing_files(client: docker.DockerClient, image: str) -> set[str]:
    """What every loop device of the engine's machine is backed by, ours or not."""
    return set(shell(client, image, BACKING).splitlines())


def test_a_fresh_volume_is_the_asked_filesystem_and_belongs_to_the_subject(
    client: docker.DockerClient, image: str, layer: Provisioner
) -> None:
    """Reported: a fresh ext4 is root's, and a subject gets EACCES; a volume may silently be the engine's own disk."""
    with fresh(layer) as volume:
        said = shell(
            client, image, "echo x > /data/new; ls -A /data | tr '\\n' ' '; stat -c %u:%g:%a /data; "
            "grep ' /data ' /proc/self/mountinfo", volume.name,
        )  # fmt: skip
        listing, line = said.splitlines()
        there = {"template": "log new pages.db", "archive": "new"}[layer.fill]
        assert listing == f"{there} {UID}:{UID}:755"
        assert volume.audit(line) is None
        assert "not" in (volume.audit(line.replace(f"- {layer.filesystem} ", "- xfs ")) or "")


@pytest.mark.parametrize("layer", ["ext4", "ext4:journal", "overlay"], indirect=True)
def test_volumes_start_from_the_same_state_and_share_nothing(
    client: docker.DockerClient, image: str, layer: Provisioner
) -> None:
    """A trial that saw another's files would judge the wrong kernel."""
    change = "mv /data/log/1.seg /data/log/2.seg; rm /data/pages.db; cat /data/log/2.seg"
    look = "cat /data/log/1.seg /data/pages.db; stat -c %a /data/log/1.seg"
    with fresh(layer) as one, fresh(layer) as two:
        assert shell(client, image, change, one.name) == "sealed"
        assert shell(client, image, look, two.name) == "sealedpages600\n"
    with fresh(layer) as three:
        assert shell(client, image, look, three.name) == "sealedpages600\n"


@pytest.mark.parametrize("layer", ["tmpfs"], indirect=True)
def test_a_tmpfs_is_filled_through_a_container_while_another_holds_it(
    client: docker.DockerClient, image: str, layer: Provisioner
) -> None:
    """What `fill = "archive"` asks of a trial."""
    with fresh(layer) as volume, holder(client, image, volume.name):
        through = client.containers.create(image, ["true"], network_mode="none", volumes=[f"{volume.name}:/data"])
        try:
            assert through.put_archive("/data", tar_of({"log/1.seg": b"sealed"}))
        finally:
            through.remove(force=True)
        assert shell(client, image, "cat /data/log/1.seg; stat -c %u:%a /data/log", volume.name) == "sealed1000:700\n"


@pytest.mark.parametrize("layer", ["ext4", "ext4:journal", "overlay"], indirect=True)
def test_what_the_engine_hands_out_as_an_archive_can_be_prepared(
    client: docker.DockerClient, image: str, layer: Provisioner
) -> None:
    """The prepared state comes out of a tmpfs, from a container that runs as the subject, and goes into every layer."""
    source = Provisioner(find("tmpfs"), layer.backend)
    with fresh(source) as volume, holder(client, image, volume.name) as container:
        shell(
            client,
            image,
            "mkdir -m 700 /data/log; echo -n made > /data/log/2.seg; ln -s log/2.seg /data/l",
            volume.name,
        )
        chunks, _ = container.get_archive("/data/.")
        layer.prepare(b"".join(chunks))
    with fresh(layer) as volume:
        said = shell(client, image, "cat /data/l; stat -c %u:%a /data/log /data; ls -A /data", volume.name)
        assert said == "made1000:700\n1000:755\nl\nlog\n"


def test_a_destroyed_volume_leaves_nothing(client: docker.DockerClient, image: str, layer: Provisioner) -> None:
    """Loop devices are few, and 1,500 trials many."""
    before = layer.backend.agent.request({"do": "space"})
    with fresh(layer) as volume:
        shell(client, image, "dd if=/dev/zero of=/data/big bs=1M count=8 2>&1", volume.name)
    assert not [name for name in backing_files(client, image) if volume.name in name]
    assert not client.volumes.list(filters={"name": volume.name})
    after = layer.backend.agent.request({"do": "space"})
    assert after["images"] == before["images"]
    with fresh(layer, volume.name):
        pass


def test_a_volume_in_use_is_not_pulled_from_under_its_user(
    client: docker.DockerClient, image: str, backend: Backend, agent: Service
) -> None:
    """A detached device under a live subject would look like a broken disk. The agent says who is to blame."""
    layer = Provisioner(find("ext4"), backend)
    layer.prepare(tar_of({}))
    volume = layer.fresh(f"lab-test-{uuid.uuid4().hex[:8]}")
    with holder(client, image, volume.name) as container:
        with pytest.raises(ServiceFailed, match="still mounted; remove the containers"):
            agent.request({"do": "release", "name": volume.name})
        assert container.exec_run(["sh", "-c", "echo x > /data/x && sync"]).exit_code == 0
    remove_volume(client, volume.name)
    assert not [name for name in backing_files(client, image) if volume.name in name]


@pytest.mark.parametrize("how", ["killed", "left"])
def test_an_agent_that_is_gone_leaves_no_loop_device(client: docker.DockerClient, image: str, how: str) -> None:
    """Killed with -9 or left by its lab while the engine has its ext4 mounted: the device goes with the mount."""
    run = f"test-{uuid.uuid4().hex[:8]}"
    name = f"lab-test-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        agent = stack.enter_context(storage_agent(client, run, image, LABEL))
        layer = Provisioner(find("ext4"), Backend(client, agent, pool_volume(run), LABEL, UID))
        layer.prepare(tar_of({}))
        mounted, idle = layer.fresh(name), layer.fresh(f"{name}-idle")
        with holder(client, image, mounted.name) as container:
            assert len([b for b in backing_files(client, image) if name in b]) == 2
            if how == "killed":
                client.api.kill(agent.ident, "SIGKILL")
            stack.close()
            assert container.exec_run(["sh", "-c", "echo x > /data/x && sync"]).exit_code == 0
            assert len([b for b in backing_files(client, image) if name in b]) == 1
        assert not [b for b in backing_files(client, image) if name in b]
        for volume in (mounted, idle):
            remove_volume(client, volume.name)


RACE = """
import json, os, sys, time
from pathlib import Path
sys.path.insert(0, "/usr/local/lib/storage-agent")
import loop
start, me = time.monotonic() + 0.3, "child" if os.fork() == 0 else "parent"
loop.DEVICES = Path("/dev-lab", me)
loop.DEVICES.mkdir()
image = Path("/images", me)
image.write_bytes(bytes(65536))
for n in range(100):
    while time.monotonic() < start + n * 0.01:
        pass
    device = loop.attach(image, "ext4")
    had = time.monotonic()
    time.sleep(0.005)
    print(json.dumps({"device": device.number, "from": had, "until": time.monotonic()}), flush=True)
    device.detach()
me == "parent" and os.wait()
"""


def test_two_agents_that_ask_at_the_same_moment_get_two_devices(client: docker.DockerClient, image: str) -> None:
    """Two labs on one engine: the kernel tells both the same free number, and one of them has to ask again.

    The agent's own code in two processes that start each round together; between two agents it happens once in minutes.
    """
    spec = Spec(
        image=image, command=["python3", "-c", RACE], name=f"lab-test-{uuid.uuid4().hex[:8]}", labels=LABEL,
        user="0:0", network="none", extra_host_config={**AGENT_HOST_CONFIG, "auto_remove": False},
    )  # fmt: skip
    parser = LineParser()
    container = Container(client, spec, parser)
    try:
        container.start()
        container.wait(30)
        container.stream.wait_ended(5, "the race's last words")
        assert container.state().exit_code == 0 and not parser.log.text(), parser.log.text()
        assert len(parser.answers) == 200
        taken = sorted(parser.answers, key=lambda held: (held["device"], held["from"]))
        assert all(a["device"] != b["device"] or a["until"] < b["from"] for a, b in pairwise(taken))
    finally:
        container.remove()


def encoded(tar: bytes) -> str:
    return base64.b64encode(tar).decode()


def test_every_layer_can_be_probed_and_says_why_not(client: docker.DockerClient, image: str, backend: Backend) -> None:
    """`lab doctor`. Without the capability to mount, the kernel's own answer is the reason."""
    for name in names():
        Provisioner(find(name), backend).probe()
    weaker = {**AGENT_HOST_CONFIG, "cap_add": ["MKNOD", "CHOWN", "DAC_OVERRIDE", "FOWNER"], "auto_remove": False}
    spec = Spec(
        image=image, command=["storage-agent"], name=f"lab-test-{uuid.uuid4().hex[:8]}", labels=LABEL, user="0:0",
        network="none", mounts=[Mount(backend.pool, "/pool")], extra_host_config=weaker,
    )  # fmt: skip
    parser = LineParser()
    container = Container(client, spec, parser)
    try:
        container.start()
        agent = Service("storage agent", container.ident, container.stream, parser)
        for name in names():
            with pytest.raises(StorageUnavailable, match=f"{name} cannot be had.*Operation not permitted"):
                Provisioner(find(name), Backend(client, agent, backend.pool, LABEL, UID)).probe()
    finally:
        container.remove()


def test_images_are_not_promised_more_room_than_there_is(agent: Service) -> None:
    """Sparse images that outgrow their tmpfs give I/O errors to a subject that did nothing wrong."""
    recipe = replace(find("ext4"), size_bytes=1 << 30).recipe()
    agent.request({"do": "prepare", "layer": "ext4", "recipe": recipe, "tar": encoded(tar_of({})), **OWNER})
    before = agent.request({"do": "space"})["images"]
    agent.request({"do": "fresh", "layer": "ext4", "name": "one"})
    with pytest.raises(ServiceFailed, match="no room for one more ext4 of 1073741824 bytes"):
        agent.request({"do": "fresh", "layer": "ext4", "name": "two"})
    agent.request({"do": "release", "name": "one"})
    assert agent.request({"do": "space"})["images"] == before


@pytest.mark.parametrize("layer", ["ext4", "overlay"])
@pytest.mark.parametrize(
    ("tar", "why"),
    [
        (b"nonsense" * 200, "header"),
        (tar_of({"../up": b""}), "does not stay inside"),
        (tar_of({}, entry("/etc/x", tarfile.REGTYPE, 0o600)), "does not stay inside"),
        (tar_of({"door/x": b""}, entry("door", tarfile.SYMTYPE, 0o777, link="/etc")), "goes through a link"),
        (tar_of({}, entry("disk", tarfile.BLKTYPE, 0o666)), "neither file, folder nor link"),
    ],
)
def test_a_prepared_state_that_leaves_its_volume_is_refused(agent: Service, layer: str, tar: bytes, why: str) -> None:
    """The archive holds what a stranger's program wrote, and the agent is root."""
    recipe = find(layer).recipe()
    with pytest.raises(ServiceFailed, match=why):
        agent.request({"do": "prepare", "layer": layer, "recipe": recipe, "tar": encoded(tar), **OWNER})
    with pytest.raises(ServiceFailed, match="has been prepared yet"):
        agent.request({"do": "fresh", "layer": layer, "name": "x"})


def test_a_state_too_big_for_its_filesystem_is_said_to_be(agent: Service) -> None:
    """mkfs's own last words, and nothing left of the attempt."""
    before = agent.request({"do": "space"})
    with pytest.raises(ServiceFailed, match=r"mkfs\.ext4: "):
        recipe = replace(find("ext4"), size_bytes=1 << 20).recipe()
        tar = encoded(tar_of({"big": bytes(range(256)) * 8192}))
        agent.request({"do": "prepare", "layer": "ext4", "recipe": recipe, "tar": tar, **OWNER})
    assert agent.request({"do": "space"})["images"] == before["images"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"do": "format", "layer": "ext4"}, "no such request"),
        ({"do": "fresh", "layer": "ntfs", "name": "x"}, "no ntfs has been prepared"),
        ({"do": "fresh", "layer": "a/b", "name": "x"}, "`layer` is not"),
        ({"do": "probe", "recipe": {"mkfs": []}, "uid": 0, "gid": 0}, "not a request"),
        ({"do": "fresh", "layer": "overlay", "name": "../x"}, "letters, digits"),
        ({"do": "fresh", "layer": "overlay"}, "not a request"),
        ({"do": "release", "name": "never"}, "there is no volume never"),
        ({"do": "prepare", "layer": "overlay", "recipe": find("overlay").recipe(), "tar": "§", **OWNER}, "not base64"),
    ],
)
def test_a_bad_request_is_refused_and_the_agent_lives(agent: Service, bad: dict[str, Any], why: str) -> None:
    """One wrong call of one trial may not take the storage of all the others."""
    with pytest.raises(LabError, match=why):
        agent.request(bad)
    assert agent.request({"do": "space"})["ok"]


# Layers from elsewhere: what a recipe can say, no code in the lab or in the agent knows by name.
FROM_ELSEWHERE = (
    # A mkfs option, and a mount option that its mountinfo must show.
    Layer(
        "ext4:nojournal",
        mkfs=(
            ("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "root_owner={uid}:{gid}", "-d", "{content}",
             "{image}"),
            ("debugfs", "-w", "-R", "rmdir lost+found", "{image}"),
        ),
        mount="stripe=16",
        audited=("stripe",),
    ),
    # As mkfs.xfs: it takes no content, so the agent mounts the template and unpacks the state there.
    Layer("ext2", mkfs=(("mkfs.ext2", "-q", "-F", "{image}"), MKFS_EXT4[1]), size_bytes=16 << 20),
    Layer("overlay:redirect", folders=("upper", "work"), audited=("redirect_dir",),
          mount="lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=on"),
)  # fmt: skip


@pytest.fixture
def from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered for one test only."""
    monkeypatch.setattr("lab.storage.layers._layers", dict(layers._layers))
    for layer in FROM_ELSEWHERE:
        register(layer)


@pytest.mark.usefixtures("from_elsewhere")
@pytest.mark.parametrize("name", [layer.name for layer in FROM_ELSEWHERE])
def test_a_layer_that_is_registered_from_outside_makes_volumes(
    client: docker.DockerClient, image: str, backend: Backend, name: str
) -> None:
    """Asked for: a layer is one entry of data. A filesystem's name in the agent or in the lab would show here."""
    layer = Provisioner(find(name), backend)
    layer.probe()
    layer.prepare(tar_of({"log/1.seg": b"sealed"}))
    with fresh(layer) as one, fresh(layer) as two:
        script = "cat /data/log/1.seg; echo; rm /data/log/1.seg; stat -c %u /data; grep ' /data ' /proc/self/mountinfo"
        for volume in (one, two):
            content, owner, line = shell(client, image, script, volume.name).splitlines()
            assert (content, owner, volume.audit(line)) == ("sealed", str(UID), None)
            for option in layer.layer.audited:
                assert f"{option}=" in line
                assert volume.audit(line.replace(f"{option}=", "other=")) is not None


DEEP = """
import os
os.chdir("/data")
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
    open("f", "w").close()
os.chdir("/data")
os.mkdir("closed", 0o700)
open("closed/f", "w").close()
os.chmod("closed", 0)
"""


@pytest.mark.parametrize("layer", ["ext4", "overlay"], indirect=True)
def test_folders_nested_deep_or_closed_are_removed(client: docker.DockerClient, image: str, layer: Provisioner) -> None:
    """Seen: 1,500 nested folders on overlay ended a campaign, for the agent's removal recursed."""
    before = layer.backend.agent.request({"do": "space"})["pool"]
    with fresh(layer) as volume:
        shell(client, image, f"python3 -c '{DEEP}'", volume.name)
    assert layer.backend.agent.request({"do": "space"})["pool"] >= before - (1 << 20)
    with fresh(layer, volume.name):
        pass


def test_a_volume_in_use_is_left_for_later_and_ends_nothing(
    client: docker.DockerClient, image: str, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: "volume is in use" at a trial's end raised out of the trial and ended the campaign."""
    monkeypatch.setattr("lab.engine.removal.DISCARD_S", 0.3)
    layer = Provisioner(find("ext4"), backend)
    layer.prepare(tar_of({}))
    busy = layer.fresh(f"lab-test-{uuid.uuid4().hex[:8]}")
    with holder(client, image, busy.name):
        layer.destroy(busy)
        assert client.volumes.list(filters={"name": busy.name})
    with fresh(layer):
        pass
    assert not client.volumes.list(filters={"name": busy.name})
    assert not [name for name in backing_files(client, image) if busy.name in name]
