"""subject.toml: whatever is wrong with it is told with its file, its key and the reason, before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.codec import from_json, to_json
from lab.engine.errors import UsageError
from lab.model import RECOVERS
from lab.subject.load import IMAGES, SUBJECTS, check_faults, load
from lab.subject.spec import Subject, hooks_of

SUBJECT = """
[subject]
name    = "mine"
image   = "mine:1"
data    = "/data"
uid     = 1000
run     = ["mine", "run"]
recover = ["mine", "recover"]
memory_mb = 128

[workload]
kind = "agent-tasks"

[hooks]
catalogue = "hooks.toml"
expected  = 3
barrier   = "recovery.done"

[verifier]
image   = "build:."
command = ["verify", "mine"]

[promises]
durable = ["sigkill"]

[ledger]
hold_at = "intent.sent"

[coverage]
windows = ["intent.sent"]
by      = "class"
values  = ["once"]
ledger  = ["resent"]

[deadlines_s]
hook = 10
look = 2.5

[bugs]
catalogue = "bugs.toml"
prefix    = ["with-bug", "{bug}"]
"""
HOOKS = """
[[hook]]
name = "log.synced"
meaning = "durable"
where = "run"
[[hook]]
name = "intent.sent"
meaning = "on its way"
where = "run"
[[hook]]
name = "recovery.done"
meaning = "recovered"
where = "recovery"
after = ["log.synced"]
"""
BUGS = """
[[bug]]
name = "torn"
meaning = "a torn frame is accepted"
property = "durable"
points = ["log.synced", "intent.sent > recovery.done"]
tags = {class = "once"}
canary = true
"""


def loaded(folder: Path, file: str = "subject.toml", old: str = "", new: str = "") -> Subject:
    """The subject of these three files, with one replacement in one of them."""
    texts = {"subject.toml": SUBJECT, "hooks.toml": HOOKS, "bugs.toml": BUGS}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new, 1) if old else texts[file] + new
    for name, text in texts.items():
        (folder / name).write_text(text)
    return load(str(folder / "subject.toml"))


def test_a_whole_file_is_read_as_it_stands(tmp_path: Path) -> None:
    """The other tests each break one thing of this file."""
    subject = loaded(tmp_path)
    assert (subject.name, subject.folder) == ("mine", tmp_path.resolve())
    assert subject.subject.recover == ("mine", "recover")
    assert (subject.deadlines.hook, subject.deadlines.look, subject.deadlines.kill) == (10, 2.5, 10)
    assert [hook.name for hook in subject.hooks] == ["log.synced", "intent.sent", "recovery.done"]
    assert subject.bug("torn").tags == {"class": "once"}
    assert subject.command(("mine", "run"), None) == ("mine", "run")
    assert subject.command(("mine", "run"), "torn") == ("with-bug", "torn", "mine", "run")
    assert subject.driven_by == "itself"
    assert from_json(Subject, to_json(subject)) == subject


def test_what_is_optional_may_be_left_out(tmp_path: Path) -> None:
    """A first subject.toml has no ledger, no coverage, no deadlines and no planted bugs."""
    text = SUBJECT[: SUBJECT.index("[ledger]")]
    (tmp_path / "subject.toml").write_text(text)
    (tmp_path / "hooks.toml").write_text(HOOKS)
    subject = load(str(tmp_path))
    assert (subject.bugs, subject.coverage.windows, subject.ledger.hold_at) == ((), (), None)
    assert (subject.deadlines.ready, subject.deadlines.recovery) == (20, 30)


@pytest.mark.parametrize("name", sorted(path.parent.name for path in SUBJECTS.glob("*/subject.toml")))
def test_the_built_in_subjects_load_by_name(name: str) -> None:
    """They are read by the same rules as a user's."""
    subject = load(name)
    assert subject.name == name
    assert len(subject.hooks) == subject.expected_hooks
    assert all(bug.property in (*subject.promises, *subject.verifier.audits, RECOVERS) for bug in subject.bugs)


