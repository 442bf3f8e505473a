"""Damages data in many ways, drawn from a seed: JSON and TOML texts, and what lies in the place of a file."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEEP = "[" * 940 + "]" * 940
ODD: tuple[str, ...] = (
    "null", "[]", "{}", '""', "true", "-1", "0", "1.5", "1e999", "NaN", "-Infinity", str(2**70), "9" * 5000, DEEP,
    '{"a":' * 940 + "1" + "}" * 940, '"\\u001b]52;c;YQ==\\u0007"', '"\\ud800"', '"../../../../etc/passwd"',
    '"a\\u0000b"', '"' + "x" * 100_000 + '"', '[null]', '[[1]]', '{"": null}',
)  # fmt: skip
HOLE = "\x00hole\x00"


def json_text(rng: random.Random, text: bytes) -> bytes:
    """A JSON text (or one line of several) with one thing wrong with it, or as it is."""
    lines = text.splitlines(keepends=True) if text.count(b"\n") > 3 and text[:1] == b"{" and text[1:2] != b"\n" else []
    if lines:
        at = rng.randrange(len(lines))
        lines[at] = json_text(rng, lines[at].rstrip(b"\n")) + b"\n"
        return b"".join(lines)
    return rng.choice((_odd_node, _odd_node, _odd_node, _without_key, _whole, _cut, _flipped))(rng, text)


def _odd_node(rng: random.Random, text: bytes) -> bytes:
    data = json.loads(text)
    holder, key = rng.choice(list(_nodes(data)) or [([data], 0)])
    holder[key] = HOLE
    return json.dumps(data).replace(json.dumps(HOLE), rng.choice(ODD)).encode()


def _without_key(rng: random.Random, text: bytes) -> bytes:
    data = json.loads(text)
    holder, key = rng.choice(list(_nodes(data)) or [([data], 0)])
    del holder[key]
    return json.dumps(data).encode()


def _whole(rng: random.Random, text: bytes) -> bytes:
    return rng.choice((*ODD, "", "[" * 100_000, "\ufeff{}", "{" * 3, '{"a":1}{"b":2}')).encode()


def _cut(rng: random.Random, text: bytes) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _flipped(rng: random.Random, text: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _nodes(data: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree: what holds it, and its key there."""
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    return [pair for key in keys for pair in [(data, key), *_nodes(data[key])]]


def toml_text(rng: random.Random, text: bytes) -> bytes:
    """A TOML text with one thing wrong with it, or as it is."""
    lines = text.decode().splitlines()
    at = rng.randrange(len(lines))
    key, equals, _ = lines[at].partition("=")
    match rng.randrange(6):
        case 0 if equals:
            odd = ("[" * 3000 + "]" * 3000, "''", "[]", "{}", "-1", "1e999", "nan", str(2**70), '"a\\u0000b"', '"//"')
            lines[at] = f"{key}= {rng.choice(odd)}"
        case 1:
            del lines[at]
        case 2:
            lines.insert(
                at, rng.choice(("x" + ".a" * 5000 + " = 1", "[" + "a." * 5000 + "b]", "\x07", "é = 1", "[[x]]"))
            )
        case 3 if equals:
            lines[at] = f"{key.strip()}z ={lines[at][len(key) + 1 :]}"
        case 4:
            lines.insert(at, lines[at])
        case _:
            return _flipped(rng, text)
    return "\n".join(lines).encode()


def in_place_of(rng: random.Random, path: Path) -> None:
    """Something else where a file was: a link, a device, a FIFO, a folder, nothing."""
    path.unlink()
    makes: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to("/nowhere"),
        lambda: os.mkfifo(path),
        lambda: path.mkdir(),
        lambda: shutil.copy("/dev/null", path),
        lambda: None,
    )
    rng.choice(makes)()
