"""The client of the effect ledger, the outside world: one JSON line over a unix socket each. See docs/protocol.md."""

import asyncio
import json

ANSWER_WAIT_S = 2.0


class Undelivered(Exception):
    """Nobody knows whether it landed; the message says why."""


async def send(path: str, effect: str, key: str, args: dict) -> None:
    """Let an effect happen, once for each `key`: sent again, it changes nothing. Raises Undelivered."""
    request = {
        "do": "send",
        "effect": effect,
        "class": "keyed",
        "key": key,
        "token": 0,
        "tool": "deliver",
        "args": args,
    }
    try:
        answer = json.loads(await asyncio.wait_for(_ask(path, json.dumps(request).encode() + b"\n"), ANSWER_WAIT_S))
    except (OSError, ValueError, TimeoutError) as error:
        raise Undelivered(f"the ledger at {path} gave no answer: {error!r}") from None
    if answer.get("ok") is not True:
        raise Undelivered(f"the ledger refused {effect}: {answer.get('why')}")


async def _ask(path, line):
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(line)
        return await reader.readline()
    finally:
        writer.close()