WRONG = [
    ("subject.toml", "uid ", "uidd", "subject.uidd: unknown key, did you mean 'uid'?"),
    ("subject.toml", "[ledger]", "[ledgers]", "ledgers: unknown key, did you mean 'ledger'?"),
    ("subject.toml", "uid ", "colour = 1\nuid ", "subject.colour: unknown key\n"),
    ("subject.toml", "uid ", '"\\u001b[2J" = 1\nuid ', "subject.\ufffd[2J: unknown key\n"),
    ("subject.toml", "\n[subject]", "format = 2\n[subject]", "format = 2 is not known; this lab reads 1\n"),
    ("subject.toml", "\n[subject]", 'format = "1"\n[subject]', "format = '1' is not known"),
    ("subject.toml", "1000", str(2**32), "subject.uid: "),
    ("subject.toml", "1000", str(2**31), "subject.uid: "),
    ("subject.toml", '"/data"', '"/"', "subject.data: "),
    ("subject.toml", '"/data"', '"//"', "subject.data: "),
    ("subject.toml", '"/data"', '"/data/"', "subject.data: "),
    ("subject.toml", '"/data"', '"/data/../ledger"', "subject.data: "),
    ("subject.toml", '"/data"', '"/ledger"', "`data` lies in one of /dev, /proc, /sys, /tmp, /ledger"),
    ("subject.toml", '"/data"', '"/proc/1"', "`data` lies in one of"),
    ("subject.toml", '"hooks.toml"', '"hooks\\u0000.toml"', "has a NUL in a text"),
    ("subject.toml", '["mine", "run"]', '["mine", "\\u0000"]', "has a NUL in a text"),
    ("subject.toml", "[ledger]", f"deep = {'[' * 5000}{']' * 5000}\n[ledger]", "is nested too deeply"),
    ("subject.toml", "[ledger]", f"[{'a.' * 40_000}b]\n[ledger]", "a key of more than 32 parts"),
    ("subject.toml", "[ledger]", f"{'a.' * 40_000}b = 1\n[ledger]", "a key of more than 32 parts"),
    ("hooks.toml", '"durable"', '"' + "x" * 2**20 + '"', "is larger than 1 MiB"),
    ("subject.toml", 'recover = ["mine", "recover"]', "", "subject.recover: missing"),
    ("subject.toml", "[promises]\n", "[other]\n", "promises: missing"),
    ("subject.toml", 'run     = ["mine", "run"]', "run = []", "subject.run: "),
    ("subject.toml", 'run     = ["mine", "run"]', 'run = "mine run"', "subject.run: "),
    ("subject.toml", "1000", '"1000"', "subject.uid: "),
    ("subject.toml", "1000", "1000.0", "subject.uid: "),
    ("subject.toml", "1000", "0", "subject.uid: "),
    ("subject.toml", "1000", "1979-05-27", "subject.uid: "),
    ("subject.toml", "128", "4", "subject.memory_mb: "),
    ("subject.toml", '"/data"', '"data"', "subject.data: "),
    ("subject.toml", '"mine"', '"My Program"', "subject.name: "),
    ("subject.toml", "hook = 10", "hook = 0", "deadlines_s.hook: "),
    ("subject.toml", "hook = 10", "hook = inf", "deadlines_s.hook: "),
    ("subject.toml", "hook = 10", "hooks = 10", "deadlines_s.hooks: unknown key"),
    ("subject.toml", '"agent-tasks"', '"agent-task"', "`kind` is none of agent-tasks"),
    ("subject.toml", 'kind = "agent-tasks"', "", "give either `kind` or `files`"),
    ("subject.toml", 'kind = "agent-tasks"', 'kind = "agent-tasks"\nfiles = ["a", "b"]', "give either"),
    ("subject.toml", 'kind = "agent-tasks"', 'files = ["a.json"]', "`files` needs two or more"),
    ("subject.toml", 'durable = ["sigkill"]', "", "promises: "),
    ("subject.toml", '"{bug}"', '"bug"', "`prefix` needs {bug}"),
    ("subject.toml", 'by      = "class"', "", "`windows`, `by` and `values` go together"),
    ("subject.toml", '["resent"]', '["re-sent"]', "coverage.ledger.0: "),
    ("subject.toml", "expected  = 3", "expected  = 4", "expected = 4, but the catalogue lists 3"),
    ("subject.toml", "expected  = 3", "expected  = 2", "expected = 2, but the catalogue lists 3"),
    ("subject.toml", 'barrier   = "recovery.done"', 'barrier = "recovery.over"', "[hooks] barrier names the hook"),
    ("subject.toml", 'hold_at = "intent.sent"', 'hold_at = "intent.send"', "[ledger] hold_at names the hook"),
    ("subject.toml", 'windows = ["intent.sent"]', 'windows = ["intent.send"]', "[coverage] windows names the hook"),
    ("hooks.toml", 'after = ["log.synced"]', 'after = ["log.sync"]', "`after` of hook recovery.done names the hook"),
    ("hooks.toml", 'name = "intent.sent"', 'name = "log.synced"', "the hook catalogue lists log.synced twice"),
    ("hooks.toml", 'where = "run"', 'where = "runs"', "hook.0.where: "),
    ("hooks.toml", "meaning = ", "means = ", "hook.0.means: unknown key"),
    ("hooks.toml", 'name = "log.synced"', 'name = "log.a>b"', "hook.0.name: "),
    ("hooks.toml", 'name = "log.synced"', 'name = "log#1"', "hook.0.name: "),
    ("hooks.toml", 'name = "intent.sent"', 'name = "answer"', "lists 'answer', which is the name of a moment"),
    ("hooks.toml", 'name = "intent.sent"', 'name = "end"', "lists 'end', which is the name of a moment"),
    ("hooks.toml", "meaning = ", "meanings = ", "hook.0.meanings: unknown key, did you mean 'meaning'?"),
    ("subject.toml", "memory_mb", "race = []\nmemory_mb", "subject.race: "),
    ("subject.toml", '["verify", "mine"]', '["verify", "mine"]\naudits = "mode"', "verifier.audits: "),
    ("bugs.toml", '{class = "once"}', '{class = "once"}\nworkload = {seed = 7}', "bug.0.workload.seed: "),
    ("bugs.toml", '"log.synced"', '"log.synce"', "bug torn names the hook 'log.synce'"),
    ("bugs.toml", "> recovery.done", "> recovery.over", "bug torn names the hook 'recovery.over'"),
    ("bugs.toml", '"durable"', '"durabel"', "bug torn names the property 'durabel'"),
    ("bugs.toml", "canary = true", 'canary = "yes"', "bug.0.canary: "),
    ("bugs.toml", "canary = true", BUGS, "the bug catalogue lists torn twice"),
]


