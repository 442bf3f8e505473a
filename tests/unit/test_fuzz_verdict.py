"""A fuzz verdict is worth what its strictest link is worth: each link of its evidence is broken here by itself."""

from __future__ import annotations

import dataclasses

import pytest
from fuzz_evidence import (
    AUDITS,
    DIFFERS,
    HISTORY,
    LINE,
    LIVES,
    PLACES,
    PROMISES,
    WRONG_LINE,
    good,
    life,
    look,
    scenario,
    with_life,
    with_look,
)

from lab.model import (
    END,
    INVOKE,
    RECOVERS,
    START,
    CrashPoint,
    Evidence,
    Failure,
    Finding,
    Hit,
    Kind,
    Verdict,
    Word,
    catches,
)
from lab.trial.judge import in_brief, judge, waits_ms

REFUSED = Failure(Word.VIOLATION, "up", "it refused to start (exit code 75)")
SLOW = dataclasses.replace(DIFFERS, fact="op=status", why="the machine stood still")
LOST_MODE = dataclasses.replace(DIFFERS, fact="step=9 op=chat/set_mode", why="a mode is lost")


def judged(evidence: Evidence) -> Verdict:
    return judge(evidence, PROMISES, AUDITS)


def struck_otherwise(kill: CrashPoint, hit: Hit, armed: str | None = None) -> Evidence:
    """Good evidence whose second life is to be killed at another place, and is."""
    lives = (LIVES[0], dataclasses.replace(LIVES[1], kill=kill), *LIVES[2:])
    trial = dataclasses.replace(good().trial, script=scenario(lives=lives))
    return dataclasses.replace(with_life(2, hit=hit, armed=armed), trial=trial)


def test_a_whole_chain_of_evidence_passes() -> None:
    """Without this every other test here could pass because of some other link."""
    verdict = judged(good())
    assert (verdict.word, verdict.why, verdict.broken) == (Word.PASS, "", ())
    assert verdict.facts == {**dict.fromkeys((*PROMISES, *AUDITS), 9), RECOVERS: 2}


def test_what_only_some_engines_can_show_may_be_missing() -> None:
    """On a remote engine no /proc of the host can be read: the engine's own answers stand in for it."""
    assert judged(with_life(1, alive="engine", gone="engine", mount=None)).word is Word.PASS


@pytest.mark.parametrize(
    ("kill", "hit", "armed"),
    [
        (CrashPoint(2, "outbox.sent", 2), Hit("outbox.sent", 2), "outbox.sent#2"),
        (CrashPoint(2, "outbox.sent", 2), Hit(END, 1), "outbox.sent#2"),
        (CrashPoint(2, INVOKE, 3, 5), Hit(INVOKE, 3), None),
        (CrashPoint(2, INVOKE, 300), Hit(END, 1), None),
        (CrashPoint(2, START, after_ms=9), Hit(START, 9), None),
        (CrashPoint(2, END, after_ms=9), Hit(END, 1), None),
    ],
)
def test_each_kind_of_kill_passes_at_its_own_place_or_at_the_end_of_the_operations(
    kill: CrashPoint, hit: Hit, armed: str | None
) -> None:
    """A kill whose place is not reached strikes when the operations have ended."""
    assert judged(struck_otherwise(kill, hit, armed)).word is Word.PASS


NOTHING_SAID = {name: finding for name, finding in look().properties.items() if name != "prompts-once"}
UNCHECKED = {**look().properties, "prompts-once": Finding(0)}
NO_AUDIT = {name: finding for name, finding in look().properties.items() if name != "work-done"}
NOT_READ_BACK = tuple(line for line in HISTORY if line["event"] != "check")
READ_BACK_ONCE = tuple({**line, "final": False} if line["event"] == "check" else line for line in HISTORY)
FOUR = good().processes[:4]

