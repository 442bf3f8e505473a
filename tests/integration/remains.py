"""What a lab has left on its engine and its machine: asked of both, never of the lab."""

from __future__ import annotations

from pathlib import Path

import docker

LABEL = "crashlab.run"
SERVICES = ("agent", "ledger", "holder")


def left(client: docker.DockerClient, run: str) -> list[str]:
    """Containers, volumes, loop devices and mounts of a run or of a later session of it, a line each."""
    containers = client.api.containers(all=True, filters={"label": LABEL})
    volumes = client.api.volumes(filters={"label": LABEL})["Volumes"] or []
    found = [f"container {c['Names'][0]}" for c in containers if _of(run, c["Labels"][LABEL])]
    found += [f"volume {v['Name']}" for v in volumes if _of(run, v["Labels"][LABEL])]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            name = backing.read_text().strip()
        except OSError:  # detached meanwhile
            continue
        found += [f"loop device of {name}"] * (f"lab-{run}" in name)
    found += [f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines() if run in line]
    return found


def left_by_trials(client: docker.DockerClient, run: str) -> list[str]:
    """The same while the run's own services and volumes are up."""
    own = [f"container /lab-{run}-{role}" for role in SERVICES]
    own += [f"{kind} lab-{run}-{name}" for kind in ("volume",) for name in ("pool", "sockets", "store")]
    services = ("-pool/", "-sockets/", "-store/")
    return [
        line
        for line in left(client, run)
        if not any(line.startswith(o) for o in own) and not any(s in line for s in services)
    ]


def _of(run: str, labelled: str) -> bool:
    return labelled == run or labelled.startswith(f"{run}-")
