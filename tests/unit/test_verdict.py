"""The verdict is worth what its strictest link is worth: each link of the evidence chain is broken here by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
from trial_evidence import (
    DIFFERS,
    FIRST,
    LINE,
    PROMISES,
    SECOND,
    WRONG_LINE,
    crash,
    finished,
    good,
    killed,
    look,
    probed,
    twice_killed,
    with_look,
    with_process,
)

from lab.model import RECOVERS, CrashPoint, Evidence, Fact, Failure, Finding, Hit, LedgerCounts, Look, Process, Word
from lab.trial.judge import count_ledger, judge


@pytest.mark.parametrize("evidence", [good(), twice_killed(), probed()], ids=["one crash", "two crashes", "probe"])
def test_a_whole_chain_of_evidence_passes(evidence: Evidence) -> None:
    """Without this every other test here could pass because of some other link."""
    verdict = judge(evidence, PROMISES)
    assert (verdict.word, verdict.why, verdict.broken) == (Word.PASS, "", ())
    assert verdict.facts == {**{name: 9 * len(evidence.looks) for name in PROMISES}, RECOVERS: len(evidence.up_ms)}


def test_a_second_point_that_recovery_never_reaches_counts_as_a_single_crash() -> None:
    """The design's rule for second hooks that are drawn from the catalogue."""
    drawn = good(trial=twice_killed().trial, processes=(killed(FIRST), finished(2, armed=SECOND.place)))
    assert judge(drawn, PROMISES).word is Word.PASS


def test_a_second_point_that_a_census_has_reached_must_be_reached_again() -> None:
    """Planted: an exhaustive trial whose second crash never happens counts as if it had."""
    planned = crash(412, FIRST, SECOND, drawn="all")
    verdict = judge(good(trial=planned, processes=(killed(FIRST), finished(2, armed=SECOND.place))), PROMISES)
    assert (verdict.word, verdict.why) == (Word.INVALID, f"{SECOND}, which the census reached, was not reached")


def test_what_only_some_engines_can_show_may_be_missing() -> None:
    """On a remote engine no /proc of the host can be read: the engine's own answers stand in for it."""
    remote = with_process(good(), 1, alive="engine", gone="engine", mount=None)
    assert judge(remote, PROMISES).word is Word.PASS


NO_FACT = {**look("killed", 1).properties, "legal-state": Finding(0)}

