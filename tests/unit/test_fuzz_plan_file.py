"""fuzz.toml and corpus.toml: whatever is wrong is told with its file, its key and the reason, before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.engine.errors import UsageError
from lab.model import Limits
from lab.plan.plan_file import STRIKES, PlanFile, corpus_of, plan_of
from lab.subject.load import SUBJECTS, Subject, load

FUZZ = """
adapter  = "jsonrpc"
clients  = 3
kills    = [3, 5]
ops      = [20, 70]
pause_ms = [1, 150]

[limits]
answer_ms  = 1000
timeout_ms = 1500
up_s       = 5.5

[things]
key  = { name = "k{n}", most = 4 }
job  = { name = "j{step}", within = "key", recent = 4 }
mail = { name = "m{step}" }

[operations.put]
model    = "register.write"
weight   = 3
needs    = "key"
args     = { value = "v{step}" }
promise  = "values-durable"

[operations.enqueue]
model    = "queue.send"
weight   = 0.5
creates  = "job"
args     = { what = "[work]" }

[operations.cancel]
model    = "queue.remove"
weight   = 1
needs    = "job"
where    = { what = "wait" }
args     = { how = ["soft", "hard", true, 3] }

[operations.mail]
model    = "effects.send"
weight   = 1
creates  = "mail"
effect   = "mail:{name}"

[texts.work]
"run {1-4}" = 16
wait        = 1

[strikes]
hook = 16
end  = 1
"""
CORPUS = """
[[seed]]
seed   = 7
number = 12
found  = "a draft that was lost"
[[seed]]
seed   = 3
number = 1
found  = "a chat that was listed twice"
"""
SUBJECT = """
[subject]
name    = "mine"
image   = "mine:1"
data    = "/data"
run     = ["mine", "serve"]
recover = ["mine", "serve"]

[fuzz]
plan    = "fuzz.toml"
corpus  = "corpus.toml"

[hooks]
catalogue = "hooks.toml"
expected  = 1

[verifier]
image   = "mine-verifier:1"
command = ["verify", "fuzz"]

