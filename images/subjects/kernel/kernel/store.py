"""The state as a folder: made, opened, closed, and what is told by its looks before anything is read.

CLEAN exists exactly while no workload is under way: removed durably before anything else is written, and put back as
the very last thing.
"""

import os

from kernel import frames, log
from kernel.codec import canonical, decode
from kernel.errors import CorruptError, NotCleanError
from kernel.files import publish, read_file, sync_folder
from kernel.journal import Journal
from kernel.pager import Pager
from kernel.tables import Tables, fold

CLEAN = "CLEAN"


def log_folder(folder: str) -> str:
    """Where the segments lie."""
    return f"{folder}/log"


def pages_path(folder: str) -> str:
    """Where the tables lie."""
    return f"{folder}/pages.db"


def is_young(folder: str) -> bool:
    """Nothing was ever recorded here: it is empty, or its creation was cut short.

    Raises CorruptError if records are there but the tables' file is gone.
    """
    if os.path.exists(pages_path(folder)):
        return False
    try:
        names = os.listdir(log_folder(folder))
    except FileNotFoundError:
        return True
    if all(os.path.getsize(f"{log_folder(folder)}/{name}") <= frames.HEADER_BYTES for name in names):
        return True
    raise CorruptError("the file is missing, but the log holds records", pages_path(folder))


def create(folder: str, hooks) -> None:
    """Make an empty, closed state. A crash within leaves a young one, which is simply made again."""
    os.makedirs(log_folder(folder), exist_ok=True)
    sync_folder(folder)
    log.create_segment(log_folder(folder), 1)
    write_pages(folder, hooks, Tables())
    close(folder, 0)


def write_pages(folder: str, hooks, tables: Tables) -> None:
    """Make `pages.db` from `tables`. It gets its name only when its first root is durable."""
    young = pages_path(folder) + ".tmp"
    os.close(os.open(young, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
    pager = Pager(young, hooks)
    pager.commit(tables)
    pager.close()
    os.rename(young, pages_path(folder))
    sync_folder(folder)


def close(folder: str, lsn: int) -> None:
    """Say durably that the workload is finished and the tables stand at `lsn`, the end of the log."""
    publish(folder, CLEAN, canonical({"lsn": lsn}).encode())


def reopen(folder: str, hooks) -> None:
    """Take CLEAN away, durably, before anything is written."""
    try:
        os.unlink(f"{folder}/{CLEAN}")
    except FileNotFoundError:
        return
    sync_folder(folder)
    hooks.reach("state.opened")


def open_closed(folder: str, hooks, segment_bytes: int, checkpoint_every: int) -> Journal:
    """Open a state that was closed. Raises NotCleanError if it was not, CorruptError if it is not what was closed."""
    try:
        clean = read_file(f"{folder}/{CLEAN}")
    except FileNotFoundError:
        raise NotCleanError(f"{folder} was not closed cleanly: use `kernel recover`") from None
    pager = Pager(pages_path(folder), hooks)
    pager.choose_root()
    tables = pager.load()
    replay = log.read(log_folder(folder), pager.lsn)
    if replay.repair or replay.records or clean != canonical({"lsn": tables.lsn}).encode():
        raise CorruptError(
            f"it says {clean.decode('ascii', 'replace')}, but the tables stand at LSN {tables.lsn} "
            f"and the log at {replay.next_lsn - 1} ({replay.repair or 'whole'})",
            f"{folder}/{CLEAN}",
        )
    reopen(folder, hooks)
    return journal(folder, hooks, pager, tables, replay, segment_bytes, checkpoint_every)


def journal(
    folder, hooks, pager: Pager, tables: Tables, replay: log.Replay, segment_bytes, checkpoint_every
) -> Journal:
    """The journal that goes on where `replay` ends."""
    active = log.Log(log_folder(folder), hooks, segment_bytes, replay.first_lsn, replay.next_lsn, replay.size)
    return Journal(hooks, active, tables, pager, checkpoint_every)


def replay_into(tables: Tables, records: list[tuple[int, bytes]]) -> None:
    """Fold logged records. Raises CorruptError for one that no kernel can have written."""
    for lsn, payload in records:
        try:
            fold(tables, lsn, decode(payload.decode()))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(f"it is no record: {error!r}", f"record {lsn}") from None