LINKS: dict[str, tuple[Evidence, str]] = {
    "no hit": (with_life(1, hit=None), "process 1 was killed without a record of where it stood"),
    "another hook": (with_life(1, hit=Hit("chat.filed", 4)), "killed at chat.filed#4, but the script says chat.sync"),
    "another occurrence": (with_life(1, hit=Hit("chat.synced", 3)), "at chat.synced#3, but the script says"),
    "a hook that nobody armed": (
        with_life(4, hit=Hit("chat.synced", 4)),
        "at chat.synced#4, but the script says end",
    ),
    "another answer": (with_life(2, hit=Hit("answer", 2)), "killed at answer#2, but the script says answer#1"),
    "another moment": (with_life(2, hit=Hit("invoke", 1)), "killed at invoke#1, but the script says answer#1"),
    "another start": (with_life(3, hit=Hit(START, 2)), "killed at start#2, but the script says start#30"),
    "another fault": (with_life(3, fault="powercut"), "was struck by powercut, but the script says sigkill"),
    "no fault": (with_life(3, fault=None), "was struck by None, but the script says sigkill"),
    "not armed": (with_life(1, armed=None), "was armed at None, but the script says chat.synced#4"),
    "armed elsewhere": (with_life(1, armed="chat.synced#5"), "was armed at chat.synced#5, but the script"),
    "armed without a reason": (with_life(2, armed="chat.synced#1"), "process 2 was armed at chat.synced#1"),
    "not alive": (with_life(1, alive=None), "process 1 was not seen alive before it was killed"),
    "not gone": (with_life(3, gone=None), "process 3 was not seen gone"),
    "ended by SIGTERM": (with_life(1, exit_code=143), "process 1 ended with exit code 143, not 137"),
    "no exit code": (with_life(1, exit_code=None), "ended with exit code None"),
    "killed by its memory limit": (with_life(1, oom_killed=True), "killed by its memory limit"),
    "not known whether by its memory limit": (with_life(1, oom_killed=None), "killed by its memory limit"),
    "the last life killed by its memory limit": (
        with_life(5, oom_killed=True),
        "process 5 was killed by its memory limit",
    ),
    "137 by itself": (with_life(2, killed=False), "process 2 exited 137 by itself"),
    "the last one 137 by itself": (with_life(5, exit_code=137), "process 5 exited 137 by itself"),
    "the last life killed": (
        with_life(5, killed=True, exit_code=137, oom_killed=False, gone="psutil", hit=Hit(END, 1)),
        "process 5 was killed, and the script lets it live",
    ),
    "a killed life more than there are": (
        good(processes=(*good().processes, life(6, killed=True, hit=Hit("end", 1), exit_code=137))),
        "process 6 was killed, and the script lets it live",
    ),
    "a life is missing": (good(processes=(life(1), *good().processes[2:])), "it has processes [1, 3, 4, 5]"),
    "the verifier on another filesystem": (with_look(mount=WRONG_LINE), "not on ext4: /data is tmpfs"),
    "the verifier on no known filesystem": (with_look(mount=""), "not on ext4: not a line of mountinfo"),
    "a life on another filesystem": (with_life(3, mount=WRONG_LINE), "not on ext4: /data is tmpfs"),
    "on another device": (with_life(3, mount=LINE.replace("loop0", "loop7")), "not on /dev/loop0"),
}
MISSING: dict[str, tuple[Evidence, str]] = {
    "ended before the kill": (
        with_life(2, killed=False, exit_code=0, fault=None),
        "lives [1, 3, 4] were killed, of 5 all but the last",
    ),
    "a life more than there are": (
        dataclasses.replace(good(processes=(*good().processes, life(6)))),
        "6 of its 5 lives began",
    ),
    "no last life": (good(processes=FOUR), "4 of its 5 lives began"),
    "no life": (good(processes=()), "0 of its 5 lives began"),
    "the last life not alive": (with_life(5, alive=None), "its last life was not seen alive at the end"),
    "never read back at the end": (good(history=NOT_READ_BACK), "what is left was never read back at the end"),
    "read back, but not at the end": (good(history=READ_BACK_ONCE), "what is left was never read back at the end"),
    "no look": (good(looks=()), "the verifier never looked"),
    "a promise that was not looked at": (
        with_look(properties=NOTHING_SAID),
        "the verifier said nothing of prompts-once",
    ),
    "an audit that was not looked at": (with_look(properties=NO_AUDIT), "the verifier said nothing of work-done"),
    "an unknown verifier": (good(verifier=""), "the verifier never said who it is"),
}


def test_a_scenario_without_a_fact_of_some_property_passes() -> None:
    """Not every one has prompts: that the whole run compared some is asked by its report."""
    verdict = judged(with_look(properties=UNCHECKED))
    assert (verdict.word, verdict.facts["prompts-once"]) == (Word.PASS, 0)


def test_a_scenario_without_a_fact_of_any_promise_proves_nothing() -> None:
    """Reported: a trial with 0 facts for every property passed. An audit's facts are none of a promise's."""
    promised = {name: Finding(0) for name in look().properties if name not in AUDITS}
    verdict = judged(with_look(properties={**look().properties, **promised}))
    assert verdict.word is Word.INVALID and verdict.why.endswith("was checked on no fact")


