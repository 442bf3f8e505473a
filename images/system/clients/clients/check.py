"""Reads everything back after a start: what a check of the history has observed."""

from collections.abc import Iterable

from clients.adapters import NO_SUCH_CHAT
from clients.client import CUT, Client, Outcome


class NotWhole(Exception):
    """Something could not be read. `cut`: because the daemon died."""

    def __init__(self, what: str, cut: bool):
        super().__init__(what)
        self.cut = cut


async def read_back(reader: Client, asked: Iterable[str]) -> dict:
    """The list of chats, and each chat that is listed or was ever asked for, one after the other.

    None stands for a chat that is not there. Raises NotWhole: what could not be read must not look like that.
    """
    chats = _listed(await reader.ask("chat/list", {}))
    read: dict[str, object] = {}
    for chat in dict.fromkeys([*chats, *asked]):
        outcome = await reader.ask("chat/read", {"chat": chat})
        if outcome.refused is not None and outcome.refused.code == NO_SUCH_CHAT:
            read[chat] = None
        else:
            read[chat] = _result(outcome, f"chat/read of {chat}")
    return {"chats": chats, "read": read}


def _listed(outcome: Outcome) -> list[str]:
    result = _result(outcome, "chat/list")
    chats = result.get("chats") if isinstance(result, dict) else None
    if not isinstance(chats, list) or not all(isinstance(chat, str) for chat in chats):
        raise NotWhole("chat/list: the answer has no list `chats` of names", cut=False)
    return chats


def _result(outcome: Outcome, what: str) -> object:
    if outcome.refused is not None:
        raise NotWhole(f"{what}: {outcome.refused}", cut=False)
    if outcome.why:
        raise NotWhole(f"{what}: no answer ({outcome.why})", cut=outcome.why == CUT)
    return outcome.result
