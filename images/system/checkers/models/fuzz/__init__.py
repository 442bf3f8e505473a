"""The oracle of the fuzz campaign: holds every answer of a daemon under test against what it may be (docs/fuzz.md).

A pure function of the scenario's limits and the history. It reads no volume, knows no subject, and is total:
whatever a daemon answers is judged, and what is odd is a difference. Only a history that the lab itself never
writes raises ValueError.

history.py reads requests and their fates; shapes.py looks at the form of each answer; registers.py, chats.py,
prompt.py, prompts.py, messages.py, waits.py and idle.py judge.
"""

from __future__ import annotations

from typing import Any

from verifier.finding import Check
from verifier.fuzz.chats import Chats
from verifier.fuzz.history import CHECK, Story, read_story
from verifier.fuzz.idle import judge_idle
from verifier.fuzz.messages import judge_messages
from verifier.fuzz.prompts import Prompts
from verifier.fuzz.shapes import PROPERTIES, WORK, Checks, fields
from verifier.fuzz.waits import judge_waits
from verifier.tree import Tree


def judge(_files: Tree, request: dict[str, Any]) -> dict[str, Any]:
    """Judge a whole trial: its `workload` (a scenario, of which only `limits` counts) and `history`."""
    story = read_story(request["history"])
    checks: Checks = {name: Check() for name in PROPERTIES}
    chats, prompts = Chats(story, checks), Prompts(story, checks)
    for answer in story.answered:
        well_shaped = fields(answer, checks)
        chats.hear(answer, well_shaped)
        prompts.hear(answer, well_shaped)
    prompts.end()
    judge_messages(story, checks)
    limits = request["workload"]["limits"]
    judge_waits(story, limits["answer_ms"], checks)
    judge_idle(story, prompts.worked_off(), limits, checks)
    _judge_work(story, chats.checked + prompts.checked, checks)
    return {name: check.answer() for name, check in checks.items()}


def _judge_work(story: Story, checked: int, checks: Checks) -> None:
    """A trial in which nothing was asked, nobody died, or no check looked for a prompt or a draft is no evidence."""
    asked = sum(r.step != CHECK for r in story.requests)
    for what, count in (("operation", asked), ("kill", story.kills), ("checked prompt or draft", checked)):
        why = f"NO-WORK: the trial had no {what}"
        checks[WORK].holds(count > 0, f"step={CHECK} op=none {what}s", "at least 1", count, why)
