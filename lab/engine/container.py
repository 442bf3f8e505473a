"""One container of a trial: made hardened, attached before it starts, watched, killed, removed.

Nothing a subject or verifier does not need is left to it: no network of its own, a read-only root, no capabilities,
no new privileges, a plain user, limits on memory and processes, and no log on the engine's disk.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors
import psutil
import requests
from docker.types import LogConfig

from lab.engine.errors import DeadlinePassed, ImageMissing, LabError
from lab.engine.removal import discard_container
from lab.engine.stream import Parser, Stream

PIDS_LIMIT = 128  # a subject of the cells runs 8 racers; far above what an honest program needs, far below a fork bomb
# One CPU for each container of a trial: what an honest subject of one thread can use, and all that a fork bomb gets.
# As a quota, not as `nano_cpus`: where the engine's kernel has no quotas, it is ignored and not refused.
CPU_PERIOD_US = 100_000
CPU_QUOTA_US = 100_000
CPU_SHARES = 512  # half of a service's: agent and ledger answer in time however busy the subjects are
ATTACHED = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}  # to all that a container says and is told


@dataclass(frozen=True)
class Mount:
    """A Docker volume at a path inside a container."""

    volume: str
    path: str
    read_only: bool = False


@dataclass(frozen=True)
class Spec:
    """All that makes a container. `network` is a network mode: "none" or "container:ID"."""

    image: str
    command: Sequence[str]
    name: str
    labels: Mapping[str, str]
    user: str
    network: str
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    memory_mb: int = 128
    tmp_mb: int = 16
    extra_host_config: Mapping[str, Any] = field(default_factory=dict)  # what a service needs beyond `hardened`


@dataclass(frozen=True)
class State:
    """What the engine says of a container. `exit_code` means something only once it is not running."""

    running: bool
    pid: int
    exit_code: int
    oom_killed: bool


class Container:
    """A created container with its stream. `remove` may be called at any time, more than once."""

    def __init__(
        self,
        client: docker.DockerClient,
        spec: Spec,
        parser: Parser,
        stop: threading.Event | None = None,
        changed: threading.Condition | None = None,
    ) -> None:
        """Create it and attach to it; raises ImageMissing if the image is not there (nothing is pulled).

        `stop` is set when the user wants to stop now: it ends every wait on this container with Interrupted. `changed`
        is shared with another container's stream, if one wait must see both.
        """
        self._client = client
        self._api = client.api
        self.spec = spec
        self.parser = parser
        try:
            self.ident: str = self._api.create_container(
                spec.image,
                list(spec.command),
                name=spec.name,
                user=spec.user,
                environment=dict(spec.environment),
                labels=dict(spec.labels),
                stdin_open=True,
                host_config=self._api.create_host_config(**hardened(spec)),
                use_config_proxy=False,
            )["Id"]
        except docker.errors.ImageNotFound as error:
            raise ImageMissing(f"image {spec.image} is not there", "`lab setup` builds the lab's own.") from error
        try:
            self.stream = Stream(self._api.attach_socket(self.ident, params=ATTACHED), parser, stop, changed)
        except BaseException:
            self._api.remove_container(self.ident, force=True)
            raise

    def start(self) -> None:
        try:
            self._api.start(self.ident)
        except docker.errors.APIError as error:
            raise LabError(f"container {self.spec.name} did not start: {error.explanation}") from error

    def state(self) -> State:
        state = self._api.inspect_container(self.ident)["State"]
        return State(bool(state["Running"]), int(state["Pid"]), int(state["ExitCode"]), bool(state["OOMKilled"]))

    def kill(self) -> bool:
        """Send SIGKILL through the engine. False if it was not running any more: then nobody was killed."""
        try:
            self._api.kill(self.ident, "SIGKILL")
        except docker.errors.APIError as error:
            if error.status_code == 409:
                return False
            raise
        return True

    def wait(self, timeout_s: float) -> None:
        """Wait until the engine says that it has stopped. Raises DeadlinePassed."""
        try:
            self._api.wait(self.ident, timeout=math.ceil(timeout_s))
        except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError) as error:
            raise DeadlinePassed(f"waited {timeout_s:g} s for container {self.spec.name} to stop") from error

    def processes(self) -> str:
        """The rows of its processes, for a person who looks at a hang. Empty if there are none to see."""
        try:
            rows = self._api.top(self.ident)
        except docker.errors.APIError:
            return ""
        return "\n".join("  ".join(row) for row in [rows["Titles"], *rows["Processes"]])

    def remove(self) -> None:
        """Close the stream and remove the container, running or not. Does not raise; see `lab.engine.removal`."""
        self.stream.close()
        discard_container(self._client, self.ident)


def hardened(spec: Spec) -> dict[str, Any]:
    """The host configuration that `create_host_config` takes."""
    return {
        "binds": [f"{m.volume}:{m.path}:{'ro' if m.read_only else 'rw'}" for m in spec.mounts],
        "network_mode": spec.network,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "mem_limit": f"{spec.memory_mb}m",
        "memswap_limit": f"{spec.memory_mb}m",
        "pids_limit": PIDS_LIMIT,
        "cpu_period": CPU_PERIOD_US,
        "cpu_quota": CPU_QUOTA_US,
        "cpu_shares": CPU_SHARES,
        "tmpfs": {"/tmp": f"size={spec.tmp_mb}m,mode=1777"},
        "log_config": LogConfig(type="none"),
        **spec.extra_host_config,
    }


@dataclass(frozen=True)
class HostProcess:
    """A process on this machine that is proven to be a container's: its cgroup names the container."""

    process: psutil.Process

    @classmethod
    def of(cls, container: Container, pid: int) -> HostProcess | None:
        """None where that cannot be shown: the engine may be in a VM, or on another machine, with pids of its own."""
        try:
            process = psutil.Process(pid)
            # Read only now: had the pid been given to another process before, that one's cgroup would say so.
            return cls(process) if container.ident in Path(f"/proc/{pid}/cgroup").read_text() else None
        except (OSError, psutil.Error):
            return None

    def alive(self) -> bool:
        """It runs: it is there, it is the same process, and it is not a zombie."""
        try:
            return self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def mount_line(self, path: str) -> str | None:
        """Its own line of mountinfo for a mount point, or None."""
        try:
            lines = Path(f"/proc/{self.process.pid}/mountinfo").read_text().splitlines()
        except OSError:
            return None
        return next((line for line in lines if line.split(" ")[4] == path), None)
