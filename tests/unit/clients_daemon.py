"""A daemon of JSON-RPC lines for the tests of the clients: `clients_daemon.py SOCKET [MUTE_MS]`.

It keeps chats and their drafts in memory. The text of a draft says how it misbehaves; it answers nothing in its first
MUTE_MS. A draft `last-words` makes a file SOCKET.heard, waits for SOCKET.speak, and is answered by a daemon that dies
then. `status` is idle unless there is a chat `busy`; a chat `lost` is never made, and `stuck` is never read.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

chats: dict[str, str] = {}
mute_until = time.monotonic() + float((sys.argv[2:] or ["0"])[0]) / 1000


def answer(method: str, params: dict) -> dict:
    match method:
        case "status":
            return {"idle": "busy" not in chats}
        case "chat/new":
            if params["chat"] != "lost":
                chats.setdefault(params["chat"], "")
            return {}
        case "chat/list":
            return {"chats": list(chats)}
        case "chat/read" if params["chat"] in chats:
            return {"draft": chats[params["chat"]], "weight": "x" * 5000 * (params["chat"] == "heavy")}
        case "draft/set" if params["chat"] in chats:
            chats[params["chat"]] = params["text"]
            return {}
    raise KeyError(params["chat"])


async def misbehave(text: str, writer: asyncio.StreamWriter) -> bool:
    """True if the request is to be answered all the same."""
    global mute_until
    cue, _, number = text.partition(" ")
    match cue:
        case "delay":
            await asyncio.sleep(int(number) / 1000)
        case "hang":
            await asyncio.sleep(3600)
        case "close":
            writer.transport.abort()
        case "close-and-mute":
            mute_until = time.monotonic() + 3600
            writer.transport.abort()
        case "notify":
            writer.write(b'{"jsonrpc": "2.0", "method": "changed"}\n')
        case "say":
            writer.write(text.removeprefix("say ").encode() + b"\n")
            return False
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "last-words":
            Path(f"{sys.argv[1]}.heard").touch()
            while not Path(f"{sys.argv[1]}.speak").exists():
                await asyncio.sleep(0.005)
        case "torn":
            writer.write(b'{"jsonrpc": "2.0", "id": 1, "res')
            os.kill(os.getpid(), signal.SIGKILL)
    return not cue.startswith("close")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        request = json.loads(line)
        await asyncio.sleep(max(0.0, mute_until - time.monotonic()))
        params = request["params"]
        if request["method"] == "chat/read" and params["chat"] == "stuck":
            continue
        head = {"jsonrpc": "2.0", "id": request["id"]}
        if not await misbehave(params.get("text", ""), writer):
            continue
        try:
            reply = head | {"result": answer(request["method"], params)}
        except KeyError as error:
            reply = head | {"error": {"code": -32001, "message": f"no such chat: {error}"}}
        writer.write(json.dumps(reply).encode() + b"\n")
        if params.get("text") == "last-words":
            os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    async with await asyncio.start_unix_server(serve, sys.argv[1]) as server:
        await server.serve_forever()


asyncio.run(main())