@pytest.mark.parametrize(("file", "old", "new", "why"), WRONG, ids=[w[3] + w[2][:12].strip() for w in WRONG])
def test_what_is_wrong_is_told_with_file_key_and_reason(
    tmp_path: Path, file: str, old: str, new: str, why: str
) -> None:
    """Each would else be a check that cannot fail, or an error in the middle of a campaign."""
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, file, old, new)
    said = str(caught.value)
    assert why in said
    assert len(said) < 1000
    assert str(tmp_path) in said
    assert caught.value.exit_code == 64


@pytest.mark.parametrize("file", ["subject.toml", "hooks.toml", "bugs.toml"])
def test_a_file_that_is_not_toml_or_not_there_is_named(tmp_path: Path, file: str) -> None:
    """Which of the three it is cannot be guessed."""
    with pytest.raises(UsageError, match=rf"{re.escape(str(tmp_path / file))} is not TOML: .*line"):
        loaded(tmp_path, file, new="\n[[[\n")
    (tmp_path / file).write_bytes(b"\xff")
    with pytest.raises(UsageError, match=f"{file} is not TOML"):
        load(str(tmp_path / "subject.toml"))
    (tmp_path / file).unlink()
    with pytest.raises(UsageError, match=f"cannot read .*{file}: No such file"):
        load(str(tmp_path / "subject.toml"))


@pytest.mark.parametrize("file", ["subject.toml", "hooks.toml", "bugs.toml"])
def test_a_file_without_end_is_not_read(tmp_path: Path, file: str) -> None:
    """Planted: a catalogue that is a link to an endless device was read for ever."""
    loaded(tmp_path)
    (tmp_path / file).unlink()
    (tmp_path / file).symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=f"cannot read .*{file}: is not a regular file"):
        load(str(tmp_path / "subject.toml"))


def test_the_format_may_be_left_out_or_be_the_current_one(tmp_path: Path) -> None:
    """Every subject.toml of today goes on to be read."""
    assert loaded(tmp_path, "subject.toml", "\n[subject]", "format = 1\n[subject]") == loaded(tmp_path)


