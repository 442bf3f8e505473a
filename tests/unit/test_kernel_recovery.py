"""The kernel killed for real at its hooks, recovered and resumed: the end must not depend on where it was killed."""

from __future__ import annotations

import tomllib

import pytest
from kernel_process import FULL, KERNEL, Record, call, do, task, workload
from kernel_trial import Lab, Outcome

# Two classes, a lost reply and a retry: small enough for every occurrence of every hook.
SMALL = workload(
    task(11, [call("charge", "once", amount=17), do("fail")], [do("finish")]),
    task(12, [call("mail", "keyed", lose_reply=True, to="x"), do("finish")]),
    checkpoint_every=12,
    segment_bytes=512,
)
CATALOGUE: list[Record] = tomllib.loads((KERNEL / "hooks.toml").read_text())["hook"]


def hits(records: list[Record]) -> list[str]:
    return [f"{record['hit']}#{record['n']}" for record in records if "hit" in record]


def census(kernel_lab: Lab, script: Record) -> tuple[list[str], Record]:
    """Every hit of a run without a crash, and what its tables say in the end."""
    trial = kernel_lab.trial(script)
    found = hits(trial.finish("run", census="1"))
    return found, meaning(trial.tables())


def meaning(tables: Record) -> Record:
    """The tables without what depends on how often something was done: LSNs, tokens, receipts."""
    varying = {"lsn", "token", "receipt"}
    return {
        name: {key: {n: v for n, v in row.items() if n not in varying} for key, row in tables[name].items()}
        for name in ("attempts", "intents", "effects", "cursor")
    }


def assert_good(outcome: Outcome, expected: Record, point: str) -> None:
    assert (outcome.differs, outcome.ended) == ([], ""), point
    assert meaning(outcome.tables) == expected, point


def test_killed_at_every_occurrence_of_every_hook_it_ends_as_without_a_crash(kernel_lab: Lab) -> None:
    """The kernel's whole promise, on a small workload; the census says what every occurrence is."""
    points, expected = census(kernel_lab, SMALL)
    assert len(points) > 150
    for point in points:
        assert_good(kernel_lab.crash(point, workload=SMALL), expected, point)


def test_killed_once_at_every_hook_of_a_workload_with_everything_in_it(kernel_lab: Lab) -> None:
    """Declines, cancellations, time-outs, reused effects: each hook's last occurrence."""
    points, expected = census(kernel_lab, FULL)
    last = {point.partition("#")[0]: point for point in points}
    assert set(last) == {hook["name"] for hook in CATALOGUE if hook["where"] == "run"}
    for point in last.values():
        assert_good(kernel_lab.crash(point, workload=FULL), expected, point)


