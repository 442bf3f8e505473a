"""The commands of `kernel`. Everything it is given comes from the environment, see docs/protocol.md and USAGE."""

import os
from sys import stderr, stdout

from kernel import log, recovery, store
from kernel.codec import canonical
from kernel.engine import Engine
from kernel.errors import KernelError, UsageError
from kernel.hooks import Hooks
from kernel.intents import Intents
from kernel.journal import Journal
from kernel.pager import Pager
from kernel.tables import NAMES, Tables
from kernel.workload import Workload

USAGE = """\
usage: kernel run       work LAB_WORKLOAD on a new or closed state
       kernel recover   recover from a crash, then work LAB_WORKLOAD to its end
       kernel rebuild   make the tables again from the log alone
       kernel dump      print the tables as canonical JSON
The state lies in KERNEL_DATA (default /data), the effect ledger's socket is LAB_LEDGER."""

EX_IOERR = 74


def run(folder: str, hooks: Hooks) -> None:
    """Work the workload on a state that no crash has left."""
    workload = _workload()
    if store.is_young(folder):
        store.create(folder, hooks)
    journal = store.open_closed(folder, hooks, workload.segment_bytes, workload.checkpoint_every)
    _work(folder, journal, _intents(journal), workload)


def recover(folder: str, hooks: Hooks) -> None:
    """Recover whatever a crash left, then work the workload to its end."""
    workload = _workload()
    if store.is_young(folder):
        store.create(folder, hooks)
    store.reopen(folder, hooks)
    journal = recovery.load(folder, hooks, workload.segment_bytes, workload.checkpoint_every)
    intents = _intents(journal)
    recovery.settle(journal, intents)
    _work(folder, journal, intents, workload)


def rebuild(folder: str, hooks: Hooks) -> None:
    """Make pages.db from the log, for a person who was told that the pages are corrupt."""
    tables = Tables()
    store.replay_into(tables, log.read(store.log_folder(folder), 0).records)
    store.write_pages(folder, hooks, tables)
    print(f"kernel: tables made again from the log, LSN 1 to {tables.lsn}; now use `kernel recover`", file=stderr)


def dump(folder: str, hooks: Hooks) -> None:
    """Print the tables as they stand at the end of the log. Changes nothing."""
    pager = Pager(store.pages_path(folder), hooks)
    pager.choose_root()
    tables = pager.load()
    store.replay_into(tables, log.read(store.log_folder(folder), pager.lsn).records)
    stdout.write(canonical({"lsn": tables.lsn} | dict(zip(NAMES, tables.rows, strict=True))) + "\n")


def _work(folder, journal: Journal, intents, workload):
    Engine(journal, intents, workload.tasks, workload.slots).run()
    journal.checkpoint()
    journal.log.close()
    journal.pager.close()
    store.close(folder, journal.tables.lsn)
    journal.hooks.reach("state.closed")


def _workload():
    if "LAB_WORKLOAD" not in os.environ:
        raise UsageError("LAB_WORKLOAD is not set: it is the workload to execute, as JSON")
    return Workload(os.environ["LAB_WORKLOAD"])


def _intents(journal):
    return Intents(journal, os.environ.get("LAB_LEDGER", ""))


COMMANDS = {"run": run, "recover": recover, "rebuild": rebuild, "dump": dump}


def main(arguments: list[str]) -> int:
    """Returns the exit code, see docs/format.md."""
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(USAGE, file=stderr)
        return UsageError.exit_code
    hooks = None
    try:
        hooks = Hooks(os.environ)
        COMMANDS[arguments[0]](os.environ.get("KERNEL_DATA", "/data"), hooks)
    except KernelError as error:
        print(f"kernel: {error}", file=stderr)
        return error.exit_code
    except OSError as error:
        print(f"kernel: {error}: the state is left as after a crash, use `kernel recover`", file=stderr)
        return EX_IOERR
    finally:
        if hooks is not None:
            hooks.flush()
    return 0
