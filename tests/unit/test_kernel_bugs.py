"""Every planted bug is caught by the property that must, at the points of bugs.toml; the good kernel is clean there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tomllib

import pytest
from kernel_process import KERNEL, PYTHON, Record
from kernel_trial import Lab

BUGS: list[Record] = tomllib.loads((KERNEL / "bugs.toml").read_text())["bug"]
OF_A_CONTAINER = "lock-holds-a-pid"  # shows where every process has the same number
POINTS = [
    pytest.param(bug, point, id=f"{bug['name']}@{point}")
    for bug in BUGS
    for point in bug["points"]
    if bug["name"] != OF_A_CONTAINER
]


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
    assert {bug["property"] for bug in canaries} == {*promises, "recovers"}
    assert "flush-at-exit" in {bug["name"] for bug in canaries}
    assert len(canaries) == len(promises) + 2


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
        caught = {name for _, name, _ in outcome.differs} | ({"recovers"} if outcome.ended else set())
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


FIRST, BEHIND = "attempt.admitted-running.applied", "attempt.interrupted-running.durable"


@pytest.mark.parametrize(
    "points", [(FIRST,), (FIRST, "recovery.settled"), (BEHIND.replace("interrupted", "admitted"),)]
)
def test_an_early_acknowledgement_after_a_recovery_shows_in_no_other_place(
    kernel_lab: Lab, points: tuple[str, ...]
) -> None:
    """It passed 80 trials of 80: neither a first crash nor one in a recovery meets the work that follows one."""
    armed = [f"{point}#1" for point in points]
    outcome = kernel_lab.crash(*armed, bug="acknowledge-early-after-recovery")
    assert (outcome.differs, outcome.ended) == ([], "")
    assert [f"{hit['hit']}#{hit['n']}" for hit in outcome.hits] == armed


def test_the_second_point_of_that_bug_lies_behind_the_barrier(kernel_lab: Lab) -> None:
    """Planted: a point that is reached in the recovery already, where the bug does not act yet."""
    trial = kernel_lab.trial()
    trial.kill_at("run", f"{FIRST}#1")
    hits = [record["hit"] for record in trial.finish("recover", census="1") if "hit" in record]
    assert hits.index("recovery.done") < hits.index(BEHIND)


def test_a_refused_torn_tail_ends_every_recovery_and_only_after_a_torn_write(
    kernel_lab: Lab, census: list[Record]
) -> None:
    """The census of recoveries met it as `exit code 65`, and the whole run ended as an error of the lab's own."""
    for point, codes in (("log.half_written", [65, 65]), ("log.synced", [0])):
        trial = kernel_lab.trial()
        trial.kill_at("run", occurrences(census, point, {})[0], "torn-tail-refused")
        for code in codes:
            process = trial.start("recover", "torn-tail-refused")
            assert process.wait() == code, process.log


def test_a_lock_that_holds_a_pid_refuses_the_state_while_that_process_lives(kernel_lab: Lab) -> None:
    """In a container it is always the starting process itself; here this test's own process stands for it."""
    trial = kernel_lab.trial()
    trial.kill_at("run", "log.synced#1", OF_A_CONTAINER)
    lock = trial.folder / "LOCK"
    assert lock.exists()
    lock.write_text(str(os.getpid()))
    refused = trial.start("recover", OF_A_CONTAINER)
    assert refused.wait() == 75
    assert "is in use by process" in refused.log
    lock.write_text(str(2**22 + 1))  # above the highest number that Linux gives: nobody's
    trial.finish("recover", OF_A_CONTAINER)
    assert not lock.exists()


def test_a_lock_whose_holder_is_dead_is_taken_over(kernel_lab: Lab) -> None:
    """Outside a container the bug hides: no number comes twice so soon, and no property sees anything amiss."""
    outcome = kernel_lab.crash("log.synced#1", bug=OF_A_CONTAINER)
    assert (outcome.differs, outcome.ended) == ([], "")


def test_a_process_finds_itself_in_a_lock_that_holds_a_pid(kernel_lab: Lab) -> None:
    """Process 1 of a container is restarted as process 1: the kernel of this state runs twice under one number."""
    trial = kernel_lab.trial()
    code = (
        "import os, sys; sys.path[:0] = sys.argv[1:3]; import lock_holds_a_pid;"
        "open(os.environ['KERNEL_DATA'] + '/LOCK', 'w').write(str(os.getpid()));"
        "from kernel.main import main; sys.exit(main(['recover']))"
    )
    found = subprocess.run(
        [*PYTHON, "-c", code, str(KERNEL), str(KERNEL / "bugs")],
        env={"KERNEL_DATA": str(trial.folder), "LAB_WORKLOAD": json.dumps(trial.workload)},
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert found.returncode == 75, found.stderr