def test_a_promise_under_a_fault_that_is_not_there_is_told_with_the_near_one(tmp_path: Path) -> None:
    """A typing error would promise nothing. Which faults there are, only a campaign knows."""
    known = ("sigkill", "powercut")
    check_faults(loaded(tmp_path), known)
    with pytest.raises(UsageError, match=r"names the fault 'sigkil', did you mean 'sigkill'\?\n  There are: sigkill"):
        check_faults(loaded(tmp_path, "subject.toml", '["sigkill"]', '["sigkil"]'), known)


def test_recovery_may_be_promised_like_any_property(tmp_path: Path) -> None:
    """Planted: `recovers` under [promises] made every trial invalid."""
    new = 'durable = ["sigkill"]\nrecovers = ["sigkill"]'
    subject = loaded(tmp_path, "subject.toml", 'durable = ["sigkill"]', new)
    assert subject.promises == {"durable": ("sigkill",), RECOVERS: ("sigkill",)}


def test_an_unknown_name_lists_the_subjects_that_are_built_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A typing error; a folder of that name in the current one is not meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernal").mkdir()
    with pytest.raises(UsageError, match=r"no subject 'kernal'\n  Built in: .*kernel"):
        load("kernal")
    with pytest.raises(UsageError, match=r"cannot read kernal/x\.toml"):
        load("kernal/x.toml")


def test_what_a_session_store_adds_is_read(tmp_path: Path) -> None:
    """A `race` command, audits that a bug may break, and the workloads that a bug shows in; all may be left out."""
    plain = loaded(tmp_path)
    assert (plain.subject.race, plain.verifier.audits, plain.bug("torn").workload) == (None, (), {})
    text = SUBJECT.replace("memory_mb", 'race = ["mine", "race"]\nmemory_mb')
    text = text.replace('["verify", "mine"]', '["verify", "mine"]\naudits = ["journal-mode"]')
    bug = BUGS.replace('"durable"', '"journal-mode"').replace("canary", 'workload = {journal_mode = "delete"}\ncanary')
    (tmp_path / "subject.toml").write_text(text)
    (tmp_path / "bugs.toml").write_text(bug)
    subject = load(str(tmp_path))
    assert (subject.subject.race, subject.verifier.audits) == (("mine", "race"), ("journal-mode",))
    assert (subject.bug("torn").property, subject.bug("torn").workload) == ("journal-mode", {"journal_mode": "delete"})


DAEMON = SUBJECT.replace('[workload]\nkind = "agent-tasks"\n', '[fuzz]\nplan = "fuzz.toml"\ncorpus = "corpus.toml"\n')
DAEMON = DAEMON[: DAEMON.index("[ledger]")] + DAEMON[DAEMON.index("[bugs]") :]
DAEMON = DAEMON.replace('barrier   = "recovery.done"\n', "")
WITHIN = BUGS.replace(
    'points = ["log.synced", "intent.sent > recovery.done"]\ntags = {class = "once"}\n', "within = 12\n"
)


def daemon(folder: Path, subject: str = DAEMON, bugs: str = WITHIN) -> Subject:
    for name, text in {"subject.toml": subject, "hooks.toml": HOOKS, "bugs.toml": bugs}.items():
        (folder / name).write_text(text)
    return load(str(folder))


def test_a_daemon_has_a_plan_file_and_neither_workload_nor_barrier(tmp_path: Path) -> None:
    """It is killed while it serves; nothing of it stands still to be looked at."""
    subject = daemon(tmp_path)
    assert subject.fuzz is not None
    assert (subject.fuzz.plan, subject.fuzz.corpus) == ("fuzz.toml", "corpus.toml")
    assert (subject.workload, subject.barrier, len(subject.hooks)) == (None, "", 3)
    assert (subject.bug("torn").within, subject.bug("torn").points, subject.bug("torn").timing) == (12, (), False)
    assert subject.driven_by == "clients"
    assert from_json(Subject, to_json(subject)) == subject
    assert daemon(tmp_path, bugs=WITHIN + "timing = true\n").bug("torn").timing


def test_a_daemon_can_do_without_hooks_and_nothing_else_can(tmp_path: Path) -> None:
    """A daemon that we did not write is killed at moments; a matrix without hooks has no crash point."""
    hooks = DAEMON[DAEMON.index("[hooks]") : DAEMON.index("[verifier]")]
    bare = daemon(tmp_path, DAEMON.replace(hooks, ""))
    assert (bare.hooks, bare.expected_hooks, bare.barrier) == ((), 0, "")
    with pytest.raises(UsageError, match=r"\[hooks\] is missing: only a daemon can do without"):
        daemon(tmp_path, SUBJECT[: SUBJECT.index("[hooks]")] + SUBJECT[SUBJECT.index("[verifier]") :])


