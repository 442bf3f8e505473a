"""What a chat is: an immutable value, and the steps from one to the next. Pure; no I/O."""

import dataclasses
import json
from dataclasses import dataclass

DONE = "done"
CRASHED = "crashed"
HUNG = "hung"
UNKNOWN = "unknown"  # its turn was running at a crash


@dataclass(frozen=True)
class ChatState:
    """A prompt is in one place: it waits, runs, is in the log with its outcome, or was removed."""

    draft: str | None = None
    queue: tuple[tuple[str, str], ...] = ()  # (prompt, text), the next one first
    running: str | None = None
    log: tuple[tuple[str, str], ...] = ()  # (prompt, outcome)
    removed: tuple[str, ...] = ()  # known, so that one that is sent again stays removed
    title: str | None = None
    mode: str | None = None
    unread: bool = False
    decisions: tuple[tuple[str, bool], ...] = ()

    @property
    def prompts(self) -> tuple[str, ...]:
        """Every prompt that was ever accepted."""
        running = () if self.running is None else (self.running,)
        return (*self.waiting, *running, *(prompt for prompt, _ in self.log), *self.removed)

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(prompt for prompt, _ in self.queue)

    @property
    def is_idle(self) -> bool:
        return not self.queue and self.running is None

    def change(self, **fields) -> "ChatState":
        """The same with other values."""
        return dataclasses.replace(self, **fields)

    def accept(self, prompt: str, text: str) -> "ChatState":
        """One more prompt waits. The one who sent it has seen the chat."""
        return self.change(queue=(*self.queue, (prompt, text)), unread=False)

    def remove(self, prompt: str) -> "ChatState":
        """A prompt waits no longer, and never will."""
        return self.change(
            queue=tuple(entry for entry in self.queue if entry[0] != prompt), removed=(*self.removed, prompt)
        )

    def begin(self) -> "ChatState":
        """The first of the queue runs."""
        return self.change(queue=self.queue[1:], running=self.queue[0][0])

    def end(self, outcome: str) -> "ChatState":
        """What ran is over."""
        return self.change(running=None, log=(*self.log, (self.running, outcome)))

    def decide(self, prompt: str, allow: bool) -> "ChatState":
        """What a client has answered to a prompt's agent."""
        return self.change(decisions=(*self.decisions, (prompt, allow)))


def encode(state: ChatState) -> bytes:
    """As JSON: the fields by name."""
    return json.dumps({f.name: getattr(state, f.name) for f in dataclasses.fields(state)}).encode()


def decode(payload: bytes) -> ChatState:
    """The reverse of `encode`. Raises TypeError for a field that this version does not know."""
    return ChatState(**{name: _frozen(value) for name, value in json.loads(payload).items()})


def _frozen(value):
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
