#!/usr/bin/python3 -I
"""A subject that misbehaves on request: the workload's "run" and "recover" name a function of this file."""

import json
import os
import signal
import sys
import time

NONCE = os.environ["LAB_NONCE"]
armed = os.environ.get("LAB_HOOK")
STATE = "/data/state"


def record(**fields):
    os.write(1, b"\x1e" + json.dumps({"lab": NONCE, **fields}).encode() + b"\n")


def hook(name):
    if armed == f"{name}#1":
        record(hit=name, n=1)
        hang()
    if os.environ.get("LAB_CENSUS"):
        record(hit=name, n=1)
    if os.environ.get("LAB_BARRIER") == name:
        record(hit=name, n=1, barrier=True)
        sys.stdin.readline()


def say(text):
    print(text, file=sys.stderr, flush=True)


def write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]


# How it misbehaves. Those that return go on to the hook.


def honest():
    pass


def hang():
    while True:
        time.sleep(60)


def ends_early():
    """More words than are shown, the last ones telling."""
    for n in range(1000):
        say(f"step {n}")
    say("giving up: no licence")
    sys.exit(3)


def ends_content():
    say("nothing to do today")
    sys.exit(0)


def floods():
    """12 MB, on both streams, with no line's end: a pipe that nobody drains holds 64 KB."""
    for _ in range(96):
        write_all(1, b"o" * 65536)
        write_all(2, b"e" * 65536)
    write_all(1, b"\x1e" + b"r" * 9000)  # and a record that never ends


def writes_binary():
    """Every byte, broken UTF-8, and what only looks like a record of ours."""
    write_all(1, bytes(range(256)) * 64 + b"\xff\xfe\x00" + b"\x1e" * 50)
    write_all(1, b'\x1e{"lab":"someone-else","hit":"work.step","n":1}\n\x1enull\n\x1e[1]\n')
    write_all(1, b"\x1e" + b"[" * 4000 + b"\n" + f'\x1e{{"lab":"{NONCE}","hit":"work.step","n":"x"}}\n'.encode())


def floods_records():
    line = b"\x1e" + json.dumps({"lab": NONCE, "op": "x", "type": "info", "id": 1}).encode() + b"\n"
    for _ in range(210):
        write_all(1, line * 1000)
    hang()


def exits_137():
    say("pretending to be killed")
    os._exit(137)


def terminates_itself():
    signal.signal(signal.SIGTERM, lambda *_: (say("caught SIGTERM"), os._exit(143)))
    os.kill(os.getpid(), signal.SIGTERM)
    hang()


def announces_another():
    record(hit="work.other", n=7)
    hang()


def forks():
    """Children that hold the output open and outlive every polite end."""
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            hang()


def forks_without_end():
    while True:
        if os.fork() == 0:
            hang()


def fills_its_disk():
    with open("/data/fill", "wb", buffering=0) as file:
        while True:
            write_all(file.fileno(), b"f" * (1 << 20))


def eats_memory():
    say("hungry")
    eaten = []
    while True:
        eaten.append(b"m" * (1 << 20))


def closes_its_output():
    os.close(1)
    os.close(2)
    hang()


def main():
    part = sys.argv[1]
    how = json.loads(os.environ["LAB_WORKLOAD"])
    with open(STATE, "w") as file:
        file.write(part)
    globals()[how.get(part, "honest").replace("-", "_")]()
    if part == "recover":
        hook("recovery.done")
        globals()[how.get("resume", "honest").replace("-", "_")]()
    hook("work.step")


main()
