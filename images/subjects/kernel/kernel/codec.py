"""Canonical JSON, as docs/format.md defines it: sorted keys, no spaces, ASCII.

Uses the two C functions that `json` itself is built on: `import json` pulls in `re` and costs 6 ms, more than a whole
crash-free workload should. A test compares every byte with `json.dumps`.
"""

from _json import encode_basestring_ascii, make_encoder, make_scanner


def _refuse(value):
    raise TypeError(f"{type(value).__name__} cannot be stored")


class _ScannerOptions:
    """What `json.JSONDecoder()` gives to the same scanner."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def parse_constant(name):
        raise ValueError(f"{name} is not JSON")


_encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", True, False, False)
_scan = make_scanner(_ScannerOptions)


def canonical(value) -> str:
    """`value` as canonical JSON text."""
    return "".join(_encode(value, 0))


def decode(text: str):
    """The value of a JSON text. Raises ValueError for anything else."""
    text = text.strip(" \t\r\n")
    try:
        value, end = _scan(text, 0)
    except (
        StopIteration,
        SystemError,
    ):  # the latter where it looks for JSONDecodeError in `json`, which is not imported
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError(f"something follows the JSON value at character {end}")
    return value
