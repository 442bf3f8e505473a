"""JSON-RPC 2.0: a line becomes a call and its outcome a line. Knows no operation, and no socket."""

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from muxd.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RpcError

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]
MAX_BATCH = 64


async def answer(line: bytes, call: Call) -> bytes | None:
    """The answer to one line, without LF; None if it has none: a notification, or nothing but these. Never raises."""
    try:
        asked = _decode(line)
    except RpcError as error:
        return encode(refusal(None, error))
    if not isinstance(asked, list):
        replied = await _reply(asked, call)
        return None if replied is None else encode(replied)
    if not 0 < len(asked) <= MAX_BATCH:
        return encode(refusal(None, RpcError(INVALID_REQUEST, f"a batch has 1 to {MAX_BATCH} requests")))
    replies = [replied for replied in await asyncio.gather(*(_reply(one, call) for one in asked)) if replied]
    return encode(replies) if replies else None


def refusal(ident: str | float | None, error: RpcError) -> dict:
    """The answer to a request that is not done."""
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": error.code, "message": error.message}}


def encode(reply: dict | list) -> bytes:
    return json.dumps(reply, separators=(",", ":")).encode()


def _decode(line):
    try:
        return json.loads(line.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"not JSON: {error}") from None


def _no_number(text):
    raise ValueError(f"{text} is no number of JSON")


async def _reply(asked, call):
    """The reply to one request; None to a notification, also to one that fails."""
    ident = asked.get("id") if isinstance(asked, dict) else None
    if isinstance(ident, bool | dict | list):
        return refusal(None, RpcError(INVALID_REQUEST, "`id` is a text, a number or null"))
    try:
        method, params = _request(asked)
    except RpcError as error:
        return refusal(ident, error)  # also without an `id`: what is no request is no notification
    try:
        reply = {"jsonrpc": "2.0", "id": ident, "result": await call(method, params)}
    except RpcError as error:
        reply = refusal(ident, error)
    except Exception as error:  # noqa: BLE001 - one request must not end the others
        traceback.print_exception(error)
        reply = refusal(ident, RpcError(INTERNAL_ERROR, f"{type(error).__name__}, see the daemon's log"))
    return reply if "id" in asked else None


def _request(asked):
    if not isinstance(asked, dict) or asked.get("jsonrpc") != "2.0" or not isinstance(asked.get("method"), str):
        raise RpcError(INVALID_REQUEST, 'a request is an object with "jsonrpc": "2.0" and a `method`')
    params = asked.get("params", {})
    if isinstance(params, list) and not params:
        params = {}
    if isinstance(params, list):
        raise RpcError(INVALID_PARAMS, "`params` are given by name")
    if not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "`params` is an object")
    return asked["method"], params