BROKEN: dict[str, tuple[Evidence, str]] = {
    "no hit record": (with_process(good(), 1, hit=None), "killed without a record of where it stood"),
    "another hook": (
        with_process(good(), 1, hit=Hit("log.cut", 17)),
        "killed at log.cut#17, but the script says log.synced#17",
    ),
    "another occurrence": (with_process(good(), 1, hit=Hit("log.synced", 16)), "killed at log.synced#16, but"),
    "the record of a hook, and no hook armed": (with_process(good(), 1, armed=None), "was armed at None"),
    "armed elsewhere than the trial says": (
        with_process(good(), 1, armed="log.cut#2", hit=Hit("log.cut", 2)),
        "was armed at log.cut#2, but the script says log.synced#17",
    ),
    "a point that the trial has not": (
        good(processes=(killed(FIRST), finished(2, armed="a.b#1"))),
        "but the script says None",
    ),
    "not alive": (with_process(good(), 1, alive=None), "was not seen alive before it was killed"),
    "another fault": (with_process(good(), 1, fault="powercut"), "struck by powercut, but the script says sigkill"),
    "no fault": (with_process(good(), 1, fault=None), "struck by None, but the script says sigkill"),
    "killed where the script lets it live": (
        with_process(good(), 2, killed=True, exit_code=137),
        "process 2 was killed, and the script lets it live",
    ),
    "not gone": (with_process(good(), 1, gone=None), "was not seen gone"),
    "ended by SIGTERM": (with_process(good(), 1, exit_code=143), "ended with exit code 143, not 137"),
    "exit code 0": (with_process(good(), 1, exit_code=0), "ended with exit code 0, not 137"),
    "no exit code": (with_process(good(), 1, exit_code=None), "ended with exit code None"),
    "killed by its memory limit": (with_process(good(), 1, oom_killed=True), "killed by its memory limit"),
    "not known whether by its memory limit": (with_process(good(), 1, oom_killed=None), "memory limit"),
    "137 by itself": (with_process(good(), 1, killed=False), "exited 137 by itself"),
    "ended at its hook before the kill": (with_process(good(), 1, killed=False, exit_code=0), "before it was killed"),
    "nobody was killed": (with_process(good(), 1, killed=False, exit_code=0, hit=None), "nothing was killed"),
    "recovery out of memory": (with_process(good(), 2, oom_killed=True), "process 2 was killed by its memory limit"),
    "recovery exits 137": (with_process(good(), 2, exit_code=137), "process 2 exited 137 by itself"),
    "the second kill without its record": (with_process(twice_killed(), 2, hit=None), "process 2 was killed without"),
    "the second kill not seen gone": (with_process(twice_killed(), 2, gone=None), "process 2 was not seen gone"),
    "the subject on another filesystem": (with_process(good(), 1, mount=WRONG_LINE), "is tmpfs, not ext4"),
    "one look at another filesystem": (with_look(good(), 2, mount=WRONG_LINE), "is tmpfs, not ext4"),
    "a look without its filesystem": (with_look(good(), 0, mount=""), "not a line of mountinfo"),
    "another device": (with_look(good(), 1, mount=LINE.replace("loop0", "loop1")), "on /dev/loop1"),
    "no process that ends": (good(processes=(killed(FIRST),)), "no process came to its end"),
    "no process at all": (good(processes=()), "nothing was killed"),
    "the last process fails": (with_process(good(), 2, exit_code=1), "no process came to its end"),
    "the last process's end not seen": (with_process(good(), 2, exit_code=None), "no process came to its end"),
    "a look at the killed of another process": (with_look(twice_killed(), 1, process=1), "`killed` of process 2"),
    "a last look at another process": (with_look(good(), 2, process=1), "`end` of process 2"),
    "a property that no fact was checked of": (
        good(looks=tuple(dataclasses.replace(seen, properties=NO_FACT) for seen in good().looks)),
        "legal-state was checked on no fact",
    ),
    "a property that one look leaves out": (
        with_look(good(), 1, properties={"prefix-durable": Finding(9), "effects": Finding(9)}),
        "said nothing of legal-state at `recovered`",
    ),
    "no verifier": (good(verifier=""), "never said who it is"),
    "a probe that was reached": (
        good(trial=probed().trial),
        "it reached log.synced#17, which is not in the census",
    ),
    "a probe that was not armed": (with_process(probed(), 1, armed=None), "was armed at None"),
    "a probe that failed": (with_process(probed(), 1, exit_code=1), "no process came to its end"),
    "a probe that nobody looked at": (probed(looks=()), "never looked at `end`"),
}