@pytest.mark.parametrize(
    "hook",
    [
        "intent.durable_unsent",  # `once`: fence, no receipt, sent again
        "intent.landed_unrecorded",  # `once`: fence, receipt
        "log.half_written",  # a torn tail
    ],
)
def test_killed_again_at_every_hook_of_the_recovery_it_ends_as_without_a_crash(kernel_lab: Lab, hook: str) -> None:
    """Recovery is itself safe to kill: a recovery that is not idempotent fails here."""
    points, expected = census(kernel_lab, SMALL)
    first = next(point for point in points[len(points) // 3 :] if point.startswith(f"{hook}#"))
    for second in recovery_hits(kernel_lab, first):
        assert_good(kernel_lab.crash(first, second, workload=SMALL), expected, f"{first} > {second}")


def test_killed_in_the_work_behind_a_recovery_it_ends_as_without_a_crash(kernel_lab: Lab) -> None:
    """The first hit of each hook there; every third one is killed once more, in the recovery from that."""
    points, expected = census(kernel_lab, FULL)
    first = next(point for point in points[len(points) // 3 :] if point.startswith("intent.sent#"))
    behind: dict[str, str] = {}
    for hit in hits_behind(kernel_lab, first):
        behind.setdefault(hit.partition("#")[0], hit)
    assert len(behind) > 40
    for number, second in enumerate(behind.values()):
        thirds = ("recovery.settled#1",) if number % 3 == 0 else ()
        outcome = kernel_lab.crash(first, second, *thirds, workload=FULL)
        assert_good(outcome, expected, f"{first} > {second}")
        assert hits(outcome.hits) == [first, second, *thirds]


def recovery_hits(kernel_lab: Lab, first: str, script: Record = SMALL) -> list[str]:
    """Every hit of the recovery that follows a first crash point, up to its end."""
    return parted_hits(kernel_lab, first, script)[0]


def hits_behind(kernel_lab: Lab, first: str) -> list[str]:
    """Every hit of the work that follows that recovery."""
    return parted_hits(kernel_lab, first, FULL)[1]


def parted_hits(kernel_lab: Lab, first: str, script: Record) -> tuple[list[str], list[str]]:
    """What the process that recovers hits, parted behind its barrier."""
    trial = kernel_lab.trial(script)
    trial.kill_at("run", first)
    found = hits(trial.finish("recover", census="1"))
    at = found.index("recovery.done#1") + 1
    return found[:at], found[at:]


def test_every_recovery_hook_is_reached_behind_each_hook_that_the_catalogue_says_leads_to_it(kernel_lab: Lab) -> None:
    """`after` is what a plan draws first crashes from: a hint that leads nowhere would leave a hook uncovered."""
    points, _ = census(kernel_lab, FULL)
    seen: dict[str, set[str]] = {}

    def recovery_after(first: str) -> set[str]:
        if first not in seen:
            seen[first] = {hit.partition("#")[0] for hit in recovery_hits(kernel_lab, first, FULL)}
        return seen[first]

    for hook in (hook for hook in CATALOGUE if hook["where"] == "recovery"):
        for way in hook["after"]:
            firsts = [point for point in points if point.startswith(f"{way}#")]
            assert any(hook["name"] in recovery_after(first) for first in firsts), f"{hook['name']} after {way}"


def test_two_censuses_of_one_workload_are_the_same(kernel_lab: Lab) -> None:
    """An occurrence names a place only if nothing but the script decides what comes when."""
    assert census(kernel_lab, FULL) == census(kernel_lab, FULL)


def test_the_nth_hit_of_intent_sent_is_the_nth_request_of_its_process(kernel_lab: Lab) -> None:
    """The ledger holds the n-th request by that number: a request that is not counted would hold the wrong one."""
    trial = kernel_lab.trial(FULL)
    sent = [hit for hit in hits(trial.finish("run", census="1")) if hit.startswith("intent.sent#")]
    requests = [request for request in trial.ledger()["requests"] if request["do"] == "send"]
    assert len(sent) == len(requests)


def test_a_released_barrier_leaves_the_hook_armed(kernel_lab: Lab) -> None:
    """Disarmed at the barrier, no process that had recovered was ever killed in the work that it resumes."""
    trial = kernel_lab.trial(SMALL)
    trial.kill_at("run", "attempt.admitted-running.applied#1")
    process = trial.start("recover", barrier="recovery.done", hook="attempt.interrupted-running.before#1")
    assert process.await_hit()["barrier"] is True
    process.release()
    assert process.await_another_hit() == ("attempt.interrupted-running.before", 1)
    process.kill()


def test_occurrences_are_counted_across_the_barrier(kernel_lab: Lab) -> None:
    """Counted anew behind it, a point of the census would name another place, or one in the recovery."""
    first = "attempt.admitted-running.applied#1"
    trial = kernel_lab.trial(SMALL)
    trial.kill_at("run", first)
    found = hits(trial.finish("recover", census="1"))
    behind = found[found.index("recovery.done#1") + 1 :]
    point = next(hit for hit in behind if hit.startswith("log.synced#"))
    assert point != "log.synced#1"
    again = kernel_lab.trial(SMALL)
    again.kill_at("run", first)
    process = again.start("recover", barrier="recovery.done", hook=point)
    assert process.await_hit()["barrier"] is True
    process.release()
    name, n = process.await_another_hit()
    assert f"{name}#{n}" == point
    process.kill()
