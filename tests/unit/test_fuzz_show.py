"""`lab show` of a fuzz run: what a person looks for is there, and a long trial does not scroll it off the screen."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from fuzz_evidence import DIFFERS, HISTORY, KILLS, LIVES, UNNOTED, good, invoke, life, look, scenario
from fuzz_plan import plan
from report_fuzz_data import BUG, NOTE, RUN, canary, data, green, result
from run_folder import HEADER, new

from lab.cli import show as views
from lab.engine.errors import LabError, UsageError
from lab.fuzz import store
from lab.fuzz.model import FuzzEvidence
from lab.fuzz.store import Bounds
from lab.fuzz.verdict import in_brief, judge
from lab.model import Failure, Json, Look, Verdict, Word, to_json
from lab.report.fuzz_show import CHATS_SHOWN, LIVES_SHOWN, OPERATIONS_SHOWN, show_run, show_trial
from lab.report.show import UnknownTrial
from lab.run.record import Record
from lab.subject.load import Subject, load

CHAT: Json = {"draft": "d2", "queue": ["p9"], "running": None, "log": [{"prompt": "p3", "outcome": "done"}],
              "watches": [], "title": None, "mode": None, "unread": False, "decisions": {}}  # fmt: skip
PROMISES = {"drafts-durable": ("sigkill",)}


def shown(evidence: FuzzEvidence, **changes: object) -> str:
    """One trial by its evidence, as text."""
    brief = in_brief(evidence, judge(evidence, PROMISES, ()), UNNOTED, "evidence/0412")
    text = show_trial([dataclasses.replace(brief, **changes)], data(), 412, evidence)  # type: ignore[arg-type]
    assert max(map(len, text.splitlines())) <= 100, max(text.splitlines(), key=len)
    return text


def checked(chats: Sequence[str], read: dict[str, Json | None], number: int = 2, *, final: bool = False) -> Json:
    return {"event": "check", "life": number, "final": final, "observed": {"chats": chats, "read": read}, "at_ms": 9.0}


def test_a_run_says_where_it_ran_what_was_red_and_how_it_ended() -> None:
    """Planted: the last line of the journal instead of the whole end."""
    text = show_run([*green(), result(14, Word.HANG)], data())
    lines = text.splitlines()
    assert lines[0] == f"run {RUN}  fuzz of muxd, seed 7"
    assert any(line.split() == ["engine.version", "20.10.24"] for line in lines)
    assert f"1 red trial; look at one: lab show {RUN} 0014" in lines
    assert any(line.startswith("0014") and "hang" in line for line in lines)
    assert lines[-1].startswith("UNPROVEN") or lines[-2].startswith("UNPROVEN")
    assert max(map(len, lines)) <= 100
    assert "red trial" not in show_run(green(), data())


def test_a_green_trial_that_was_not_kept_is_shown_in_brief_and_says_how_to_keep_it() -> None:
    """The journal's line is all there is of it."""
    text = show_trial([*green(), result(20, notes=(NOTE,))], data(), 20)
    assert text.startswith("PASS ")
    assert "trial 0020 · overlay · sigkill" in text
    for part in ("killed at hook chat.synced#4, answer#7, start + 20 ms", "removals-final 7", "lab replay", "320 ms"):
        assert part in text
    assert "NOTE seed=7/20 step=12 op=chat/rename" in text
    assert "--evidence all" in text
    assert "(canary draft-before-write)" in show_trial([canary(20)], data(bugs=(BUG,)), 20)


def test_a_trial_that_is_not_there_names_those_that_are() -> None:
    """A typing error, or one that a run bounded by time never got to."""
    with pytest.raises(UnknownTrial, match=r"has no trial 0099; its trials are 0001 to 0012"):
        show_trial(green(), data(), 99)
    with pytest.raises(UnknownTrial, match=r"has no trial 0001; it has finished no trial"):
        show_trial([], data(), 1)


def test_a_whole_trial_is_told_life_by_life_with_each_answer_and_wait() -> None:
    """What was sent, by whom, what came, how long it took, and where the kill fell among it."""
    lines = [line.strip() for line in shown(good(look=look(drafts_durable=DIFFERS))).splitlines()]
    assert "life 1: muxd serve" in lines
    at = [next(n for n, line in enumerate(lines) if line.startswith(start)) for start in (
        "life 1:", "1  client 1  chat/new", ">    2  client 1  draft/set", "kill -9   at hook chat.synced#4",
        "life 5:", "idle", "final check: chats c1",
    )]  # fmt: skip
    assert at == sorted(at)
    sent = [" ".join(line.split()) for line in lines if "client 1" in line]
    assert sent[:2] == [
        "1 client 1 chat/new c1 -> ok 3.0 ms",
        "> 2 client 1 draft/set c1 d2 -> no answer: cut 10.0 ms",
    ]