@pytest.mark.parametrize(("evidence", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_one_broken_link_makes_a_trial_invalid(evidence: Evidence, why: str) -> None:
    """Each link in turn: a harness that does not ask for it would be green on a subject that was never killed."""
    verdict = judge(evidence, PROMISES)
    assert verdict.word is Word.INVALID
    assert why in verdict.why


@pytest.mark.parametrize("missing", range(4))
def test_a_look_that_is_missing_makes_a_trial_invalid(missing: int) -> None:
    """A verifier that is not asked finds nothing."""
    whole = twice_killed()
    verdict = judge(dataclasses.replace(whole, looks=whole.looks[:missing] + whole.looks[missing + 1 :]), PROMISES)
    assert verdict.word is Word.INVALID
    assert f"never looked at `{whole.looks[missing].name}`" in verdict.why


def test_a_look_may_find_no_fact_as_long_as_another_does() -> None:
    """A look right after the kill often cannot see any; the rule is over the whole trial."""
    assert judge(with_look(good(), 0, properties=NO_FACT), PROMISES).word is Word.PASS


def test_a_subject_that_promises_nothing_never_passes() -> None:
    """With no property there is nothing to fail: such a run must not be green."""
    nothing = good(looks=tuple(dataclasses.replace(seen, properties={}) for seen in good().looks))
    assert judge(nothing, {}).word is Word.INVALID


def deletions(evidence: Evidence) -> Iterator[tuple[str, Evidence]]:
    """The evidence without one piece, for every piece that the chain rests on."""
    for p in evidence.processes:
        fields = ["hit", "alive", "exit_code", "oom_killed", "gone", "armed", "fault"] if p.killed else ["exit_code"]
        for name in fields:
            yield f"process {p.number} {name}", with_process(evidence, p.number, **{name: None})
        yield f"process {p.number} killed", with_process(evidence, p.number, killed=not p.killed)
        rest = tuple(q for q in evidence.processes if q is not p)
        yield f"process {p.number}", dataclasses.replace(evidence, processes=rest)
    for i, seen in enumerate(evidence.looks):
        yield f"look {i}", dataclasses.replace(evidence, looks=evidence.looks[:i] + evidence.looks[i + 1 :])
        yield f"look {i} mount", with_look(evidence, i, mount="")
        for name in PROMISES:
            rest_of = {k: v for k, v in seen.properties.items() if k != name}
            yield f"look {i} {name}", with_look(evidence, i, properties=rest_of)
    yield "verifier", dataclasses.replace(evidence, verifier="")


@pytest.mark.parametrize("whole", [good, twice_killed, probed])
def test_without_any_single_piece_of_its_evidence_no_trial_passes(whole: Callable[[], Evidence]) -> None:
    """A piece that can go without a verdict noticing is a link that nobody checks."""
    green = [name for name, less in deletions(whole()) if judge(less, PROMISES).word in (Word.PASS, Word.NOTE)]
    assert green == []


@pytest.mark.parametrize("at", range(3))
def test_a_difference_at_any_look_breaks_the_promise(at: int) -> None:
    """A loss that recovery hides again, or that only the resumed work shows, is a loss."""
    name = good().looks[at].name
    verdict = judge(with_look(good(), at, properties=look(name, 1, prefix_durable=DIFFERS).properties), PROMISES)
    assert (verdict.word, verdict.property, verdict.look) == (Word.VIOLATION, "prefix-durable", name)
    assert verdict.differs == DIFFERS
    assert verdict.why == "the acknowledged record 41 is lost"


@pytest.mark.parametrize("differs", [Fact("n", 0, 1), Fact("", None, None)])
def test_a_difference_without_a_reason_is_told_by_its_values(differs: Fact) -> None:
    """A verifier of a user's need not explain itself; a difference of falsy values is one all the same."""
    verdict = judge(with_look(good(), 2, properties=look("end", 2, legal_state=differs).properties), PROMISES)
    assert verdict.word is Word.VIOLATION
    assert f"expected {differs.expected!r}, found {differs.found!r}" in verdict.why
    assert verdict.broken == ("legal-state",)


@pytest.mark.parametrize("name", ["effects", "unheard-of"])
def test_a_loss_that_nobody_promised_to_prevent_is_a_note(name: str) -> None:
    """`effects` is promised for a power cut only, `unheard-of` not at all: a SIGKILL breaks no promise of theirs."""
    properties = {**look("end", 2).properties, name: Finding(3, DIFFERS)}
    verdict = judge(with_look(good(), 2, properties=properties), PROMISES)
    assert (verdict.word, verdict.property) == (Word.NOTE, name)


def test_the_same_loss_under_the_promised_fault_is_a_violation() -> None:
    """The fault decides, not the property alone."""
    cut = dataclasses.replace(FIRST, fault="powercut")
    evidence = good(trial=crash(412, cut), processes=(killed(cut), finished(2)))
    lost = with_look(evidence, 2, properties=look("end", 2, effects=DIFFERS).properties)
    assert judge(lost, PROMISES).word is Word.VIOLATION


CUT_LATER = dataclasses.replace(SECOND, fault="powercut")
BOTH_FAULTS = twice_killed(
    trial=crash(413, FIRST, CUT_LATER), processes=(killed(FIRST), killed(CUT_LATER), finished(3))
)


@pytest.mark.parametrize(("at", "word"), [(0, Word.VIOLATION), (1, Word.NOTE), (3, Word.NOTE)])
def test_a_promise_holds_until_a_fault_strikes_that_it_does_not_survive(at: int, word: Word) -> None:
    """Planted: the power cut that is yet to come excuses what a SIGKILL has lost."""
    assert judge(BOTH_FAULTS, PROMISES).word is Word.PASS
    seen = BOTH_FAULTS.looks[at]
    lost = with_look(BOTH_FAULTS, at, properties=look(seen.name, seen.process, prefix_durable=DIFFERS).properties)
    assert (judge(lost, PROMISES).word, judge(lost, PROMISES).property) == (word, "prefix-durable")
    assert bool(judge(lost, PROMISES).notes) == (word is Word.NOTE)


def test_a_fault_that_never_came_to_strike_excuses_no_loss() -> None:
    """Planted: the second point is not reached, and its power cut makes a note of what the SIGKILL has lost."""
    once = good(trial=BOTH_FAULTS.trial, processes=(killed(FIRST), finished(2, armed=SECOND.place)))
    lost = with_look(once, 2, properties=look("end", 2, prefix_durable=DIFFERS).properties)
    assert judge(lost, PROMISES).word is Word.VIOLATION


@pytest.mark.parametrize(("survives", "word"), [(("sigkill",), Word.VIOLATION), (("powercut",), Word.NOTE)])
def test_a_subject_may_say_which_faults_it_recovers_from(survives: tuple[str, ...], word: Word) -> None:
    """`recovers` is promised after every fault, unless the subject says after which."""
    died = early(Word.VIOLATION, "recovery", (killed(FIRST), finished(2, exit_code=65)), (look("killed", 1),))
    assert judge(died, {**PROMISES, RECOVERS: survives}).word is word


def test_a_broken_promise_is_never_hidden_behind_a_note() -> None:
    """A note at an earlier look, or earlier in the alphabet, would make a violation green."""
    noted = look("killed", 1, effects=DIFFERS).properties
    broken = look("end", 2, prefix_durable=DIFFERS, effects=DIFFERS).properties
    verdict = judge(with_look(with_look(good(), 0, properties=noted), 2, properties=broken), PROMISES)
    assert (verdict.word, verdict.property) == (Word.VIOLATION, "prefix-durable")
    assert verdict.broken == ("effects", "prefix-durable")


def test_a_trial_with_a_note_still_owes_its_whole_chain() -> None:
    """A note is green: it must not be a way round a missing look or an unchecked property."""
    noted = with_look(good(), 0, properties=look("killed", 1, effects=DIFFERS).properties)
    assert judge(noted, PROMISES).word is Word.NOTE
    assert judge(dataclasses.replace(noted, looks=noted.looks[:2]), PROMISES).word is Word.INVALID
    hung = dataclasses.replace(noted, looks=noted.looks[:1], failure=Failure(Word.HANG, "recovery", "waited 30 s"))
    assert judge(hung, PROMISES).word is Word.HANG


def test_the_first_difference_is_the_earliest_look_and_the_promised_property() -> None:
    """What a person reads first must be where it broke, not where it was noticed last."""
    recovered = look("recovered", 2, legal_state=DIFFERS, effects=DIFFERS).properties
    end = look("end", 2, prefix_durable=DIFFERS).properties
    verdict = judge(with_look(with_look(good(), 1, properties=recovered), 2, properties=end), PROMISES)
    assert (verdict.property, verdict.look) == ("legal-state", "recovered")
    assert verdict.broken == ("effects", "legal-state", "prefix-durable")


def test_a_difference_behind_a_broken_link_is_invalid_and_no_violation() -> None:
    """Nothing that was seen behind a broken link counts, for or against the subject."""
    lost = look("end", 2, prefix_durable=DIFFERS).properties
    for changes in ({"exit_code": 143}, {"hit": None}, {"alive": None}, {"gone": None}, {"mount": WRONG_LINE}):
        broken = with_look(with_process(good(), 1, **changes), 2, properties=lost)
        assert judge(broken, PROMISES).word is Word.INVALID
    for by_itself in ({"hit": None}, {"hit": Hit("log.synced", 17)}):
        unkilled = with_process(good(), 1, killed=False, exit_code=0, **by_itself)
        assert judge(with_look(unkilled, 2, properties=lost), PROMISES).word is Word.INVALID


def early(word: Word, phase: str, processes: tuple[Process, ...], looks: tuple[Look, ...] = ()) -> Evidence:
    """A trial that ended in `phase`."""
    return good(processes=processes, looks=looks, failure=Failure(word, phase, "what happened"))


@pytest.mark.parametrize("word", [Word.HANG, Word.ERROR, Word.INVALID])
def test_a_trial_that_ended_early_says_where(word: Word) -> None:
    """Each with a process that never got to its hook, and with nothing at all."""
    for processes in ((), (Process(1, ("kernel", "run"), FIRST.place),)):
        verdict = judge(early(word, "hook", processes), PROMISES)
        assert (verdict.word, verdict.why) == (word, "hook: what happened")


@pytest.mark.parametrize("word", [Word.HANG, Word.ERROR])
def test_a_kill_that_could_not_be_seen_to_its_end_is_its_own_failure(word: Word) -> None:
    """A process that outlived SIGKILL is a hang, an engine that went away an error: neither is a missing link."""
    struck = killed(FIRST, exit_code=None, oom_killed=None, gone=None)
    assert judge(early(word, "kill", (struck,)), PROMISES).word is word
    standing = killed(FIRST, killed=False, exit_code=None, oom_killed=None, gone=None)
    assert judge(early(word, "kill", (standing,)), PROMISES).word is word


def test_an_end_that_nobody_saw_is_excused_only_by_a_failure() -> None:
    """Without one the trial went on, and what it saw later lies behind a broken link."""
    whole = twice_killed(looks=(look("killed", 1), look("recovered", 3), look("end", 3, prefix_durable=DIFFERS)))
    assert judge(with_process(whole, 2, exit_code=None), PROMISES).word is Word.INVALID


def test_a_failure_does_not_hide_a_link_that_was_seen_broken() -> None:
    """A wrong exit code or hook was seen, whatever came later."""
    for changes in ({"exit_code": 143}, {"hit": None}, {"oom_killed": True}, {"mount": WRONG_LINE}):
        hung = early(Word.HANG, "recovery", (killed(FIRST, **changes),), (look("killed", 1),))
        assert judge(hung, PROMISES).word is Word.INVALID


def test_a_difference_seen_before_a_trial_ended_early_is_a_violation() -> None:
    """A subject that loses data and then hangs has lost data."""
    seen = look("killed", 1, prefix_durable=DIFFERS)
    hung = early(Word.HANG, "recovery", (killed(FIRST), Process(2, ("kernel", "recover"), None)), (seen,))
    assert judge(hung, PROMISES).word is Word.VIOLATION


def test_a_recovery_that_dies_breaks_the_property_recovers() -> None:
    """The one property that the lab decides by itself; no verifier is needed, but a real kill is."""
    died = early(Word.VIOLATION, "recovery", (killed(FIRST), finished(2, exit_code=65)), (look("killed", 1),))
    verdict = judge(died, PROMISES)
    assert (verdict.word, verdict.property, verdict.broken) == (Word.VIOLATION, RECOVERS, (RECOVERS,))
    assert "recovery: what happened" in verdict.why
    unkilled = early(Word.VIOLATION, "recovery", (finished(1, armed=FIRST.place), finished(2, exit_code=65)))
    assert judge(unkilled, PROMISES).word is Word.INVALID
    starved = early(Word.VIOLATION, "recovery", (killed(FIRST), finished(2, exit_code=137, oom_killed=True)))
    assert judge(starved, PROMISES).word is Word.INVALID


def test_a_hook_name_is_compared_whole() -> None:
    """`log.synced#1` is a beginning of `log.synced#17`."""
    trial = crash(412, CrashPoint(1, "log.synced", 1))
    assert judge(with_process(good(trial=trial), 1, armed="log.synced#1"), PROMISES).word is Word.INVALID


def test_the_ledger_is_counted_by_its_own_records() -> None:
    """Sums that mix requests and effects would let a campaign without any re-send look busy."""

    def send(effect: str, result: str) -> dict[str, object]:
        return {"do": "send", "effect": effect, "result": result}

    requests = [
        *(send("a", "landed"), send("a", "deduped"), send("a", "deduped")),
        *(send("b", "landed"), send("c", "fenced"), {"do": "fence", "effect": "c", "result": "raised"}),
        *({"do": "receipt", "effect": e, "result": r} for e, r in (("a", "found"), ("c", "none"))),
        {"do": None, "result": "malformed"},
    ]
    counts = count_ledger({"requests": requests, "effects": [{"effect": "a"}, {"effect": "b"}]})
    assert counts == LedgerCounts(resent=1, deduped=2, fenced=1, receipts=1, effects=2)
    assert count_ledger({}) == LedgerCounts()
