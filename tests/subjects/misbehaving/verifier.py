#!/usr/bin/python3 -I
"""A verifier that misbehaves on request: its argument says how. Speaks the protocol by itself, without our harness."""

import json
import os
import sys
import time

DATA = os.environ["LAB_DATA"]
KEPT = {"facts": 1, "differs": None}
DIFFERS = {"facts": 1, "differs": {"fact": "colour", "expected": "blue", "found": "red", "why": "it faded"}}


def mount():
    with open("/proc/self/mountinfo") as lines:
        return next((line.strip() for line in lines if line.split(" ")[4] == DATA), "")


def say(answer):
    print(answer if isinstance(answer, str) else json.dumps(answer), flush=True)


def look(how, name):
    if how == "dies-at-look":
        sys.exit("the verifier lost its mind")
    if how == "silent-at-look":
        time.sleep(600)
    if how == "talks-nonsense":
        return say("everything is fine")
    if how == "answers-a-list":
        return say([1, 2])
    if how == "has-no-properties":
        return say({"look": name, "mount": mount()})
    if how == "has-odd-properties":
        return say({"look": name, "mount": mount(), "properties": {"kept": "yes"}})
    if how == "has-negative-facts":
        return say({"look": name, "mount": mount(), "properties": {"kept": {"facts": -5, "differs": None}}})
    if how == "counts-without-end":
        return say({"look": name, "mount": mount(), "properties": {"kept": {"facts": 10**400, "differs": None}}})
    if how == "answers-another-look":
        return say({"look": "end", "mount": mount(), "properties": {"kept": KEPT}})
    if how == "answers-error":
        return say({"error": "cannot read page 7"})
    properties = {"kept": KEPT}
    if how == "sees-no-facts":
        properties = {"kept": {"facts": 0, "differs": None}}
    if how == "forgets-a-property":
        properties = {"another": KEPT}
    if how == "finds-a-loss-nobody-promised":
        properties = {"kept": KEPT, "colour": DIFFERS}
    if how == "finds-a-broken-promise":
        properties = {"kept": DIFFERS, "colour": DIFFERS}
    return say({"look": name, "mount": mount(), "properties": properties})


def main():
    how = sys.argv[1]
    if how == "dies-at-start":
        sys.exit("no memory for a verifier")
    if how == "silent":
        time.sleep(600)
    say("hello there" if how == "greets-oddly" else {"verifier": "misbehaving", "version": "1", "mount": mount()})
    for line in sys.stdin:
        request = json.loads(line)
        if request["ask"] == "copy":
            say({"volume": None})
        else:
            look(how, request["look"])


main()
