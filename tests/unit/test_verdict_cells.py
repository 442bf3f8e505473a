"""The verdict on what only cells do: a race, a moment, and properties that say whether a trial ran as it was asked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from trial_evidence import (
    DIFFERS,
    FIRST,
    PROMISES,
    SECOND,
    crash,
    finished,
    good,
    killed,
    look,
    with_look,
    with_process,
)

from lab.model import (
    ANSWER,
    CrashPoint,
    Evidence,
    Failure,
    Finding,
    Hit,
    Look,
    Process,
    Verdict,
    Word,
    catches,
)
from lab.trial.judge import judge

AUDIT = "ran-in-mode"
RACERS = 8
MOMENT = CrashPoint(1, ANSWER, 205)


def racer(number: int, **changes: Any) -> Process:
    """A racer that lost, in the process of that number; the first racer is process 2."""
    process = Process(number, ("store", "race"), None, exit_code=10, oom_killed=False, racer=number - 1)
    return dataclasses.replace(process, **changes)


def raced(**changes: Any) -> Evidence:
    """A whole run, eight racers of whom one won, and a recovery to its end."""
    racers = [racer(number, exit_code=0 if number == 4 else 10) for number in range(2, 2 + RACERS)]
    evidence = good(
        trial=crash(7, racers=RACERS, drawn="cover"),
        processes=(finished(1), *racers, finished(2 + RACERS)),
        looks=(look("recovered", 2 + RACERS), look("end", 2 + RACERS)),
    )
    return dataclasses.replace(evidence, **changes)


def killed_then_raced() -> Evidence:
    """Killed, raced for what was left, and killed again in the recovery."""
    last = 3 + RACERS
    return good(
        trial=crash(8, FIRST, SECOND, racers=RACERS, drawn="cover"),
        processes=(
            killed(FIRST),
            *(racer(number) for number in range(2, 2 + RACERS)),
            killed(SECOND, number=last - 1),
            finished(last),
        ),
        looks=(look("killed", 1), look("killed", last - 1), look("recovered", last), look("end", last)),
    )


def at_a_moment(**changes: Any) -> Evidence:
    """Killed soon after an acknowledgement; nothing was armed, and nothing stood still."""
    process = killed(MOMENT, hit=Hit(ANSWER, 205))
    return good(trial=crash(9, MOMENT), processes=(process, finished(2)), **changes)


def audited(evidence: Evidence, *findings: Finding) -> Evidence:
    """With a finding of the audit at each look."""
    looks = tuple(
        dataclasses.replace(seen, properties={**seen.properties, AUDIT: finding})
        for seen, finding in zip(evidence.looks, findings, strict=True)
    )
    return dataclasses.replace(evidence, looks=looks)


@pytest.mark.parametrize("evidence", [raced(), killed_then_raced(), at_a_moment()], ids=["race", "both", "moment"])
def test_a_whole_chain_of_evidence_passes(evidence: Evidence) -> None:
    """A race needs no kill, and a moment no armed hook. Without this the other tests could pass for another reason."""
    verdict = judge(evidence, PROMISES)
    assert (verdict.word, verdict.why) == (Word.PASS, "")


def test_racers_do_not_shift_the_point_that_the_recovery_is_armed_at() -> None:
    """Planted: the second point is looked for in process 2, which is a racer."""
    both = killed_then_raced()
    unarmed = with_process(both, 2 + RACERS, armed=None)
    assert (judge(unarmed, PROMISES).word, "was armed at None" in judge(unarmed, PROMISES).why) == (Word.INVALID, True)
    armed = with_process(both, 2, armed=SECOND.place)
    assert f"process 2 was armed at {SECOND}, but the script says None" in judge(armed, PROMISES).why


BROKEN: dict[str, tuple[Evidence, str]] = {
    "the end of a racer was not seen": (with_process(raced(), 5, exit_code=None), "7 of 8 racers were seen"),
    "a racer too few": (
        raced(
            processes=(finished(1), *(racer(n) for n in range(2, 1 + RACERS)), finished(1 + RACERS)),
            looks=(look("recovered", 1 + RACERS), look("end", 1 + RACERS)),
        ),
        "7 of 8 racers were seen",
    ),
    "a racer that is missing in the middle": (
        raced(processes=tuple(p for p in raced().processes if p.number != 5)),
        "one is missing",
    ),
    "no racers, where none were asked for": (
        good(trial=crash(412, FIRST, racers=RACERS)),
        "0 of 8 racers were seen",
    ),
    "racers that nobody asked for": (
        dataclasses.replace(killed_then_raced(), trial=crash(8, FIRST, SECOND)),
        "8 of 0 racers",
    ),
    "a racer out of memory": (with_process(raced(), 5, oom_killed=True), "process 5 was killed by its memory limit"),
    "a racer that somebody else killed": (with_process(raced(), 5, exit_code=137), "exited 137 by itself"),
    "no recovery after the race": (raced(processes=raced().processes[:-1]), "no process came to its end"),
    "no look at what recovered": (raced(looks=raced().looks[1:]), "never looked at `recovered`"),
    "the answer of another moment": (
        with_process(at_a_moment(), 1, hit=Hit(ANSWER, 204)),
        "was killed at answer#204, but the script says answer#205",
    ),
    "no answer": (with_process(at_a_moment(), 1, hit=None), "killed without a record of where it stood"),
    "a writer that was not alive": (
        with_process(at_a_moment(), 1, alive=None),
        "was not seen alive before it was killed",
    ),
    "a writer that had ended before the kill": (
        with_process(at_a_moment(), 1, killed=False, exit_code=0),
        "stood at answer#205 and ended with exit code 0 before it was killed",
    ),
}


@pytest.mark.parametrize(("evidence", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_one_broken_link_makes_a_trial_invalid(evidence: Evidence, why: str) -> None:
    """Each link in turn."""
    verdict = judge(evidence, PROMISES)
    assert verdict.word is Word.INVALID
    assert why in verdict.why


def test_the_verifier_and_not_the_lab_judges_a_racer_that_crashed() -> None:
    """Exit code 1 is a whole chain: what it means is the cell's to say, and it says that it is no loser."""
    assert judge(with_process(raced(), 5, exit_code=1), PROMISES).word is Word.PASS
    differs = with_look(raced(), 0, properties=look("recovered", 2 + RACERS, legal_state=DIFFERS).properties)
    assert judge(differs, PROMISES).word is Word.VIOLATION


