"""The fuzz oracle is total: whatever a daemon answers is judged, and only the lab's own faults raise."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from fuzz_history import LIMITS, NO_SUCH_CHAT, WRITTEN, History, Json, chat, judge
from hypothesis import given, settings
from hypothesis import strategies as st
from verifier import main
from verifier.fuzz.history import ARGUMENTS
from verifier.fuzz.shapes import PROMISED_BY, PROPERTIES

KINDS: dict[type, Any] = {str: "c1", bool: True}
ODD: tuple[Any, ...] = (None, True, 7, "text", [], [1], {}, {"c1": 1}, [["p2"]], {"prompt": "p2"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["p2", "c1", "done"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(list(chat())), inner),
    max_leaves=8,
)


def arguments(op: str) -> Json:
    return {name: KINDS[kind] for name, kind in ARGUMENTS[op].items()}


def prompted() -> History:
    return History().ok("chat/new", chat="c1").ok("prompt/send", chat="c1", prompt="p2", text="")


def read_of(answer: Any) -> History:
    return prompted().ok("chat/read", answer, chat="c1")


@pytest.mark.parametrize("op", ARGUMENTS)
def test_an_answer_that_is_no_object_is_a_difference_of_what_it_promised(op: str) -> None:
    """`"result": 7` must not pass for an acknowledgement, nor stop the judging of the rest."""
    for odd in (7, "ok", [], False):
        assert PROMISED_BY[op] in prompted().ok(op, odd, **arguments(op)).broken()


@pytest.mark.parametrize("field", chat())
def test_a_field_of_another_kind_is_a_difference(field: str) -> None:
    """What cannot be read was not kept; each field of a chat, with every kind of value that it may not have."""
    legal = {"draft": (None, "text"), "running": (None, "text"), "title": (None, "text"), "mode": (None, "text"),
             "unread": (True,), "queue": ([],), "log": ([],), "watches": ([],), "decisions": ({},)}[field]  # fmt: skip
    for odd in ODD:
        if not any(odd is value or odd == value for value in legal):
            broken = read_of(chat(**{field: odd})).broken()
            assert any(f"`{field}` of the answer" in why for why in broken.values()), odd


@pytest.mark.parametrize("field", chat())
def test_a_field_that_is_missing_is_a_difference(field: str) -> None:
    """A daemon that leaves the queue out has not shown that a removed prompt is gone."""
    answer = chat()
    del answer[field]
    assert any(f"`{field}` of the answer" in why for why in read_of(answer).broken().values())


def test_a_queue_that_is_no_list_of_texts_is_a_difference_of_prompts_and_removals() -> None:
    """Both read it."""
    for odd in (None, "p2", [7], [["p2"]], {"p2": 1}):
        assert {"prompts-once", "removals-final"} <= read_of(chat(queue=odd)).broken().keys()


@pytest.mark.parametrize("op", ["status", "chat/list", "queue/list", "queue/remove"])
def test_an_answer_without_its_field_is_a_difference(op: str) -> None:
    """`{}` answers none of these."""
    assert PROMISED_BY[op] in prompted().ok(op, {"idle": 1, "removed": 0}, **arguments(op)).broken()


@pytest.mark.parametrize("op", ARGUMENTS)
def test_an_error_that_this_operation_cannot_have_is_a_difference(op: str) -> None:
    """An error is an answer, and must be one of those that are documented."""
    malformed: list[Any] = [None, 7, {}, {"code": "-32001", "message": ""}, {"code": True, "message": ""}, {"code": 1}]
    for error in malformed:
        assert PROMISED_BY[op] in prompted().fail(op, error, **arguments(op)).broken(), error
    internal = prompted().fail(op, {"code": -32603, "message": "internal error"}, **arguments(op)).broken()
    assert (PROMISED_BY[op] in internal) == (op in ("status", "chat/list", "chat/read", "queue/list"))
    nothing_asks = prompted().fail(op, {"code": -32002, "message": "nothing asks"}, **arguments(op)).broken()
    assert (PROMISED_BY[op] in nothing_asks) == (op != "permission/decide")
    if "chat" not in ARGUMENTS[op] or op == "chat/new":
        assert PROMISED_BY[op] in prompted().fail(op, NO_SUCH_CHAT, **arguments(op)).broken()


@settings(max_examples=150, deadline=None)
@given(op=st.sampled_from(list(ARGUMENTS)), answer=JSON, error=st.booleans())
def test_no_answer_whatever_stops_the_judging(op: str, answer: Any, error: bool) -> None:
    """An oracle that raises on a daemon's nonsense turns a finding into the lab's own error."""
    history = prompted()
    ident = history.invoke(op, **arguments(op))
    if error:
        history.answer_error(ident, answer)
    else:
        history.answer(ident, answer)
    judged = history.finish({"c1": chat(queue=["p2"])}).judged()
    assert list(judged) == list(PROPERTIES)
    assert len(json.dumps(judged)) < 20_000


@settings(max_examples=100, deadline=None)
@given(fields=st.dictionaries(st.sampled_from(list(chat())), JSON))
def test_no_reading_whatever_stops_the_judging(fields: Json) -> None:
    """The same for each field of a chat."""
    assert list(read_of(chat(**fields)).finish({"c1": chat(**fields)}).judged()) == list(PROPERTIES)


def test_thousands_of_entries_and_long_names_are_judged_at_once_and_told_in_brief() -> None:
    """A daemon that has gone wild must not cost the trial its deadline, nor the report its readability."""
    names = ["p" * 50_000, *(f"p{n}" for n in range(5000)), "p2", "p" * 50_000]
    log = [{"prompt": f"q{n}", "outcome": "unknown"} for n in range(5000)]
    wild = chat(queue=names, log=log, watches=names, decisions=dict.fromkeys(names, True))
    history = prompted().check({"c1": wild}, listed=["c1", *names])
    judged = history.judged()
    assert {"chats-durable", "prompts-once", "watches-durable", "settings-kept"} <= history.broken().keys()
    assert len(json.dumps(judged)) < 20_000


def test_what_the_lab_never_writes_is_its_own_fault() -> None:
    """A malformed line of the clients or the controller makes the trial an `error`, not a pass."""
    lines: list[Json] = [
        {}, {"event": "strange"}, {"event": "error", "what": "no adapter"}, {"event": "ok", "id": 9, "at_ms": 1},
        {"event": "up", "life": "2", "at_ms": 1}, {"event": "settled", "idle": 1}, {"event": "ledger", "ledger": {}},
        {"event": "still", "ms": None, "at_ms": 1}, {"event": "info", "id": 1, "why": "tired", "at_ms": 1},
        {"event": "invoke", "life": 1, "id": 2, "step": 2, "client": 1, "op": "chat/sing", "args": {}, "at_ms": 1},
        {"event": "invoke", "life": 1, "id": 2, "step": 2, "client": 1, "op": "chat/new", "args": {}, "at_ms": 1},
        {"event": "invoke", "life": 1, "id": 1, "step": 2, "client": 1, "op": "status", "args": {}, "at_ms": 1},
        {"event": "gone", "life": 1},
    ]  # fmt: skip
    for line in lines:
        history = History()
        history.invoke("status")
        history.lines.append(line)
        with pytest.raises(ValueError, match=r"history|no end|clients failed"):
            history.judged()


def test_the_harness_answers_for_the_oracle(tmp_path: Path) -> None:
    """`verify fuzz` reads no volume, but speaks the protocol of every verifier."""
    history = prompted().restart({"c1": chat(queue=["p2"])})
    request = {"ask": "look", "look": "end", "workload": {"limits": LIMITS}, "history": history.lines, "ledger": {}}
    answers = io.StringIO()
    main.serve("fuzz", judge, str(tmp_path), io.BytesIO(json.dumps(request).encode() + b"\n"), answers)
    _, answer = map(json.loads, answers.getvalue().splitlines())
    assert answer["properties"] == history.judged()
    assert all(finding["differs"] is None for finding in answer["properties"].values())


def test_each_write_is_answered_in_the_builder_as_it_is_documented() -> None:
    """Else the histories of all these tests would be those of a strange daemon."""
    writes = [op for op in ARGUMENTS if op not in ("chat/list", "chat/read", "queue/remove")]
    history = prompted()
    for op in writes:
        history.ok(op, WRITTEN.get(op), **arguments(op))
    assert not history.broken().keys() - {"work-done"}
