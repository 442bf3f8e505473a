"""A scenario for a person: what clients send, a line an operation, and where each life ends. Pure."""

from __future__ import annotations

import json
from pathlib import Path

from lab.model import PAUSE, Op, Scenario
from lab.report.text import LABEL, WIDTH, labelled
from lab.text import one_line, visible

ROOM = WIDTH - LABEL
QUOTED = ("text", "title", "value", "answer")  # free text; other arguments that are text are names


def reproducer_lines(scenario: Scenario, path: Path, breaks: str) -> list[str]:
    """The script of a file, whole; `breaks` says what it broke, and where it was found."""
    head = [*labelled("script", str(path)), *labelled("replay", f"lab replay {path}"), *labelled("breaks", breaks)]
    return head + [" " * LABEL + visible(line) for line in script_lines(scenario)]


def script_lines(scenario: Scenario) -> list[str]:
    """Each life's operations with the numbers that a violation names, and how it ends.

    Each fits behind a label: a long value is cut, its file has it whole.
    """
    ops = [op for life in scenario.lives for op in life.ops]
    digits = max((len(str(op.step)) for op in ops), default=1)
    verb = max((len(op.op) for op in ops), default=1)
    lines = []
    for life in scenario.lives:
        for op in life.ops:
            line = f"{op.step:>{digits}}  client {op.client:<2} {op.op:<{verb}}  {arguments(op)}"
            lines.append(line.rstrip())
        if life.kill is None:
            lines.append("wait until it is idle, read everything back")
        else:
            lines += [f"{life.kill.fault:<9} at {life.kill}", "restart, read everything back"]
    return [line if len(line) <= ROOM else line[: ROOM - 1] + "…" for line in lines]


def arguments(op: Op) -> str:
    """`c1 p4 "reply 2"`: names as they are, texts in quotes, the rest by its key."""
    if op.op == PAUSE:
        return f"{op.args.get('ms')} ms"
    return one_line(" ".join(_argument(key, value) for key, value in op.args.items()))


def _argument(key: str, value: object) -> str:
    if isinstance(value, str) and key not in QUOTED:
        return value
    said = json.dumps(value, ensure_ascii=False)
    return said if isinstance(value, str) else f"{key}={said}"
