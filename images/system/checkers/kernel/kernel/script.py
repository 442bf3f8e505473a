"""The verifier's own reading of an `agent-tasks` workload: what the script intends in the end.

Throws no dice and knows no crash: neither a crash nor a recovery changes what is intended. Raises ValueError if the
workload is none it can read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from verifier.kernel.records import effect_identity

_ENDS = {"finish": "succeeded", "fail": "failed", "cancel": "cancelled"}


class Call(NamedTuple):
    """A tool call that the script really reaches."""

    effect: str
    about: dict[str, Any]  # task, step, tool, class, args
    ok: bool  # else the outside declines it

    @property
    def lands(self) -> bool:
        """It has one effect outside."""
        return self.ok and self.about["class"] != "pure"


class Task(NamedTuple):
    """Where the script puts one task in the end."""

    attempts: tuple[str, ...]  # the terminal state of each attempt
    cursor: tuple[int, int, int]  # try, step, clock
    clocks: tuple[tuple[int, ...], ...]  # of each attempt: the clock before each step it reaches
    calls: tuple[Call, ...]


class Script(NamedTuple):
    """What a workload intends."""

    slots: int
    tasks: dict[int, Task]

    @property
    def calls(self) -> dict[str, Call]:
        """Every call the script reaches, by its effect; equal calls are one."""
        return {call.effect: call for task in self.tasks.values() for call in task.calls}


def read_script(workload: dict[str, Any]) -> Script:
    """Work out what a workload intends."""
    if workload.get("kind") != "agent-tasks" or workload.get("version") != 1:
        raise ValueError(f"a workload of kind {workload.get('kind')!r}, version {workload.get('version')!r}")
    return Script(workload["slots"], {task["task"]: _task(task) for task in workload["tasks"]})


def _task(task: dict[str, Any]) -> Task:
    if task["cancelled_before_admission"]:
        return Task(("cancelled",), (0, 0, 0), ((0,),), ())
    states: list[str] = []
    clocks: list[tuple[int, ...]] = []
    calls: list[Call] = []
    for steps in task["tries"]:
        state, reached, made = _try(task["task"], task["deadline"], steps)
        states.append(state)
        clocks.append(reached)
        calls += made
        if state != "failed":
            break
    last = clocks[-1]
    return Task(tuple(states), (len(states) - 1, len(last) - 1, last[-1]), tuple(clocks), tuple(calls))


def _try(task: int, deadline: int, steps: list[dict[str, Any]]) -> tuple[str, tuple[int, ...], list[Call]]:
    """Terminal state, the clock before each step that it stood at, and the calls made."""
    clocks = [0]
    calls: list[Call] = []
    for number, step in enumerate(steps):
        if clocks[-1] + step["ticks"] > deadline:
            return "timed_out", tuple(clocks), calls
        if step["do"] in _ENDS:
            return _ENDS[step["do"]], tuple(clocks), calls
        if step["do"] == "call":
            about = {"task": task, "step": number, "tool": step["tool"], "class": step["class"], "args": step["args"]}
            effect = effect_identity(task, number, step["tool"], step["args"])
            calls.append(Call(effect, about, step["outcome"] == "ok"))
        elif step["do"] != "say":
            raise ValueError(f"unknown step {step['do']!r} in task {task}")
        clocks.append(clocks[-1] + step["ticks"])
    raise ValueError(f"a try of task {task} has no end")
