"""Redis as a subject: its two files say of the same daemon what each setting promises."""

from __future__ import annotations

from lab.plan.plan_file import plan_of
from lab.subject.load import SUBJECTS, load

ALWAYS = load("redis")
EVERYSEC = load(str(SUBJECTS / "redis" / "everysec.toml"))


def test_the_two_settings_of_redis_differ_in_their_sync_and_their_promises_alone() -> None:
    """The same daemon with one word changed: or a note under everysec would say nothing of the setting."""
    changed = tuple("everysec" if word == "always" else word for word in ALWAYS.subject.run)

    assert EVERYSEC.subject.run == EVERYSEC.subject.recover == changed
    assert ALWAYS.subject.recover == ALWAYS.subject.run != changed
    assert set(EVERYSEC.promises) == {"answers-in-time"}
    assert "drafts-durable" in ALWAYS.promises
    assert plan_of(EVERYSEC) == plan_of(ALWAYS)


def test_the_plan_of_redis_asks_for_what_its_adapter_maps_and_for_all_of_it() -> None:
    """An operation without an adapter would fail each trial; one without a weight would never be tried."""
    source = (SUBJECTS / "redis-clients" / "redis.py").read_text()
    mapped = {line.split('"')[1] for line in source.splitlines() if line.startswith('    "') and ": lambda" in line}

    assert set(plan_of(ALWAYS).operations) == mapped
