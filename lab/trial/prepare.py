"""Makes the prepared state that every trial of a run starts from: a short workload, run to its end once.

It is made on a tmpfs and taken out as an archive through the engine, so that every storage layer gets the same bytes.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.codec import SAID_DEPTH, parse
from lab.engine.container import Container, Mount
from lab.engine.errors import LabError, UsageError
from lab.engine.stream import LineParser
from lab.files import read_given
from lab.model import Json
from lab.subject.spec import Subject
from lab.trial.process import SubjectProcess, TrialEnded
from lab.trial.setting import WORKLOAD_BYTES, Prepared, workload_text
from lab.trial.worker import Services, Worker, open_layers
from lab.workloads import FAMILIES, rules_of

NAME = "prepared"
MAX_ARCHIVE_BYTES = 48 * 1024 * 1024  # of a volume of 64 MiB


class Scripts(NamedTuple):
    prepared: Json  # worked to its end, it makes the state that every trial starts from
    killed: tuple[Json, ...]


def workloads(subject: Subject, seed: int, count: int) -> Scripts:
    """The workload that prepares the state, and those that are killed: `count` of a family, or the subject's files."""
    assert subject.workload is not None  # a daemon has none: `lab.campaigns.session.checked`
    if subject.workload.kind is not None:
        family = FAMILIES[subject.workload.kind]
        return Scripts(family.prepared(seed), tuple(family.generate(seed, index) for index in range(count)))
    first, *rest = (_read(subject.folder / name) for name in subject.workload.files)
    return Scripts(first, tuple(rest))


def prepare(services: Services, worker: Worker, subject: Subject, image: str, workload: Json) -> Prepared:
    """Run the workload on an empty volume to its end. Raises LabError with the subject's last words if it fails."""
    table = subject.subject
    name = f"lab-{services.run}-{NAME}"
    layer = open_layers(services, ("tmpfs",), table.uid)["tmpfs"]
    with ExitStack() as stack:
        door = stack.enter_context(services.ledger.trial(worker.client, name, rules_of(workload), services.labels))
        volume = layer.fresh(name)
        stack.callback(layer.destroy, volume)

        spec = worker.spec(name, "keeper", table.uid, services.images.base, ("cat",))
        spec = replace(spec, mounts=[Mount(volume.name, table.data, read_only=True)])
        keeper = Container(worker.client, spec, LineParser(), worker.stop)
        stack.callback(keeper.remove)
        keeper.start()
        process = SubjectProcess(
            worker.client,
            replace(
                worker.spec(name, "process", table.uid, image, table.run),
                memory_mb=table.memory_mb,
                mounts=[Mount(volume.name, table.data), door.mount],
                environment={"LAB_NONCE": NAME, "LAB_WORKLOAD": workload_text(workload), **door.environment},
            ),
            number=1,
            armed=None,
            nonce=NAME,
            data=table.data,
            deadlines=subject.deadlines,
            stop=worker.stop,
        )
        stack.callback(process.remove)
        process.start()
        try:
            code = process.wait_exit(subject.deadlines.hook)
        except TrialEnded as end:
            raise LabError(f"{subject.name} did not finish the workload that prepares its state: {end.what}") from end
        if code != 0:
            raise LabError(
                f"{subject.name} ended with exit code {code} while preparing its state{process.last_words()}",
                f"Its command `{' '.join(table.run)}` must work a workload to its end on an empty volume.",
            )
        ledger = services.ledger.request({"do": "drain", "trial": name})["ledger"]
        return Prepared(workload, ledger, _archive(worker, keeper, table.data))


def _archive(worker: Worker, keeper: Container, data: str) -> bytes:
    chunks, _ = worker.client.api.get_archive(keeper.ident, f"{data}/.")
    archive = bytearray()
    for chunk in chunks:
        archive += chunk
        if len(archive) > MAX_ARCHIVE_BYTES:
            raise LabError(f"the prepared state is larger than {MAX_ARCHIVE_BYTES >> 20} MiB", "Prepare it with less.")
    return bytes(archive)


def _read(path: Path) -> Json:
    try:
        data = parse(read_given(path, WORKLOAD_BYTES), depth=SAID_DEPTH)
    except OSError as error:
        raise UsageError(f"cannot read the workload {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"the workload {path} is not JSON that the lab takes: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"the workload {path} is not a JSON object")
    return data