def test_every_life_has_its_line_in_the_table_of_processes() -> None:
    """Alive before, killed at its place, exit 137, gone after: each link as it was seen, or not."""
    evidence = good(
        processes=(life(1), life(2, alive=None, oom_killed=None), life(3, oom_killed=True), life(4), life(5))
    )
    rows = {line.split()[0]: line.split() for line in shown(evidence).splitlines() if "psutil" in line}
    assert rows["1"] == ["1", "chat.synced#4", "chat.synced#4", "psutil", "SIGKILL", "137", "ok", "psutil"]
    assert rows["2"] == ["2", "-", "answer#1", "-", "SIGKILL", "137", "-", "psutil"]
    assert " ".join(rows["3"]).endswith("137 over its limit psutil")
    assert rows["5"] == ["5", "-", "-", "psutil", "no", "-", "-", "-"]


def test_the_look_says_of_each_property_how_many_facts_and_what_differs() -> None:
    """A pass of nothing must be seen to be one."""
    text = shown(good(look=look(drafts_durable=DIFFERS)))
    assert "look end (process 5)" in text
    assert "  9 ok     prompts-once" in text.replace("9 ok      ", "9 ok     ")
    assert "expected d2, found null (an acknowledged draft is lost)" in " ".join(text.split())
    assert "the oracle has not looked" in shown(good(look=None))


def test_a_failed_start_is_told_with_its_diagnosis_and_last_words() -> None:
    """Who holds the lock is the finding; the log of a killed life is in its own file."""
    refused = life(2, killed=False, exit_code=75, hit=None, gone=None, log="lock held by 1\nI give up\x1b[31m\n")
    evidence = good(
        processes=(life(1, log="of a killed one"), refused),
        kills=KILLS[:1],
        failure=Failure(Word.VIOLATION, "up", "it refused to start"),
        diagnosis="the lock is held by process 1 of the new container",
    )
    text = shown(evidence)
    for part in ("violation in up: it refused to start", "held by process 1 of the new", "last words of life 2"):
        assert part in text
    assert "I give up�[31m" in text and "\x1b" not in text
    assert "of a killed one" not in text


ODD: list[tuple[Json, str]] = [
    ({"event": "still", "ms": 1500.0, "at_ms": 7}, "the machine stood still for 1,500 ms"),
    ({"event": "settled", "idle": False}, "it never got idle"),
    ({"event": "check-failed", "life": 5, "why": "timeout"}, "what is left could not be read back: timeout"),
    ({"event": "error", "what": "no adapter"}, "the clients failed: no adapter"),
    (
        checked(["c1", "c2"], {"c1": CHAT, "c2": None}),
        "c1: draft d2; queue p9; running none; log p3 done; watches none",
    ),
    (checked(["c1", "c2"], {"c1": CHAT, "c2": None}), "c2: not there"),
    (checked([f"c{n}" for n in range(40)], {}), "check: chats c34, c35, c36, c37, c38, c39 (the last of 40)"),
    (invoke(77, 6, 400.0, life=5), "status             -> nothing was recorded"),
]


@pytest.mark.parametrize(("line", "said"), ODD, ids=[said[:30] for _, said in ODD])
def test_each_kind_of_event_is_told(line: Json, said: str) -> None:
    """Whoever reads a trial must not need the file for what happened in it."""
    assert said in shown(good(history=(*HISTORY, line)))


def test_a_short_pause_of_the_machine_is_no_event() -> None:
    """There are hundreds on a busy machine."""
    assert "stood still" not in shown(good(history=(*HISTORY, {"event": "still", "ms": 30.0, "at_ms": 7})))


def test_what_a_read_answered_is_told_like_a_check() -> None:
    """As JSON its first words are its least."""
    read = {**invoke(78, 6, 400.0, life=5), "op": "chat/read", "args": {"chat": "c1"}}
    answer = {"event": "ok", "id": 78, "result": CHAT, "at_ms": 401.0}
    assert "chat/read          c1 -> draft d2; queue p9; running none" in shown(good(history=(*HISTORY, read, answer)))


