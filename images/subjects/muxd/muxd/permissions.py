"""Questions of agents that wait for a client's decision. Held in memory: a question ends with its turn."""

import asyncio

from muxd.errors import NO_SUCH_PERMISSION, RpcError

DECISION_WAIT_S = 0.3  # an agent that gets none in this time goes on as denied


class Permissions:
    """The open questions of all chats."""

    def __init__(self):
        self._asking: dict[tuple[str, str], asyncio.Future[bool]] = {}

    async def ask(self, chat: str, prompt: str) -> bool:
        """What a client decides, or False if none does in time."""
        decision = self._asking[chat, prompt] = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(decision, DECISION_WAIT_S)
        except TimeoutError:
            return False
        finally:
            del self._asking[chat, prompt]

    def decide(self, chat: str, prompt: str, allow: bool) -> None:
        """Answer a question. Raises RpcError if nothing asks, or somebody else has decided."""
        decision = self._asking.get((chat, prompt))
        if decision is None or decision.done():
            raise RpcError(NO_SUCH_PERMISSION, f"prompt {prompt} of chat {chat} asks for nothing")
        decision.set_result(allow)
