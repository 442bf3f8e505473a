"""Reads LAB_WORKLOAD, see docs/workload.md. Refuses what the kernel cannot work or store before anything is written."""

from kernel.codec import canonical, decode
from kernel.errors import UsageError

ENDS = {"finish": "succeeded", "fail": "failed", "cancel": "cancelled"}  # the last step of a try: where it leads
CLASSES = ("pure", "keyed", "once")
# Tool and arguments lie twice in a record, once as a quoted text, which may double them: so it fits one write of 4,096
# bytes, and a row a page.
CALL_BYTES = 1_200


class Workload:
    """The script to execute and the three sizes it is executed with."""

    __slots__ = ("checkpoint_every", "segment_bytes", "slots", "tasks")

    def __init__(self, text: str):
        try:
            data = decode(text)
            if (data["kind"], data["version"]) != ("agent-tasks", 1):
                raise ValueError(f"{data['kind']!r} version {data['version']!r}, not 'agent-tasks' version 1")
            self.slots = _positive(data["slots"])
            self.checkpoint_every = _positive(data["checkpoint_every"])
            self.segment_bytes = _positive(data["segment_bytes"])
            self.tasks: list[dict] = data["tasks"]
            for task in self.tasks:
                _check_task(task)
        except KeyError as error:
            raise UsageError(f"LAB_WORKLOAD cannot be worked: {error} is missing") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"LAB_WORKLOAD cannot be worked: {error}") from None


def _positive(number):
    if number < 1:
        raise ValueError(f"{number} is too small for a size")
    return number


def _check_task(task):
    number = task["task"]
    if not task["tries"] or task["deadline"] < 0 or task["cancelled_before_admission"] not in (True, False):
        raise ValueError(f"task {number} has no tries, or no sound deadline")
    for script in task["tries"]:
        if not script or script[-1]["do"] not in ENDS:
            raise ValueError(f"task {number} has a try that does not end in {', '.join(ENDS)}")
        for place, step in enumerate(script):
            _check_step(step, f"task {number} step {place}")


def _check_step(step, where):
    if step["do"] not in ("say", "call", *ENDS) or step["ticks"] < 0:
        raise ValueError(f"{where}: no such step: {step}")
    if step["do"] == "call":
        if step["class"] not in CLASSES:
            raise ValueError(f"{where}: no effect class {step['class']!r}")
        if len(canonical([step["tool"], step["args"]])) > CALL_BYTES:
            raise ValueError(f"{where}: tool and arguments of more than {CALL_BYTES} bytes")
