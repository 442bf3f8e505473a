"""Every planted bug is caught by the property that must, at the points of bugs.toml; the good kernel is clean there."""

from __future__ import annotations

import json
import signal
import tomllib

import pytest
from kernel_process import KERNEL, Record
from kernel_trial import Lab

BUGS: list[Record] = tomllib.loads((KERNEL / "bugs.toml").read_text())["bug"]
POINTS = [pytest.param(bug, point, id=f"{bug['name']}@{point}") for bug in BUGS for point in bug["points"]]


@pytest.fixture(scope="module")
def census(kernel_services: Lab) -> list[Record]:
    trial = kernel_services.trial()
    return [record for record in trial.finish("run", census="1") if "hit" in record]


def occurrences(census: list[Record], hook: str, tags: dict[str, str]) -> list[str]:
    found = [
        f"{hit['hit']}#{hit['n']}"
        for hit in census
        if hit["hit"] == hook and tags.items() <= hit.get("tags", {}).items()
    ]
    assert found, f"{hook} with {tags} is not reached"
    return found


def test_every_bug_has_its_file_and_every_property_and_the_polite_stop_a_canary() -> None:
    """A bug that is listed and not there, or a property without a canary: a campaign would prove less than it says."""
    files = {path.stem.replace("_", "-") for path in (KERNEL / "bugs").glob("*.py")}
    promises = tomllib.loads((KERNEL / "subject.toml").read_text())["promises"]
    canaries = [bug for bug in BUGS if bug.get("canary")]
    assert files == {bug["name"] for bug in BUGS}
    assert {bug["property"] for bug in canaries} == set(promises)
    assert "flush-at-exit" in {bug["name"] for bug in canaries}
    assert len(canaries) == len(promises) + 1


@pytest.mark.parametrize(("bug", "point"), POINTS)
def test_a_planted_bug_is_caught_at_every_occurrence_of_its_point(
    kernel_lab: Lab, census: list[Record], bug: Record, point: str
) -> None:
    """Each bug of bugs.toml: the campaign draws the occurrence, so it must show at the first, a middle and the last."""
    hook, _, second = (part.strip() for part in point.partition(">"))
    all_of_them = occurrences(census, hook, bug.get("tags", {}))
    for first in {all_of_them[0], all_of_them[len(all_of_them) // 2], all_of_them[-1]}:
        points = (first, f"{second}#1") if second else (first,)
        outcome = kernel_lab.crash(*points, bug=bug["name"])
        caught = {name for _, name, _ in outcome.differs}
        assert bug["property"] in caught, f"{points}: {json.dumps(outcome.differs, indent=1)} {outcome.ended}"
        good = kernel_lab.crash(*points)
        assert (good.differs, good.ended) == ([], "")


def test_without_the_fence_a_request_lands_after_the_receipt_question_and_again(
    kernel_lab: Lab, census: list[Record]
) -> None:
    """The race that the fence must win really happens: the held request and the one sent again both land."""
    point = occurrences(census, "intent.sent", {"class": "once"})[0]
    for bug, landed in (("receipt-without-fence", 2), (None, 1)):
        outcome = kernel_lab.crash(point, bug=bug)
        effects = [effect["effect"] for effect in outcome.ledger["effects"]]
        held = next(r["effect"] for r in outcome.ledger["requests"] if r["class"] == "once")
        assert effects.count(held) == landed
        assert ("effects-exactly-once" in {name for _, name, _ in outcome.differs}) == (landed == 2)


def test_the_log_flushed_at_exit_survives_a_polite_stop_and_is_lost_by_a_hard_kill(
    kernel_lab: Lab, census: list[Record]
) -> None:
    """If SIGTERM showed this bug as well, catching it would not prove that the lab's kill is hard."""
    point = occurrences(census, "intent.proposed-dispatched.durable", {})[0]
    on_disk = {}
    for how in (signal.SIGTERM, signal.SIGKILL):
        trial = kernel_lab.trial()
        process = trial.start("run", "flush-at-exit", hook=point)
        process.await_hit()
        process.kill(how)
        on_disk[how] = trial.tables()["lsn"]
        acknowledged = [record["lsn"] for record in process.records if record.get("type") == "ok"]
        assert (on_disk[how] == acknowledged[-1]) == (how == signal.SIGTERM)
