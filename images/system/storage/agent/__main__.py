"""`storage-agent`: makes fresh file systems for trials. One JSON request a line, one JSON answer; see docs/storage.md.

It ends when its standard input does and then lets go of all it made. After a SIGKILL the engine and the kernel do that:
its images lie in a tmpfs of its own container, and its loop devices free themselves once nothing has them mounted.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from operations import Agent, Failed

MAX_LINE = 96 * 1024 * 1024  # a prepared state of 64 MiB in base64, and room


def answer(agent: Agent, line: bytes) -> dict[str, Any]:
    """What to say to one line; every failure is an answer, and the agent goes on."""
    ident = None
    try:
        request = json.loads(line)
        ident = request.pop("id")
        return {"id": ident, "ok": True, **agent.do(**request)}
    except Failed as error:
        return {"id": ident, "ok": False, "error": str(error)}
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return {"id": ident, "ok": False, "error": f"{what}{error.strerror or error}"}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return {"id": ident, "ok": False, "error": f"not a request: {type(error).__name__}: {error}"}


def main() -> int:
    agent = Agent()
    try:
        while line := sys.stdin.buffer.readline(MAX_LINE):
            if not line.endswith(b"\n"):
                break  # the controller died in the middle of a line, or it is no controller
            sys.stdout.write(json.dumps(answer(agent, line)) + "\n")
            sys.stdout.flush()
    finally:
        agent.release_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
