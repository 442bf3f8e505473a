"""Scenarios are data that a seed gives again: on every machine, under every Python, years later from a corpus."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from fuzz_plan import HOOKS, MUXD, STRIKES, TEXTS, WEIGHTS, plan
from fuzz_plan import operations as with_weights
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.codec import from_json, to_json
from lab.model import PAUSE, CrashPoint, Op, Scenario
from lab.plan.plan_file import PlanFile, plan_of
from lab.plan.scenarios import LATER_MS, OCCURRENCES, RECENT, START_MS, scenario
from lab.subject.load import load
from lab.subject.spec import Hook

MANY = [scenario(plan(), HOOKS, 7, number) for number in range(1, 61)]
WRITES = {"draft/set": "text", "chat/rename": "title", "chat/set_mode": "mode", "outbox/send": "message",
          "prompt/send": "prompt", "watch/add": "path"}  # fmt: skip
REPEATED = (OUTBOX := "outbox/send", "prompt/send", "watch/add")
REFERS = {"queue/remove": "prompt", "permission/decide": "prompt", "watch/rm": "path"}
# Of scenarios 7/1 to 7/20. Whoever changes it makes every corpus and every `lab replay` name another scenario.
PINNED = "af53d37c2f205c24"


def everything(number: int = 12, seed: int = 7) -> str:
    return json.dumps(to_json(scenario(plan(), HOOKS, seed, number)), sort_keys=True)


def operations() -> Iterator[Op]:
    return (op for made in MANY for op in made.operations)


def strike(kill: CrashPoint) -> str:
    """Its kind, as a plan file names it."""
    return kill.hook if kill.is_moment else "hook"


def kills(at: str) -> list[CrashPoint]:
    return [kill for made in MANY for kill in made.kills if strike(kill) == at]


def test_the_same_seed_gives_the_same_scenario_byte_for_byte() -> None:
    """Planted: a set or a hash of the running process in the draw; `lab replay` then runs something else."""
    assert everything() == everything()
    many = "".join(everything(number) for number in range(1, 21))
    assert hashlib.sha256(many.encode()).hexdigest()[:16] == PINNED


def test_another_seed_or_number_is_another_scenario() -> None:
    """Planted: a stream of random numbers that trials share; one more worker then draws all of them anew."""
    assert len({everything(), everything(number=13), everything(seed=8), everything(seed=71, number=2)}) == 4
    assert everything(number=112, seed=7) != everything(number=12, seed=71)  # 7/1/12 is not 71/12


def test_a_scenario_survives_its_file() -> None:
    """It is stored with the evidence, given to the clients, and read back by `lab replay`."""
    assert from_json(Scenario, json.loads(everything())) == scenario(plan(), HOOKS, 7, 12)


@given(
    seed=st.integers(0, 2**63),
    clients=st.integers(1, 16),
    chats=st.integers(1, 50),
    kills=st.tuples(st.integers(1, 3), st.integers(3, 6)),
    names=st.sets(st.sampled_from(sorted(WEIGHTS))),
    strikes=st.sets(st.sampled_from(sorted(STRIKES)), min_size=1),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_plan_a_scenario_is_well_formed(
    seed: int, clients: int, chats: int, kills: tuple[int, int], names: set[str], strikes: set[str]
) -> None:
    """Steps unique and rising, known clients and chats, a kill for every life but the last, and nothing left out."""
    if "queue/remove" in names or "permission/decide" in names:
        names.add("prompt/send")  # which creates what they speak of
    weights = {name: WEIGHTS[name] for name in sorted({*names, "chat/new"})}
    made_by = with_weights(weights)
    things = {
        name: thing.model_copy(update={"most": chats if thing.most else None})
        for name, thing in MUXD.things.items()
        if name in {op.creates for op in made_by.values()}
    }
    texts = TEXTS if "prompt/send" in weights else {}
    drawn_from = plan(
        clients=clients,
        kills=kills,
        things=things,
        operations={name: op for name, op in made_by.items() if op.thing is None or op.thing in things},
        texts=texts,
        strikes={s: STRIKES[s] for s in sorted(strikes)},
    )
    made = scenario(drawn_from, HOOKS, seed, 1)
    steps = [op.step for life in made.lives for op in life.ops]
    assert steps == list(range(1, len(steps) + 1))
    assert {op.op for op in made.operations} <= set(weights)
    assert all(1 <= op.client <= clients for life in made.lives for op in life.ops)
    assert kills[0] <= len(made.kills) == len(made.lives) - 1 <= kills[1]
    assert [life.kill is None for life in made.lives] == [False] * len(made.kills) + [True]
    assert {strike(kill) for kill in made.kills} <= strikes
    assert [kill.life for kill in made.kills] == list(range(1, len(made.lives)))
    asked: set[str] = set()
    for op in made.operations:
        if op.op == "chat/new":
            asked.add(op.args["chat"])
        assert op.args.get("chat", "c1") in asked | {"c1"}
    assert len(asked) <= chats


def test_every_value_that_is_written_carries_its_step() -> None:
    """The oracle matches an answer to its write by that number: two writes of one value would hide a lost one."""
    assert {op.op for op in operations() if op.op in WRITES} == set(WRITES)
    for made in MANY:
        written: set[tuple[str, str]] = set()
        for op in (op for op in made.operations if op.op in WRITES):
            value = op.args[WRITES[op.op]]
            again = op.op in REPEATED and (op.op, value) in written
            assert again or value.lstrip("dtompw/") == str(op.step)
            written.add((op.op, value))


def test_now_and_then_the_same_is_sent_again() -> None:
    """As a client does that has got no answer: planted, and a prompt that was sent twice ran twice unseen."""
    for name in REPEATED:
        sent = [(made.name, str(op.args)) for made in MANY for op in made.operations if op.op == name]
        assert 0.02 < 1 - len(set(sent)) / len(sent) < 0.2, name


def test_some_messages_lose_their_first_reply() -> None:
    """Else the outside world answers in a millisecond, and no kill meets a message that waits."""
    sent = {(made.name, f"message:{op.args['message']}") for made in MANY for op in made.operations if op.op == OUTBOX}
    lost = {(made.name, effect) for made in MANY for effect in made.lost_replies}
    assert lost < sent
    assert 0.2 < len(lost) / len(sent) < 0.4


def test_removals_decisions_and_unwatches_are_of_what_was_written_before() -> None:
    """Else they ask nothing: the daemon says that there is none, whatever it has lost."""
    for made in MANY:
        there: dict[str, str] = {}  # what was written, and its chat
        for op in made.operations:
            if op.op in REFERS:
                named = op.args[REFERS[op.op]]
                assert (
                    there.setdefault(named, op.args["chat"] if named.endswith(str(op.step)) else "") == op.args["chat"]
                )
            elif op.op in WRITES:
                there[op.args[WRITES[op.op]]] = op.args.get("chat", "")
    referring = [op for op in operations() if op.op in REFERS]
    of_others = sum(not op.args[REFERS[op.op]].endswith(str(op.step)) for op in referring)
    assert of_others > 0.9 * len(referring)


def test_a_removal_is_of_a_recent_prompt_which_may_still_wait() -> None:
    """An old one has run: planted, and `removals-final` had no fact in a whole run."""
    for made in MANY:
        prompts: list[str] = []
        for op in made.operations:
            if op.op == "prompt/send" and op.args["prompt"] not in prompts:
                prompts.append(op.args["prompt"])
            elif op.op == "queue/remove" and prompts:
                assert op.args["prompt"] in prompts[-RECENT:]


def test_a_decision_is_of_a_prompt_that_asks_for_one() -> None:
    """Nothing else has a decision that could be lost."""
    for made in MANY:
        asking: list[str] = []
        for op in made.operations:
            if op.op == "prompt/send" and op.args["text"] == "ask":
                asking.append(op.args["prompt"])
            elif op.op == "permission/decide" and asking:
                assert op.args["prompt"] in asking
    assert {op.args["allow"] for op in operations() if op.op == "permission/decide"} == {True, False}


def test_every_client_operation_cue_and_pause_is_used() -> None:
    """What is never drawn is never tested."""
    assert {op.client for op in operations()} == {1, 2, 3}
    counts = Counter(op.op for op in operations())
    assert set(counts) == set(WEIGHTS)
    assert counts["prompt/send"] > counts["draft/set"] > counts["watch/rm"]
    cues = {op.args["text"].split()[0] for op in operations() if op.op == "prompt/send"}
    assert cues == {"reply", "ask", "slow"}
    slow = [int(op.args["text"].split()[1]) for op in operations() if op.args.get("text", "").startswith("slow")]
    assert all(2300 <= ms <= 2800 for ms in slow)
    pauses = [op.args["ms"] for made in MANY for life in made.lives for op in life.ops if op.op == PAUSE]
    assert min(pauses) >= 1 and max(pauses) <= 150


def test_a_text_that_is_no_choice_is_sent_as_it_stands() -> None:
    """A daemon that runs nothing, such as Redis."""
    made_by = with_weights(WEIGHTS)
    made_by["prompt/send"] = made_by["prompt/send"].model_copy(update={"args": {"text": ""}})
    made = scenario(plan(operations=made_by, texts={}), HOOKS, 7, 1)
    assert {op.args["text"] for op in made.operations if op.op == "prompt/send"} == {""}


def owed(plan_file: PlanFile, hooks: Sequence[Hook], numbers: range) -> Iterator[tuple[str, str]]:
    """Scenario and property of each last life that sends no operation which the property is checked on."""
    for number in numbers:
        made = scenario(plan_file, hooks, 7, number)
        sent = {op.op for op in made.lives[-1].ops}
        yield from ((made.name, prop) for prop, names in plan_file.exercised.items() if not sent & set(names))


def test_every_scenario_ends_with_an_operation_for_each_promise() -> None:
    """A trial that compares no fact of a promised property is invalid; only the last life sends all that it holds.

    Operations that are drawn too rarely to come by chance, in lives of three.
    """
    rare = plan(kills=(1, 1), ops=(1, 3), operations=with_weights(WEIGHTS | {"outbox/send": 0.01, "watch/add": 0.01}))
    assert list(owed(rare, HOOKS, range(1, 201))) == []
    by_chance = [scenario(rare, HOOKS, 7, number).lives[0].ops for number in range(1, 201)]
    assert sum("outbox/send" in {op.op for op in ops} for ops in by_chance) < 20


@pytest.mark.parametrize("name", ["muxd", "redis"])
def test_the_built_in_daemons_promise_nothing_that_their_scenarios_leave_out(name: str) -> None:
    """Every promise but that of answers in time, which every request is checked on, names its operations."""
    subject = load(name)
    plan_file = plan_of(subject)
    assert set(subject.promises) - {"answers-in-time"} == set(plan_file.exercised)
    assert list(owed(plan_file, subject.hooks, range(1, 101))) == []


def test_most_operations_go_to_one_chat_of_the_life() -> None:
    """Spread evenly, no queue ever builds up behind a running turn, and half of the promises are never tried."""
    shares = []
    for made in MANY:
        for life in made.lives:
            chats = Counter(op.args["chat"] for op in life.ops if op.op == "prompt/send")
            shares += [max(chats.values()) / chats.total()] if chats.total() >= 8 else []
    assert len(shares) > 10
    assert sum(shares) / len(shares) > 0.55


@pytest.mark.parametrize("at", STRIKES)
def test_each_kind_of_kill_is_drawn_in_its_bounds(at: str) -> None:
    """A kill that can never be reached strikes at the end, and tests that alone."""
    found = kills(at)
    assert found
    longest = max(len(life.ops) for made in MANY for life in made.lives)
    for kill in found:
        if at == "hook":
            assert kill.hook in {hook.name for hook in HOOKS} and kill.occurrence in OCCURRENCES
            assert kill.after_ms == 0
        else:
            assert 0 <= kill.after_ms <= (START_MS if at == "start" else LATER_MS)
            assert kill.occurrence == 1 if at in ("start", "end") else 1 <= kill.occurrence <= longest
    if at not in ("hook", "start"):
        assert {kill.after_ms > 0 for kill in found} == {True, False}


def test_a_hook_of_recovery_is_never_armed_in_the_first_life() -> None:
    """It recovers from nothing: such a kill would be one more at the end of the operations."""
    assert "recovery.cut" not in {made.lives[0].kill.hook for made in MANY if made.lives[0].kill}
    assert "recovery.cut" in {kill.hook for kill in kills("hook")}


def test_a_kill_at_an_answer_lies_within_its_own_life() -> None:
    """Planted: counted over the whole scenario, it would never be reached in a later life."""
    for made in MANY:
        for life in made.lives:
            if life.kill is not None and strike(life.kill) in ("answer", "invoke"):
                assert life.kill.occurrence <= len(life.ops)
