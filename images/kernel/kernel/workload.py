"""Reads LAB_WORKLOAD, see docs/workload.md. Refuses what the kernel cannot store before anything is written."""

from kernel.codec import canonical, decode
from kernel.errors import UsageError

ARGS_BYTES = 1_500  # at most, so that an effect's row and its records fit a page and one write


class Workload:
    """The script to execute and the three sizes it is executed with."""

    __slots__ = ("checkpoint_every", "segment_bytes", "slots", "tasks")

    def __init__(self, text: str):
        try:
            data = decode(text)
            kind, version = data["kind"], data["version"]
            self.slots: int = data["slots"]
            self.checkpoint_every: int = data["checkpoint_every"]
            self.segment_bytes: int = data["segment_bytes"]
            self.tasks: list[dict] = data["tasks"]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"LAB_WORKLOAD is not a workload: {error!r}") from None
        if (kind, version) != ("agent-tasks", 1):
            raise UsageError(f"LAB_WORKLOAD is {kind!r} version {version!r}; this kernel works 'agent-tasks' version 1")
        for task in self.tasks:
            _check_args(task)


def _check_args(task):
    for script in task["tries"]:
        for number, step in enumerate(script):
            if step["do"] == "call" and len(canonical(step["args"])) > ARGS_BYTES:
                raise UsageError(f"task {task['task']} step {number}: arguments of more than {ARGS_BYTES} bytes")