@pytest.mark.parametrize("name", AUDITS)
def test_each_audit_of_a_scenario_owes_a_fact(name: str) -> None:
    """Nothing says otherwise whether the trial ran as it was asked to."""
    verdict = judged(with_look(properties={**look().properties, name: Finding(0)}))
    assert (verdict.word, verdict.why.partition(",")[0]) == (Word.INVALID, name)


@pytest.mark.parametrize("name", [*LINKS, *MISSING])
def test_a_broken_or_missing_link_makes_a_trial_invalid(name: str) -> None:
    """Planted: a campaign that is green because nothing was killed, seen or asked."""
    evidence, why = (LINKS | MISSING)[name]
    verdict = judged(evidence)
    assert verdict.word is Word.INVALID
    assert why in verdict.why


@pytest.mark.parametrize("name", [*LINKS, *MISSING])
def test_a_broken_link_is_told_before_a_broken_promise_and_a_missing_one_after_it(name: str) -> None:
    """What was seen behind a broken link proves nothing; what was never seen excuses nothing."""
    evidence = (LINKS | MISSING)[name][0]
    (seen,) = evidence.looks or (look(),)
    lost = {**seen.properties, "drafts-durable": Finding(9, DIFFERS)}
    verdict = judged(dataclasses.replace(evidence, looks=(dataclasses.replace(seen, properties=lost),)))
    assert verdict.word is (Word.INVALID if name in LINKS else Word.VIOLATION)


def test_a_broken_promise_is_a_violation_and_names_all_that_broke() -> None:
    """The first promised one is its name; a loss that nobody promised to prevent is told as well."""
    verdict = judged(good(looks=(look(prompts_once=DIFFERS, settings_kept=LOST_MODE),)))
    assert (verdict.word, verdict.property, verdict.differs) == (Word.VIOLATION, "prompts-once", DIFFERS)
    assert verdict.broken == ("prompts-once", "settings-kept")
    assert (verdict.why, verdict.look) == (DIFFERS.why, "end")


def test_a_difference_without_a_reason_says_what_differs() -> None:
    """A verdict without a why sends a person to the evidence."""
    bare = dataclasses.replace(DIFFERS, why="")
    assert judged(good(looks=(look(drafts_durable=bare),))).why == f"{DIFFERS.fact}: expected 'd2', found None"


@pytest.mark.parametrize("prop", ["settings-kept", "outbox-once"])
def test_a_loss_that_nobody_promised_to_prevent_is_a_note(prop: str) -> None:
    """Also of a property that is promised under another fault."""
    verdict = judged(good(looks=(look(**{prop.replace("-", "_"): LOST_MODE}),)))
    assert (verdict.word, verdict.property, verdict.broken) == (Word.NOTE, prop, (prop,))


def test_a_note_hides_no_missing_link_and_no_failure() -> None:
    """A note is green."""
    noted = look(settings_kept=LOST_MODE)
    assert judged(good(looks=(noted,), history=NOT_READ_BACK)).word is Word.INVALID
    failed = judged(good(looks=(noted,), failure=Failure(Word.HANG, "operations", "its operations to end")))
    assert (failed.word, failed.property, failed.broken) == (Word.HANG, "", ())


@pytest.mark.parametrize("prop", AUDITS)
def test_a_trial_that_did_not_run_as_asked_is_invalid_and_excuses_nothing(prop: str) -> None:
    """A stall of the machine would be called the daemon's, and a trial without work a pass. A loss stays one."""
    audited = look(**{prop.replace("-", "_"): SLOW})
    verdict = judged(good(looks=(audited,)))
    assert (verdict.word, verdict.property, verdict.broken) == (Word.INVALID, prop, ())
    assert catches(verdict, prop)
    noted = look(**{prop.replace("-", "_"): SLOW}, settings_kept=LOST_MODE)
    assert judged(good(looks=(noted,))).word is Word.INVALID
    lost = judged(good(looks=(look(**{prop.replace("-", "_"): SLOW}, drafts_durable=DIFFERS),)))
    assert (lost.word, lost.property, lost.broken) == (Word.VIOLATION, "drafts-durable", ("drafts-durable",))


def test_a_daemon_that_does_not_come_back_breaks_recovers() -> None:
    """It was killed and did not come back: that is work, whatever else was not done."""
    evidence = good(
        processes=(*FOUR[:2], life(3, killed=False, exit_code=75, gone=None, hit=None)),
        failure=REFUSED,
        looks=(look(work_done=SLOW),),
    )
    verdict = judged(evidence)
    assert (verdict.word, verdict.property, verdict.broken) == (Word.VIOLATION, RECOVERS, (RECOVERS,))
    assert verdict.why == "up: it refused to start (exit code 75)"


