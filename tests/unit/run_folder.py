"""A run's folder in the current one, and a disk that is full."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
from collections.abc import Iterator

from lab.run.record import Header, Record

HEADER = Header(
    run="20261130-101502-7f3a",
    campaign="matrix",
    subject="kernel",
    seed=814467209,
    storages=("ext4", "tmpfs"),
    workers=4,
    keep_all_evidence=False,
    bug=None,
    faults=("sigkill",),
    options={},
    subject_image="lab/kernel:1",
    verifier_image="lab/verifier:1",
    clients_image=None,
    environment={"kernel": "6.18"},
)


def new(run: str = HEADER.run) -> Record:
    return Record.create(dataclasses.replace(HEADER, run=run))


@contextlib.contextmanager
def disk_full_after(size_bytes: int) -> Iterator[None]:
    """Files cannot grow beyond this: a write is cut there, as on a full disk, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