WRONG_DAEMON = [
    ('plan = "fuzz.toml"', "", "fuzz.plan: missing"),
    ('plan = "fuzz.toml"', 'plan = "fuzz.toml"\nseeds = 3', "fuzz.seeds: unknown key"),
    ('[fuzz]\nplan = "fuzz.toml"\ncorpus = "corpus.toml"\n', "", "give either [workload], or [fuzz] for a daemon"),
    ("[fuzz]\n", '[workload]\nkind = "agent-tasks"\n[fuzz]\n', "give either [workload], or [fuzz] for a daemon"),
]


@pytest.mark.parametrize(("old", "new", "why"), WRONG_DAEMON, ids=[w[2][:30] + w[1][:10] for w in WRONG_DAEMON])
def test_what_is_wrong_with_a_daemon_is_told(tmp_path: Path, old: str, new: str, why: str) -> None:
    """Else one of its two halves would be ignored."""
    assert old in DAEMON
    with pytest.raises(UsageError, match=re.escape(why)):
        daemon(tmp_path, DAEMON.replace(old, new))


@pytest.mark.parametrize("moment", ["answer", "invoke", "start", "end"])
def test_a_hook_is_not_named_like_a_moment(tmp_path: Path, moment: str) -> None:
    """Its kills would be counted as those at the moment, and one at the end would pass for one at the hook."""
    daemon(tmp_path)
    (tmp_path / "hooks.toml").write_text(HOOKS.replace('"intent.sent"', f'"{moment}"'))
    with pytest.raises(UsageError, match=f"lists '{moment}', which is the name of a moment"):
        load(str(tmp_path))


@pytest.mark.parametrize(
    ("bugs", "why"),
    [
        (WITHIN.replace("within = 12\n", ""), "bug torn lacks `within`: nothing says where it must be caught"),
        (BUGS, "bug torn lacks `within`"),
        (WITHIN.replace("12", "0"), "bug.0.within: "),
        (WITHIN.replace("12", '"12"'), "bug.0.within: "),
    ],
)
def test_a_bug_of_a_daemon_says_in_how_many_trials_it_is_caught(tmp_path: Path, bugs: str, why: str) -> None:
    """Without it a canary has no end, or no try."""
    with pytest.raises(UsageError, match=re.escape(why)):
        daemon(tmp_path, bugs=bugs)


def test_a_bug_at_a_crash_point_names_its_points(tmp_path: Path) -> None:
    """`within` alone says nothing of where a kernel is killed."""
    with pytest.raises(UsageError, match="bug torn lacks `points`"):
        daemon(tmp_path, SUBJECT, WITHIN)


def test_an_unknown_bug_lists_those_there_are(tmp_path: Path) -> None:
    """`--bug` with a typing error."""
    with pytest.raises(UsageError, match=r"subject mine has no planted bug 'tron'\n  It has: torn"):
        loaded(tmp_path).bug("tron")


def test_a_point_of_a_bug_may_name_a_second_hook() -> None:
    """The second lies in the recovery; blanks do not matter."""
    assert hooks_of("log.synced") == ("log.synced",)
    assert (
        hooks_of("log.synced > recovery.cut") == hooks_of("log.synced>recovery.cut") == ("log.synced", "recovery.cut")
    )


def test_a_daemon_that_names_no_verifier_is_judged_by_the_oracle_with_its_audits() -> None:
    """Planted: a daemon without audits; its trial in which nothing was done was a mere note."""
    verifier = load("muxd").verifier
    assert (verifier.command, verifier.audits) == (("verify", "fuzz"), ("machine-kept-up", "work-done"))
    assert verifier.image == f"build:{IMAGES / 'system' / 'checkers' / 'models'}"


def test_only_a_daemon_can_do_without_a_verifier(tmp_path: Path) -> None:
    """Nobody else has one that fits."""
    text = SUBJECT.replace('[verifier]\nimage   = "build:."\ncommand = ["verify", "mine"]\n', "")
    assert text != SUBJECT
    (tmp_path / "subject.toml").write_text(text)
    with pytest.raises(UsageError, match=r"\[verifier\] is missing"):
        load(str(tmp_path / "subject.toml"))
