"""What belongs to the home and not to one chat: which chats there are, what they watch, and what waits in the outbox.

All of it lies in the journal. A record is applied to `working` when it is asked for and to `durable` when it is on
disk; clients are shown what is durable, so that nothing that anybody has read is lost in a crash.
"""

from muxd.commits import Commits
from muxd.errors import CorruptError
from muxd.failstop import in_thread
from muxd.journal import Journal


class HomeState:
    """The fold of a journal's records."""

    def __init__(self):
        self.chats: dict[str, int] = {}  # name -> number of its file, oldest first
        self.watches: dict[str, list[str]] = {}  # chat -> paths, oldest first
        self.outbox: dict[str, str] = {}  # message -> text; what is delivered is gone

    def apply(self, record: dict) -> None:
        """One step of the fold. Raises CorruptError for a record that no version writes there."""
        match record:
            case {"do": "snapshot", "chats": chats, "watches": watches, "outbox": outbox}:
                self.chats, self.outbox = dict(chats), dict(outbox)
                self.watches = {chat: list(paths) for chat, paths in watches.items()}
            case {"do": "chat", "chat": chat, "number": number}:
                self.chats[chat] = number
            case {"do": "watch", "chat": chat, "path": path}:
                self.watches.setdefault(chat, []).append(path)
            case {"do": "unwatch", "chat": chat, "path": path} if path in self.watches.get(chat, ()):
                self.watches[chat].remove(path)
            case {"do": "message", "message": message, "text": text}:
                self.outbox[message] = text
            case {"do": "delivered", "message": message} if message in self.outbox:
                self.outbox.pop(message)
            case _:
                raise CorruptError(
                    f"the journal holds a record that fits nothing before it: {str(record)[:80]}; use a newer muxd"
                )

    def snapshot(self) -> dict:
        """One record that stands for all of them so far."""
        return {
            "do": "snapshot",
            "chats": dict(self.chats),
            "watches": {chat: list(paths) for chat, paths in self.watches.items()},
            "outbox": dict(self.outbox),
        }


class Home:
    """The home's state and its one writer."""

    def __init__(self, journal: Journal):
        self._journal = journal
        self._waiting: list[dict] = []
        self._commits = Commits(self._write)
        self.working = HomeState()
        self.durable = HomeState()
        for record in journal.records:
            self.working.apply(record)
            self.durable.apply(record)
        self.commit = self._commits.commit

    def propose(self, record: dict) -> None:
        """A change that the next `commit` makes durable."""
        self.working.apply(record)
        self._waiting.append(record)

    async def _write(self):
        records, self._waiting = self._waiting, []
        if not records:
            return
        await in_thread(self._journal.append, records)
        for record in records:
            self.durable.apply(record)
        if self._journal.is_long:
            await in_thread(self._journal.compact, self.durable.snapshot())