def test_a_trial_with_a_point_is_not_excused_from_its_kill_by_a_race() -> None:
    """Planted: no kill is needed once there are racers."""
    unkilled = with_process(killed_then_raced(), 1, killed=False, exit_code=0, hit=None)
    unkilled = with_process(unkilled, 2 + RACERS, killed=False, exit_code=0, hit=None)
    assert judge(unkilled, PROMISES).why == "nothing was killed"
    neither = raced(trial=crash(7), processes=(finished(1), finished(2)))
    assert judge(neither, PROMISES).why == "nothing was killed"


CHECKED = (Finding(0), Finding(3), Finding(3))


def test_an_audit_that_holds_is_no_promise_and_no_note() -> None:
    """It is counted, and the trial passes."""
    verdict = judge(audited(good(), *CHECKED), PROMISES, (AUDIT,))
    assert (verdict.word, verdict.facts[AUDIT]) == (Word.PASS, 6)


@pytest.mark.parametrize("at", range(3))
def test_a_difference_of_an_audit_makes_the_trial_invalid_whatever_else_was_seen(at: int) -> None:
    """Planted: a leg named `delete` that ran in WAL is green, or its loss a violation of what DELETE promises."""
    findings = [Finding(2, DIFFERS if n == at else None) for n in range(3)]
    for evidence in (good(), with_look(good(), 0, properties=look("killed", 1, legal_state=DIFFERS).properties)):
        verdict = judge(audited(evidence, *findings), PROMISES, (AUDIT,))
        assert (verdict.word, verdict.property, verdict.look) == (Word.INVALID, AUDIT, good().looks[at].name)
        assert (verdict.why, verdict.differs) == (DIFFERS.why, DIFFERS)
        assert AUDIT not in verdict.broken, "it is no promise"
        assert catches(verdict, AUDIT)
        assert not catches(verdict, "legal-state")


NEVER_CHECKED = [
    (Finding(0), f"{AUDIT}, which says whether it ran as asked, was checked on no fact"),
    (None, f"the verifier said nothing of {AUDIT} at `killed`"),
]


@pytest.mark.parametrize(("finding", "why"), NEVER_CHECKED, ids=["no fact", "not answered"])
def test_a_trial_whose_audit_was_never_checked_is_invalid(finding: Finding | None, why: str) -> None:
    """Planted: the mode that it ran in is not known, and it is green."""
    evidence = audited(good(), *[finding] * 3) if finding else good()
    verdict = judge(evidence, PROMISES, (AUDIT,))
    assert (verdict.word, verdict.property) == (Word.INVALID, "")
    assert why in verdict.why


def test_an_audit_alone_proves_no_trial() -> None:
    """Facts about how it ran are none about what it promises."""
    looks: tuple[Look, ...] = tuple(dataclasses.replace(seen, properties={AUDIT: Finding(3)}) for seen in good().looks)
    assert judge(good(looks=looks), {}, (AUDIT,)).word is Word.INVALID


def test_a_property_that_is_no_audit_of_this_subject_is_a_note() -> None:
    """Nothing is an audit by its name."""
    verdict = judge(audited(good(), Finding(3, DIFFERS), Finding(3), Finding(3)), PROMISES)
    assert (verdict.word, verdict.property) == (Word.NOTE, AUDIT)


def test_a_race_that_was_not_begun_ends_in_its_own_word() -> None:
    """Planted: a hang of the writer before a race is called a trial in which nothing was killed."""
    stuck = Process(1, ("store", "run"), None)
    hung = raced(processes=(stuck,), looks=(), failure=Failure(Word.HANG, "hook", "waited 30 s for it to end"))
    assert judge(hung, PROMISES).word is Word.HANG


CAUGHT = [
    (Verdict(Word.VIOLATION, property="a", broken=("a", "b")), "b", True),
    (Verdict(Word.VIOLATION, property="a", broken=("a",)), "b", False),
    (Verdict(Word.NOTE, property="a", broken=("a",)), "a", False),
    (Verdict(Word.PASS), "", False),
    (Verdict(Word.HANG), "", False),
    (Verdict(Word.INVALID, property="a", broken=("a", "b")), "a", True),
    (Verdict(Word.INVALID, property="a", broken=("a", "b")), "b", False),
    (Verdict(Word.INVALID, "a broken link"), "a", False),
]


@pytest.mark.parametrize(("verdict", "prop", "caught"), CAUGHT)
def test_a_bug_is_caught_by_the_property_that_is_named_for_it_alone(verdict: Verdict, prop: str, caught: bool) -> None:
    """Planted: any red trial catches any bug. An audit that differs is the invalid verdict's own property."""
    assert catches(verdict, prop) is caught
