"""Agents: one child process for one turn, watched until its end. What they say is counted as a sign of life only."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable

from muxd.chatstate import CRASHED, DONE, HUNG
from muxd.files import Reach

AGENT = os.path.abspath(__file__).rsplit("/", 2)[0] + "/bin/muxd-agent"
SILENCE_S = 1.0  # an agent that says nothing for so long hangs


class Agents:
    """Starts agents that report to the ledger at `ledger`, a unix socket."""

    def __init__(self, ledger: str, reach: Reach):
        self._environ = {"LAB_LEDGER": ledger}
        self._reach = reach

    async def run(self, prompt: str, text: str, ask: Callable[[], Awaitable[bool]]) -> str:
        """Work one turn. Returns its outcome; the agent is gone by then. `ask` gets a decision."""
        try:
            agent = await asyncio.create_subprocess_exec(
                sys.executable, "-IS", AGENT,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=self._environ,
            )  # fmt: skip
        except OSError as error:
            print(f"muxd: the agent of prompt {prompt} did not start: {error}", file=sys.stderr, flush=True)
            return CRASHED
        self._reach("turn.started")
        try:
            _tell(agent, {"prompt": prompt, "text": text})
            while line := await asyncio.wait_for(agent.stdout.readline(), SILENCE_S):
                if json.loads(line).get("ask"):
                    _tell(agent, {"allow": await ask()})
            exit_code = await asyncio.wait_for(agent.wait(), SILENCE_S)
            return DONE if exit_code == 0 else CRASHED
        except TimeoutError:
            return HUNG
        except ValueError:  # a line that is no JSON, or has no end: not an agent's
            return CRASHED
        finally:
            await _end(agent)


def _tell(agent, what):
    """An agent that has died does not read it, which its end will show."""
    agent.stdin.write(json.dumps(what).encode() + b"\n")


async def _end(agent):
    if agent.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            agent.kill()
        await agent.wait()
    agent.stdin.close()
