"""The picture of a red trial: what lies in which lane and when, what is marked, and how it looks in characters."""

from __future__ import annotations

import dataclasses

from report_evidence import BROKEN, LIVES, REMOVED, by_clients, of_itself

from lab.model import Process, Verdict, Word
from lab.report.render.lanes import lanes
from lab.report.text import WIDTH
from lab.report.timeline import OPERATIONS_SHOWN, timeline

PASSED = Verdict(Word.PASS)


def times(spans):
    return [(round(span.began_ms), round(span.ended_ms)) for span in spans]


def test_a_process_lasts_from_its_start_to_its_kill_and_recovers_inside():
    """By the phases of the trial: a picture that is out of step with the table below it misleads."""
    found = timeline(of_itself(), BROKEN)
    alive = [span for span in found.of("process") if span.kind == "process"]
    recoveries = [span for span in found.of("process") if span.kind == "recovery"]
    assert times(alive) == [(85, 440), (470, 615), (645, 1070)]
    assert times(recoveries) == [(470, 600), (645, 805)]
    assert alive[2].label == "process 3: kernel recover, exit 0"
    assert [(s.at_ms, s.label) for s in found.strikes] == [
        (440, "sigkill of process 1 at log.synced#17"),
        (615, "sigkill of process 2 at recovery.cut#1"),
    ]


def test_a_look_that_found_a_difference_is_marked():
    """The checker saw it there first: what happened before that look is what to read."""
    looks = timeline(of_itself(), BROKEN).of("checker")
    assert times(looks) == [(440, 470), (615, 645), (805, 835), (1035, 1070)]
    assert [span.state for span in looks] == ["", "", "broke", "broke"]
    assert looks[2].label == "look recovered: effects-exactly-once differs"


def test_the_ledgers_records_lie_between_the_looks_that_first_have_them():
    """They have no times: request 58 came after the recovery began, and its effect came after it."""
    found = timeline(of_itself(), BROKEN)
    at = {span.label.split(":")[0]: span for span in found.of("ledger")}
    assert at["request 41"].ended_ms < at["effect 41"].began_ms < 440
    assert 615 < at["request 58"].began_ms < at["effect 58"].began_ms < 805
    assert 805 < at["request 59"].began_ms < 1035
    marked = [label for label, span in at.items() if span.state == "broke"]
    assert marked == ["request 41", "effect 41", "request 58", "effect 58"]
    assert "spread evenly between two looks" in found.caption


def test_operations_without_times_are_in_order_and_that_is_said():
    """What a subject says of itself has no clock."""
    operations = timeline(of_itself(), BROKEN).of("operations")
    began = [span.began_ms for span in operations]
    assert began == sorted(began)
    assert all(85 < ms < 440 for ms in began[:9])
    assert operations[8].state == "open"  # the kill cut it
    assert operations[9].began_ms > 645
    assert "no times" in timeline(of_itself(), BROKEN).caption


def test_what_clients_sent_lies_by_their_clock_in_the_time_of_the_trial():
    """Their clock begins with their container: the first answer, which both have seen, sets it."""
    found = timeline(by_clients(), REMOVED)
    assert found.lanes == ("client 1", "client 2", "client 3", "process", "checker")
    assert times(found.of("client 1"))[0] == (370, 395)  # 10 ms after the daemon was up, at 360
    states = {span.label: span.state for lane in found.lanes[:3] for span in found.of(lane) if span.state}
    assert states == {"41 queue/remove c1 p41: ok": "broke", "44 queue/remove c1 p44: info": "open"}
    assert found.caption == ""


def test_the_operation_that_broke_is_shown_however_many_came_after_it():
    """A trial of ten thousand operations would be a black bar, or would lose what it is about."""
    sent = by_clients().history[1:3]
    many = [{**r, "id": n} | ({"step": 1000 + n} if "step" in r else {}) for n in range(500) for r in sent]
    found = timeline(by_clients(history=(*by_clients().history, *many)), REMOVED)
    shown = [span for lane in found.lanes if lane.startswith("client") for span in found.of(lane)]
    assert len(shown) == OPERATIONS_SHOWN + 1
    assert [span.label[:2] for span in shown if span.state == "broke"] == ["41"]
    assert f"{512 - OPERATIONS_SHOWN - 1} earlier operations are not shown" in found.caption


def test_racers_have_lanes_of_their_own_for_as_long_as_the_race():
    """They are alive together: in one lane nobody could tell them apart."""
    race = (*LIVES[:1], ("start", 50.0), ("hook", 50.0), ("restart", 10.0), ("restart", 10.0), ("race", 80.0))
    spent = of_itself().phases[:0]
    at_ms = 0.0
    for name, took in race:
        spent += (dataclasses.replace(of_itself().phases[0], name=name, began_ms=at_ms, took_ms=took),)
        at_ms += took
    racers = (Process(n, ("store", "race"), None, racer=n - 1) for n in (2, 3))
    processes = (Process(1, ("store", "run"), None), *racers)
    found = timeline(of_itself(phases=spent, processes=processes, looks=(), history=(), ledger={}), PASSED)
    assert found.lanes == ("process", "racer 1", "racer 2")
    assert times(found.of("racer 1")) == [(120, 220)]
    assert times(found.of("racer 2")) == [(130, 220)]


def test_a_trial_that_ended_before_it_began_has_no_picture():
    """The volume could not be made: nothing is drawn, and nothing is divided by zero."""
    empty = timeline(of_itself(phases=(), processes=(), looks=(), history=(), ledger={}), PASSED)
    assert (empty.spans, empty.length_ms) == ((), 0.0)
    assert list(lanes(empty)) == []


def test_in_characters_it_fits_the_screen_and_spells_out_its_marks():
    """A golden picture: lanes, faults as bars, what broke as exclamation marks."""
    assert "\n".join(lanes(timeline(by_clients(), REMOVED))) == (
        "client 1                            --    --    ---   ---      |\n"
        "client 2                              --    --    ---   ---    |\n"
        "client 3                                --    !!!   ---   ---  |\n"
        "process              ==========================================|~~~~~~~~~~==========================\n"
        "checker                                                        |                                 !!!\n"
        "time       0                                                                                1,295 ms\n"
        "           = runs   ~ recovers   - operation   o look   . request   * effect   ! what broke   |\n"
        "           fault\n"
        "|          770 ms: sigkill of process 1 at queue.removed#4\n"
        "!          520 ms, client 3: 41 queue/remove c1 p41: ok\n"
        "!          1,270 ms, checker: look end: removals-final differs"
    )


def test_a_subject_cannot_draw_outside_its_lane():
    """Names of operations are the daemon's own, and may hold line breaks, escape sequences or ten thousand letters."""
    history = tuple({**r, "op": "a\n\x1b[2J" + "b" * 10_000} if "op" in r else r for r in by_clients().history)
    text = list(lanes(timeline(by_clients(history=history), REMOVED)))
    assert all(line.isprintable() for line in text)
    assert max(map(len, text)) <= WIDTH + 20  # a long word is kept whole
    assert any(line.startswith("!") and "client 3" in line for line in text)