[promises]
drafts-durable = ["sigkill"]
"""
HOOKS = '[[hook]]\nname = "chat.synced"\nmeaning = "a chat is durable"\nwhere = "run"\n'
WITHOUT_HOOKS = '[hooks]\ncatalogue = "hooks.toml"\nexpected  = 1\n'


def daemon(folder: Path, fuzz: str = FUZZ, corpus: str = CORPUS, subject: str = SUBJECT) -> Subject:
    files = {"subject.toml": subject, "fuzz.toml": fuzz, "corpus.toml": corpus, "hooks.toml": HOOKS}
    for name, text in files.items():
        (folder / name).write_text(text)
    return load(str(folder))


def test_a_whole_plan_file_is_read_as_it_stands(tmp_path: Path) -> None:
    """The other tests each break one thing of this file."""
    plan = plan_of(daemon(tmp_path))
    assert (plan.adapter, plan.clients, plan.kills, plan.ops) == ("jsonrpc", 3, (3, 5), (20, 70))
    assert {name: op.weight for name, op in plan.operations.items()} == {
        "put": 3,
        "enqueue": 0.5,
        "cancel": 1,
        "mail": 1,
    }
    assert plan.operations["cancel"].args == {"how": ("soft", "hard", True, 3)}
    assert plan.exercised == {"values-durable": ("put",)}
    assert (plan.limits.answer_ms, plan.limits.timeout_ms, plan.limits.up_s) == (1000, 1500, 5.5)
    assert PlanFile.model_validate_json(plan.model_dump_json(), strict=True) == plan


def test_what_is_optional_may_be_left_out(tmp_path: Path) -> None:
    """The limits are then those that docs/fuzz.md promises; three clients; no corpus."""
    text = re.sub(r"\[limits\].*?(?=\[things\])", "", FUZZ, flags=re.DOTALL).replace("clients  = 3\n", "")
    subject = daemon(tmp_path, text, subject=SUBJECT.replace('corpus  = "corpus.toml"\n', ""))
    plan = plan_of(subject)
    assert plan.clients == 3
    assert Limits(**plan.limits.model_dump()) == Limits()
    assert corpus_of(subject) == ()


WRONG = [
    ("clients  = 3", "clients = 3\nclient = 3", "client: unknown key"),
    ("clients  = 3", "clients = 0", "clients: "),
    ("clients  = 3", 'clients = "3"', "clients: "),
    ('adapter  = "jsonrpc"', "", "adapter: missing"),
    ('"jsonrpc"', '"../jsonrpc"', "adapter: "),
    ("most = 4", "most = 0", "things.key.most: "),
    ('"k{n}"', '"k{step}"', "things.key: `name` of a thing with `most` has one {n}"),
    ('"j{step}"', '"job"', "things.job: `name` of a thing without `most` has one {step}"),
    ('within = "key"', 'within = "lock"', "[things] job lies within 'lock', which is no thing"),
    ('creates  = "mail"', 'creates = "job"', "[things] mail is created by no operation"),
    ('needs    = "key"', 'needs = "lock"', "[operations] 'put' names the thing 'lock'; there are key, job, mail"),
    ('needs    = "key"', "", "operations.put: register.write lacks `needs`"),
    ('needs    = "key"', 'needs = "key"\neffect = "x"', "operations.put: register.write has no `effect`"),
    ('effect   = "mail:{name}"', "", "operations.mail: effects.send lacks `effect`"),
    (
        'model    = "queue.remove"',
        'model = "queue.drop"',
        "operations.cancel: `model` is 'queue.drop'; there are ",
    ),
    ('"v{step}"', '"v{steps}"', "operations.put: 'v{steps}' may hold {step}, {name} and a range"),
    ("[texts.work]", "[texts.play]", "[texts.play] is named by no operation"),
    ("kills    = [3, 5]", "kills = [5, 3]", "`kills` begins with the least: 5 > 3"),
    ("kills    = [3, 5]", "kills = [0, 3]", "kills.0: "),
    ("kills    = [3, 5]", "kills = [3]", "kills.1: "),
    ("ops      = [20, 70]", "ops = [70, 20]", "`ops` begins with the least: 70 > 20"),
    ("pause_ms = [1, 150]", "pause_ms = [150, 1]", "`pause_ms` begins with the least"),
    ("answer_ms  = 1000", "answer_ms = 1500", "`timeout_ms` must be above `answer_ms`"),
    ("answer_ms  = 1000", "answer = 1000", "limits.answer: unknown key"),
    ("up_s       = 5.5", "up_s = 0", "limits.up_s: "),
    ("weight   = 3", "weight = 0", "operations.put.weight: "),
    ('"run {1-4}" = 16', '"run {1-4}" = 0', "texts.work.run {1-4}: "),
    ("hook = 16", "hooks = 16", "[strikes] names 'hooks'; there are hook, answer"),
    ("hook = 16\nend  = 1", "", "strikes: "),
    ("hook = 16", "hook = many", "is not TOML"),
]


@pytest.mark.parametrize(("old", "new", "why"), WRONG, ids=[w[2][:40] + w[1][:12] for w in WRONG])
def test_what_is_wrong_with_a_plan_is_told_with_file_key_and_reason(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    """A misspelt operation would else never be sent, and its promise be checked on nothing."""
    assert FUZZ.count(old) == 1
    subject = daemon(tmp_path, FUZZ.replace(old, new))
    with pytest.raises(UsageError) as caught:
        plan_of(subject)
    assert why in str(caught.value)
    assert str(tmp_path / "fuzz.toml") in str(caught.value)


@pytest.mark.parametrize(("old", "new"), [("kills    = [3, 5]", "kills = [5, 3]"), ('"jsonrpc"', f'"{"j/" * 500}"')])
def test_what_is_wrong_is_told_in_a_line_that_fits_a_screen(tmp_path: Path, old: str, new: str) -> None:
    """The whole plan stood behind its reason, as a dictionary of Python."""
    with pytest.raises(UsageError) as caught:
        plan_of(daemon(tmp_path, FUZZ.replace(old, new)))
    told = [line for line in str(caught.value).splitlines() if str(tmp_path) not in line]
    assert max(map(len, told)) <= 160, told
    assert "Value error" not in str(caught.value)


def test_a_daemon_without_hooks_cannot_be_killed_at_one(tmp_path: Path) -> None:
    """Planted: an index error in the middle of the campaign."""
    bare = SUBJECT.replace(WITHOUT_HOOKS, "")
    with pytest.raises(UsageError, match=r"fuzz.toml: \[strikes\] names `hook`, but mine has no hooks"):
        plan_of(daemon(tmp_path, subject=bare))
    assert "hook" not in plan_of(daemon(tmp_path, FUZZ.replace("hook = 16", "answer = 16"), subject=bare)).strikes


def test_a_plan_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A typing error in [fuzz] plan."""
    subject = daemon(tmp_path, subject=SUBJECT.replace('"fuzz.toml"', '"fuss.toml"'))
    with pytest.raises(UsageError, match=r"cannot read .*fuss.toml: No such file"):
        plan_of(subject)


def test_the_corpus_keeps_its_order(tmp_path: Path) -> None:
    """Every campaign runs these first."""
    assert [(s.seed, s.number) for s in corpus_of(daemon(tmp_path))] == [(7, 12), (3, 1)]
    assert corpus_of(daemon(tmp_path, corpus="")) == ()
    assert corpus_of(load("kernel")) == ()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("number = 12", "number = 0", "seed.0.number: "),
        ("seed   = 7", "seed = -7", "seed.0.seed: "),
        ("seed   = 7", "", "seed.0.seed: missing"),
        ('found  = "a draft that was lost"', 'found = ""', "seed.0.found: "),
        ("number = 12", "number = 12\nwhen = 2026", "seed.0.when: unknown key"),
        ("[[seed]]\nseed   = 7", "[[seeds]]\nseed   = 7", "seeds: unknown key"),
    ],
)
def test_a_damaged_corpus_is_told_with_its_place(tmp_path: Path, old: str, new: str, why: str) -> None:
    """A seed that is left out in silence is a regression test that nobody runs any more."""
    with pytest.raises(UsageError) as caught:
        corpus_of(daemon(tmp_path, corpus=CORPUS.replace(old, new, 1)))
    assert why in str(caught.value)
    assert str(tmp_path / "corpus.toml") in str(caught.value)


@pytest.mark.parametrize("path", sorted(SUBJECTS.glob("*/fuzz.toml")), ids=lambda path: path.parent.name)
def test_the_built_in_plans_are_read_and_name_what_their_daemon_serves(path: Path) -> None:
    """They are read by the same rules as a user's."""
    subject = load(path.parent.name)
    plan = plan_of(subject)
    assert set(plan.strikes) <= set(STRIKES)
    assert "status" in plan.operations
    corpus_of(subject)
