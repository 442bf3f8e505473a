"""Frozen data through JSON and back: a field that is lost on the way is evidence that is lost."""

from __future__ import annotations

import dataclasses
import enum
import pickle
import types
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_data import green_results, probe_result
from trial_evidence import DIFFERS, crash, good, probed, twice_killed

from lab import model
from lab.codec import dump, from_json, parse, to_json
from lab.model import (
    MAX_FACTS,
    CrashPoint,
    Evidence,
    Failure,
    Finding,
    Hit,
    Kind,
    Result,
    Verdict,
    Word,
)
from lab.plan.census import Census, FailedRecovery, FirstPoint, Recovery
from lab.plan.points import Plan

WORDS = st.text(max_size=5)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers() | FLOATS | WORDS
JSON = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(WORDS, LEAVES, max_size=2)
PLAIN = {str: WORDS, int: st.integers(), float: FLOATS, bool: st.booleans(), type(None): st.none(), Any: JSON}
KINDS = [
    kind
    for kind in vars(model).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == model.__name__
]


def through_json(kind: type[Any], value: Any) -> Any:
    """As it is written to a file, and read back."""
    return parse(dump(value), kind)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type of the model; what it leaves open is any JSON."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(WORDS, values(args[1]), max_size=2)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values, args))
    if origin is typing.Annotated:
        return st.integers(0, MAX_FACTS)  # the one number that has bounds
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    return st.builds(
        kind, **{name: values(hint) for name, hint in typing.get_type_hints(kind, include_extras=True).items()}
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_the_model_goes_through_json_and_back(kind: type[Any]) -> None:
    """Each dataclass with any content: a decoder that forgets one type gives back a dict or a list."""

    @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(values(kind))
    def goes_through(value: Any) -> None:
        assert through_json(kind, value) == value

    goes_through()


@pytest.mark.parametrize("evidence", [good(), twice_killed(), probed()], ids=["one crash", "two crashes", "probe"])
def test_evidence_is_the_same_and_of_the_same_types_behind_a_file(evidence: Evidence) -> None:
    """Equal is not enough: a `Word` that comes back as text compares equal, and is no `Word`."""
    failed = dataclasses.replace(evidence, failure=Failure(Word.HANG, "recovery", "waited 30 s"))
    again = through_json(Evidence, failed)
    assert again == failed
    assert again.failure.word is Word.HANG
    assert again.trial.kind is failed.trial.kind
    assert isinstance(again.looks[0].properties["legal-state"], Finding)
    assert isinstance(again.processes[0].command, tuple)


def test_results_and_plans_come_back_as_they_were() -> None:
    """The journal and plan.json."""
    for result in [*green_results(3), probe_result(900)]:
        assert through_json(Result, result) == result
    first = FirstPoint(1, Hit("a.b", 2, {"class": "once"}))
    recovery = Recovery(first, (Hit("c.d", 1, barrier=True),), (Hit("a.b", 1),))
    census = Census(((first.hit,), ()), (recovery,), (FailedRecovery(first, "ext4", "it hung"),))
    assert through_json(Census, census) == census
    plan = Plan((crash(1, CrashPoint(1, "a.b", 3), kind=Kind.PROBE),), 7, ("a.b",), ("torn",), 1)
    assert through_json(Plan, plan) == plan


def test_what_was_written_before_a_field_was_added_is_still_read() -> None:
    """Old runs stay readable: a field with a default may be missing, one without is said by its name."""
    data = to_json(Verdict(Word.VIOLATION, "lost", "durable", differs=DIFFERS))
    del data["broken"]
    assert from_json(Verdict, data) == Verdict(Word.VIOLATION, "lost", "durable", differs=DIFFERS)
    del data["word"]
    with pytest.raises(ValueError, match="word: Field required"):
        from_json(Verdict, data)
    with pytest.raises(ValueError, match="word: Input should be"):
        from_json(Verdict, {"word": "fine"})


def test_everything_can_be_sent_to_another_process() -> None:
    """Trials and evidence are plain data, so that blocks of them may run elsewhere."""
    for value in (good().trial, twice_killed(), green_results(1)[0]):
        assert pickle.loads(pickle.dumps(value)) == value


def test_a_point_is_written_as_it_is_armed() -> None:
    """`LAB_HOOK`, replay lines and the comparison of a hit with its armed hook all use this text."""
    assert str(CrashPoint(2, "log.synced", 17)) == str(Hit("log.synced", 17, {"class": "once"})) == "log.synced#17"
