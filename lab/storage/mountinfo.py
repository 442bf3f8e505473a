"""Was it really that filesystem? A line of /proc/self/mountinfo against what a storage layer has made. Pure.

The line is read inside the container that used the volume: what a trial ran on is seen, never assumed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass(frozen=True)
class Expected:
    """What the line has to say. `options` are of the superblock; a `size` is compared in bytes."""

    filesystem: str
    source: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mounted:
    """What a line says."""

    root: str  # the folder of the filesystem that is mounted
    point: str
    filesystem: str
    source: str
    options: Mapping[str, str]  # of the superblock; a flag's value is ""


def parse(line: str) -> Mounted:
    """One line, see proc(5). Raises ValueError if it is none."""
    before, separator, after = line.strip().partition(" - ")
    fields, tail = before.split(" "), after.split(" ")
    if not separator or len(fields) < 6 or len(tail) < 3:
        raise ValueError(f"not a line of mountinfo: {line!r}")
    pairs = (option.partition("=") for option in re.split(r"(?<!\\),", _plain(tail[2])))
    return Mounted(
        _plain(fields[3]), _plain(fields[4]), tail[0], _plain(tail[1]), {key: value for key, _, value in pairs}
    )


def audit(line: str, expected: Expected) -> str | None:
    """None if the line is what was asked for, else why it is not."""
    try:
        found = parse(line)
    except ValueError as error:
        return str(error)
    if found.filesystem != expected.filesystem:
        return f"{found.point} is {found.filesystem}, not {expected.filesystem}"
    if found.root != "/":
        return f"{found.point} is only the folder {found.root} of its filesystem"
    if expected.source is not None and found.source != expected.source:
        return f"{found.point} is {found.filesystem} on {found.source}, not on {expected.source}"
    for name, value in expected.options.items():
        if name not in found.options or not _same(name, found.options[name], value):
            return f"{found.point} is {found.filesystem} with {name}={found.options.get(name)}, not {value}"
    return None


def _same(name: str, found: str, expected: str) -> bool:
    return _bytes(found) == _bytes(expected) if name == "size" else found == expected


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)([kmg]?)", text.lower())
    return int(match[1]) * UNITS[match[2]] if match else None


def _plain(text: str) -> str:
    """The kernel writes space, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