def test_a_daemon_that_does_not_come_back_and_has_lost_something_breaks_both() -> None:
    """Planted bugs of `recovers` were missed where the verifier had seen a loss before."""
    verdict = judged(good(failure=REFUSED, looks=(look(drafts_durable=DIFFERS),)))
    assert (verdict.word, verdict.property) == (Word.VIOLATION, "drafts-durable")
    assert catches(verdict, "drafts-durable") and catches(verdict, RECOVERS)
    noted = judged(good(failure=REFUSED, looks=(look(settings_kept=LOST_MODE),)))
    assert (noted.property, noted.broken) == (RECOVERS, (RECOVERS, "settings-kept"))


@pytest.mark.parametrize("word", [Word.HANG, Word.ERROR, Word.INVALID])
def test_a_trial_that_ended_early_is_never_green(word: Word) -> None:
    """And what broke before that stands; but a broken link says what it failed of as well."""
    failure = Failure(word, "operations", "its operations to end took too long")
    verdict = judged(good(failure=failure))
    assert (verdict.word, verdict.why) == (word, "operations: its operations to end took too long")
    assert judged(good(failure=failure, looks=(look(drafts_durable=DIFFERS),))).word is Word.VIOLATION
    both = judged(dataclasses.replace(with_life(1, gone=None), failure=failure))
    assert (both.word, both.why) == (Word.INVALID, f"process 1 was not seen gone after the kill ({verdict.why})")


def test_a_kill_that_could_not_be_written_down_any_more_is_no_broken_link_of_a_failed_trial() -> None:
    """The clients died with it: that is the failure, and it has to be told."""
    failure = Failure(Word.ERROR, "kill", "the clients ended")
    assert judged(good(processes=FOUR, failure=failure)).why == "kill: the clients ended"


def test_waits_are_counted_for_every_request_answered_or_not() -> None:
    """A request that the kill cut has waited until then."""
    assert waits_ms(HISTORY) == {"chat/new": (3.0,), "draft/set": (10.0,), "status": (2.5,)}
    assert waits_ms((HISTORY[1],)) == {}


def test_a_trial_in_brief_says_what_was_done_and_what_was_lost() -> None:
    """The line of the journal: all that a report knows of a trial, and not its thousand operations."""
    evidence = good(looks=(look(settings_kept=LOST_MODE),))
    brief = in_brief(evidence, judged(evidence), "evidence/0412")
    assert (brief.operations, brief.hits, brief.processes, brief.took_s) == (2, PLACES, 5, 0.625)
    assert brief.verdict.notes == ("settings-kept: step=9 op=chat/set_mode: a mode is lost",)
    assert (brief.mount, brief.verifier, brief.evidence, brief.up_ms) == (LINE, "fuzz 1", "evidence/0412", (300, 250))


def test_of_a_violation_the_notes_are_what_else_differed() -> None:
    """The property that it is named for is no note of itself, and never told twice."""
    evidence = good(looks=(look(drafts_durable=DIFFERS, settings_kept=LOST_MODE),))
    assert [note.partition(":")[0] for note in judged(evidence).notes] == ["settings-kept"]
    evidence = good(looks=(look(outbox_once=DIFFERS, settings_kept=LOST_MODE),))
    names = [note.partition(":")[0] for note in judged(evidence).notes]
    assert sorted(names) == ["outbox-once", "settings-kept"]


def test_a_trial_that_never_began_has_a_brief_as_well() -> None:
    """The engine may be gone before its first volume."""
    evidence = good(processes=(), looks=(), history=(), phases=(), verifier="", up_ms=())
    brief = in_brief(evidence, Verdict(Word.ERROR), None)
    assert (brief.operations, brief.processes, brief.hits, brief.took_s, brief.mount) == (0, 0, (), 0.0, "")


def test_a_planted_bug_s_trial_is_judged_like_any_other() -> None:
    """Planted: canaries judged by another rule than the trials that they vouch for."""
    for kind in (Kind.POINT, Kind.CANARY):
        trial = dataclasses.replace(good().trial, kind=kind, bug="draft-before-write")
        verdict = judged(good(trial=trial, looks=(look(drafts_durable=DIFFERS),)))
        assert (verdict.word, verdict.property) == (Word.VIOLATION, "drafts-durable")


def test_facts_are_those_of_promises_and_audits() -> None:
    """What is not promised must not swell the count of facts that a report is proud of."""
    properties = {**look().properties, "drafts-durable": Finding(41)}
    facts = judged(with_look(properties=properties)).facts
    assert facts["drafts-durable"] == 41
    assert "settings-kept" not in facts