def long(history: tuple[Json, ...], seen: Look) -> FuzzEvidence:
    """Evidence of a scenario with 999 lives."""
    lives = (LIVES[0], *[LIVES[3]] * 997, LIVES[4])
    trial = dataclasses.replace(good().trial, scenario=scenario(lives=lives))
    between = [dataclasses.replace(life(4), number=number) for number in range(2, 999)]
    processes = (life(1), *between, dataclasses.replace(life(5), number=999))
    return good(trial=trial, processes=processes, kills=("end#1",) * 998, history=history, look=seen)


def test_a_long_trial_is_cut_and_the_operation_that_a_verdict_names_is_not() -> None:
    """A life may have a thousand operations, and a trial a thousand lives."""
    sent = [{**invoke(100 + n, 2, float(n)), "step": 10 + n} for n in range(1000)]
    named = dataclasses.replace(DIFFERS, fact="step=15 op=draft/set draft of c1")
    wide = {f"c{n}": CHAT for n in range(50)}
    history = [HISTORY[0], *sent, checked(list(wide), wide, 1)]
    for number in range(2, 1000):
        history += [{"event": "up", "life": number, "at_ms": 1.0}, checked(["c1"], {"c1": CHAT}, number)]
    text = shown(long(tuple(history), look(drafts_durable=named)))
    assert text.count("client 1") == OPERATIONS_SHOWN + 1
    assert ">   15  client 1" in text
    assert f"{1000 - OPERATIONS_SHOWN - 1:,} operations not shown" in text
    assert f"and {50 - CHATS_SHOWN} more chats" in text
    assert len(re.findall(r"^life \d+:", text, re.MULTILINE)) == LIVES_SHOWN
    assert len(re.findall(r"^\d+ .*psutil", text, re.MULTILINE)) == LIVES_SHOWN
    assert f"{999 - LIVES_SHOWN} other lives not shown" in text
    assert "life 999: muxd serve" in text


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A fuzz run of muxd with one lost draft, one pass and a canary."""
    monkeypatch.chdir(tmp_path)
    made = new()
    subject: Subject = load("muxd")
    made.write("run.json", to_json(dataclasses.replace(HEADER, campaign="fuzz", subject="muxd")))
    made.write("subject.json", subject.model_dump(mode="json"))
    return made


def filled(record: Record) -> FuzzEvidence:
    store.write_plan(record, plan(), Bounds(None, 2, 0), "lab/clients:1")
    evidence = good(look=look(drafts_durable=DIFFERS))
    verdict: Verdict = judge(evidence, PROMISES, ())
    store.write_evidence(record, "evidence/0412", evidence, verdict, None)
    record.begin_session()
    record.finished(in_brief(evidence, verdict, UNNOTED, "evidence/0412"))
    record.finished(result(413))
    record.end_session(interrupted=False)
    return evidence


def test_show_finds_a_fuzz_run_its_trials_and_their_evidence(record: Record) -> None:
    """From the files of the run alone."""
    filled(record)
    assert views.show("latest", None).startswith(f"run {record.path.name}  fuzz of muxd")
    assert ">    2  client 1  draft/set" in views.show("latest", 412)
    assert "in brief: the journal's line alone" in views.show("latest", 413)
    with pytest.raises(UsageError, match=r"has no trial 0007; its trials are 0412 to 0413"):
        views.show("latest", 7)


def test_the_list_of_runs_has_fuzz_runs_as_well(record: Record) -> None:
    """Planted: "it got no plan" of every fuzz run: it has none, its scenarios are drawn as it goes."""
    assert views.show(None, None).endswith("fuzz of muxd, seed 814467209: it got no plan")
    filled(record)
    assert views.show(None, None).endswith("fuzz of muxd, seed 814467209: 2 trials run, not finished")
    record.write("summary.json", {"exit_code": 1})
    assert views.show(None, None).endswith("2 trials run, a promise was broken")


def test_a_fuzz_run_is_not_compared(record: Record) -> None:
    """Its layers ran other scenarios: any difference would be said to be the layer's."""
    filled(record)
    for names in (("latest", None), ("latest", "latest")):
        with pytest.raises(UsageError, match="is a fuzz run: its layers ran other scenarios"):
            views.compare(*names)


def test_a_fuzz_run_that_was_stopped_before_its_first_trial_says_so(record: Record) -> None:
    """Not a traceback, and not a run of nothing."""
    with pytest.raises(LabError, match=r"has no fuzz.json: it was stopped before it got there"):
        views.show("latest", None)
    assert json.loads((record.path / "run.json").read_text())["campaign"] == "fuzz"
