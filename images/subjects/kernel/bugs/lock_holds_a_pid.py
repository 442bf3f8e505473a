"""Locks the state by a file that holds a process id, and refuses it while that process lives.

A restarted container's first process is number 1 again: it finds itself alive.
"""

import os
from contextlib import suppress

from kernel import main
from kernel.errors import KernelError


class InUseError(KernelError):
    exit_code = 75


def _locked(command):
    def wrapped(folder, hooks):
        path = f"{folder}/LOCK"
        with suppress(FileNotFoundError, ProcessLookupError), open(path) as file:
            owner = int(file.read())
            os.kill(owner, 0)
            raise InUseError(f"{folder} is in use by process {owner}")
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        command(folder, hooks)
        os.unlink(path)

    return wrapped


for _name in ("run", "recover"):
    main.COMMANDS[_name] = _locked(main.COMMANDS[_name])
