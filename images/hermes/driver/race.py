"""Races N processes of this driver: each opens the store by itself, and all are released at once.

They are new processes, not forks: SQLite forbids a connection, and the gateway its lock, to be carried across a fork.
"""

import json
import os
import subprocess
import sys

READY = "race.ready"


def race(racers: int, op: dict) -> list[int]:
    """Their exit codes, in order: 0 won, 10 lost, anything else a crash. A racer's own records are not passed on."""
    started = [_start(number, op) for number in range(1, racers + 1)]
    try:
        for racer in started:
            _wait_until_ready(racer)
        for racer in started:
            _release(racer)
        return [_ended(racer) for racer in started]
    finally:
        for racer in started:
            racer.kill()
            racer.wait()


def _start(number, op):
    workload = {**json.loads(os.environ["LAB_WORKLOAD"]), "race": op}
    environment = {name: value for name, value in os.environ.items() if name not in ("LAB_HOOK", "LAB_CENSUS")}
    environment |= {"LAB_NONCE": READY, "LAB_RACER": str(number), "LAB_BARRIER": READY}
    environment["LAB_WORKLOAD"] = json.dumps(workload)
    compiled = [f"-Xpycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
    command = [sys.executable, "-IS", *compiled, sys.argv[0], "race"]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _wait_until_ready(racer):
    """Read up to its barrier, or to its end: a racer that dies before is a crash among the exits."""
    for line in racer.stdout:
        if b'"barrier":true' in line:
            return


def _release(racer):
    try:
        racer.stdin.write(b"go\n")
        racer.stdin.flush()
    except BrokenPipeError:
        pass  # it has died; its exit code tells


def _ended(racer):
    racer.stdout.read()
    return racer.wait()
