"""Prompts are queued, running, or in the log once; run at most once; and what was taken away never comes back.

Properties: `prompts-once`, `removals-final`. What ran is the ledger's word as well as the log's. The order of a
queue is not promised and not judged.

What is decided here, where the table of docs/fuzz.md leaves room:
- A prompt whose send was never answered may be there or not; once it was seen, it is held as if acknowledged; once
  it was nowhere in a reading after its life, it may never be seen again, unless it is sent again. If its send
  failed, never.
- `removed: true` means that it waited: it had not run, never runs, and nobody else took it away.
- A removal without an answer may explain that a prompt is nowhere; then it has landed, and the prompt must stay
  away.
- `unknown` needs a kill between its send and the reading, and one kill leaves at most one in a chat: one turn runs
  there.
- A turn logged as `done` has been seen by the ledger.
- At the final check whatever was there before the daemon said that it is idle must have ended. A daemon of which no
  turn was ever seen runs no agents: its prompts wait for ever, if it says that it is idle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from verifier.fuzz.history import CHECK, NEVER, OK, Request, Story, cut
from verifier.fuzz.prompt import TOLD, Place, Prompt, removed
from verifier.fuzz.shapes import PROMPTS, REMOVALS, Checks, brief

RUN = "run:"  # the ledger's effect of a turn
NOWHERE = "nowhere"
MANY = 4  # places of one prompt that a finding names

Seen = dict[str, list[tuple[Place, str]]]


class Prompts:
    """Judges each answer that says something of a prompt, in the order in which they ended; `end` judges the rest."""

    def __init__(self, story: Story, checks: Checks) -> None:
        self._story = story
        self._once = checks[PROMPTS]
        self._final = checks[REMOVALS]
        self._runs = story.effects(RUN)
        self._turns = bool(self._runs)  # a turn was ever seen: it runs agents
        self._prompts: dict[tuple[str, str], Prompt] = {}
        self._in_chat: defaultdict[str, list[Prompt]] = defaultdict(list)
        self._left: list[tuple[Request, Prompt, Place]] = []  # in the final check
        self.checked = 0  # prompts that somebody had sent, looked for by a check
        for request in story.requests:
            if request.op in ("prompt/send", "queue/remove"):
                prompt = self._prompt(request.args["chat"], request.args["prompt"])
                (prompt.sends if request.op == "prompt/send" else prompt.removals).append(request)

    def hear(self, request: Request, fields: dict[str, Any]) -> None:
        """Judge one answer, of which `fields` are well-shaped."""
        if request.op == "chat/read" and {"queue", "running", "log"} <= fields.keys():
            self._chat(request, fields)
        elif request.op == "queue/list" and "queue" in fields:
            self._queue(request, fields["queue"])
        elif request.op == "queue/remove" and "removed" in fields:
            self._removal(request, fields["removed"])

    def end(self) -> None:
        """Judge what only the whole history tells."""
        for request, prompt, place in self._left:
            self._ended(request, prompt, place)
        known = {prompt.name for prompt in self._prompts.values() if prompt.sends}
        for name in sorted(self._runs.keys() - known):
            why = f"{brief(name)} ran, and nobody sent it"
            self._once.holds(False, f"step={CHECK} op=prompt/send {brief(name)}", "no run", "a run in the ledger", why)
        for prompt in self._prompts.values():
            self._ran(prompt)

    def worked_off(self) -> list[Prompt]:
        """All prompts, if it runs agents; else none: they wait for ever."""
        return list(self._prompts.values()) if self._turns else []

    def _prompt(self, chat: str, name: str) -> Prompt:
        if (chat, name) not in self._prompts:
            prompt = Prompt(chat, name, self._story.first_seen(RUN + name))
            self._prompts[chat, name] = prompt
            self._in_chat[chat].append(prompt)
        return self._prompts[chat, name]

    def _chat(self, request: Request, fields: dict[str, Any]) -> None:
        """A whole chat at one instant."""
        seen: Seen = defaultdict(list)
        for name in fields["queue"]:
            seen[name].append((Place.WAITS, ""))
        if fields["running"] is not None:
            seen[fields["running"]].append((Place.RUNS, ""))
        for entry in fields["log"]:
            seen[entry["prompt"]].append((Place.LOGGED, entry["outcome"]))
        self._turns = self._turns or fields["running"] is not None or bool(fields["log"])
        self._places(request, seen)
        for prompt in list(self._in_chat[request.args["chat"]]):
            if prompt.name not in seen and prompt.sent(request.end):
                self._nowhere(request, prompt)
        self._cut_turns(request, fields["log"])

    def _queue(self, request: Request, queue: list[str]) -> None:
        self._places(request, {name: [(Place.WAITS, "")] * times for name, times in Counter(queue).items()})
        for prompt in self._in_chat[request.args["chat"]]:
            if prompt.name not in queue:
                prompt.see_not_waiting(request)

    def _places(self, request: Request, seen: Seen) -> None:
        for name, places in seen.items():
            prompt = self._prompt(request.args["chat"], name)
            found = ", ".join(TOLD[place] for place, _ in places[:MANY])
            why = f"{prompt.called} is there {len(places)} times, {request.where}: {found}"
            self._once.holds(len(places) == 1, f"{prompt.told(request)} place", "one place", found, why)
            for place, outcome in places:
                self._there(request, prompt, place, outcome)

    def _there(self, request: Request, prompt: Prompt, place: Place, outcome: str) -> None:
        """The prompt was seen. It counts as seen only if it can be there: one fault is told once."""
        self.checked += request.step == CHECK and bool(prompt.sends)
        if self._removed_again(request, prompt, place) or self._unexplained(request, prompt, place):
            return
        wrong = prompt.out_of_order(request, place, outcome)
        why = f"{prompt.called}, {request.where}: {wrong}"
        if self._once.holds(not wrong, f"{prompt.told(request)} place", "no step back", TOLD[place], why):
            prompt.see(request, place, outcome)
        if request.step == CHECK and self._story.settled and request.begin > self._story.settled.place:
            self._left.append((request, prompt, place))

    def _removed_again(self, request: Request, prompt: Prompt, place: Place) -> bool:
        """A removed prompt is there."""
        if not prompt.removals:
            return False
        removal = prompt.taken_away(request, place)
        why = f"{prompt.called} was taken away ({_answer(removal)}), but it {TOLD[place]}, {request.where}"
        self._final.holds(removal is None, f"{(removal or request).who} place", NOWHERE, TOLD[place], why)
        return removal is not None

    def _unexplained(self, request: Request, prompt: Prompt, place: Place) -> bool:
        """No send can have put it there."""
        if prompt.explained(request.begin, request.end):
            return False
        why = f"{prompt.called} {TOLD[place]}, {request.where}: {_no_send(prompt.sent(request.end))}"
        self._once.holds(False, f"{prompt.told(request)} place", NOWHERE, TOLD[place], why)
        return True

    def _nowhere(self, request: Request, prompt: Prompt) -> None:
        """The prompt is neither queued nor running nor in the log."""
        self.checked += request.step == CHECK
        prompt.see_nowhere(request)
        excuse = prompt.excuse(request.end)
        lost = prompt.landed < request.begin and excuse is None
        removals = "".join(f"; {r.who}: {_answer(r)}" for r in prompt.removals if r.begin < request.end)
        why = f"{prompt.called} was accepted, but is not queued, running or logged, {request.where}{removals}"
        self._once.holds(not lost, f"{prompt.told(request)} place", "in one place", NOWHERE, why)
        self._final.facts += excuse is not None

    def _removal(self, request: Request, taken: bool) -> None:
        """`removed: true` saw it waiting; `removed: false` that it does not, which settles and excuses nothing else."""
        prompt = self._prompt(request.args["chat"], request.args["prompt"])
        self._final.facts += 1
        if not taken:
            prompt.see_not_waiting(request)
            return
        others = [r.who for r in prompt.certain_removals() if r is not request]
        why = f"{prompt.called} was taken away twice: by {' and by '.join((request.who, *others))}"
        self._final.holds(not others, f"{request.who} removed", "once", "twice", why)
        if self._removed_again(request, prompt, Place.WAITS) or self._unexplained(request, prompt, Place.WAITS):
            return
        prompt.see(request, Place.WAITS)

    def _cut_turns(self, request: Request, log: list[dict[str, str]]) -> None:
        unknown = [entry["prompt"] for entry in log if entry["outcome"] == "unknown"]
        if unknown:
            kills, chat = request.life - 1, request.args["chat"]
            told = f"{len(unknown)} turns of chat {cut(chat)} are logged as unknown, {request.where}"
            fact = f"{self._prompt(chat, unknown[-1]).told(request)} outcome"
            why = f"{told}: one runs at a time, and there were {kills} kills"
            self._once.holds(len(unknown) <= kills, fact, f"at most {kills} unknown", len(unknown), why)

    def _ended(self, request: Request, prompt: Prompt, place: Place) -> None:
        """The final check: what was there before all was said to be done has ended."""
        settled = self._story.settled
        if settled is None or not prompt.landed < settled.place or (settled.idle and not self._turns):
            return
        said = "the daemon said that it is idle" if settled.idle else "the daemon never got idle"
        why = f"{prompt.called} still {TOLD[place]} at the final check: {said}"
        self._once.holds(place == Place.LOGGED, f"{prompt.told(request)} end", TOLD[Place.LOGGED], TOLD[place], why)

    def _ran(self, prompt: Prompt) -> None:
        """What the outside world saw of it."""
        if not prompt.sends:
            return  # a run of it is one that nobody sent
        runs, name = self._runs.get(prompt.name, 0), prompt.called
        fact = f"{prompt.sends[0].who} runs"
        self._once.holds(runs <= 1, fact, "at most 1", runs, f"{name} ran {runs} times, by the ledger")
        removal = prompt.taken_away_at_last()
        lost = removal is None and not prompt.explained(NEVER, NEVER)
        why = f"{name} ran, by the ledger: {_no_send(prompt.sends)}"
        self._once.holds(not (runs and lost), fact, "no run", runs, why)
        if removal is not None:
            why = f"{name} was taken away ({_answer(removal)}), but ran, by the ledger"
            self._final.holds(runs == 0, f"{removal.who} runs", 0, runs, why)
        if any(s.outcome == "done" and s.end < self._story.last_ledger for s in prompt.sightings):
            why = f"{name} is logged as done, but the ledger has not seen it run"
            self._once.holds(runs > 0, fact, "a run", runs, why)


def _no_send(sent: list[Request]) -> str:
    """Why no send explains a prompt."""
    if not sent:
        return "nobody had sent it"
    if all(r.failed for r in sent):
        return f"{sent[-1].who} was answered that it did not happen"
    return "it was nowhere before, when its send had landed or never would"


def _answer(removal: Request | None) -> str:
    """What a removal was told, for a finding."""
    if removal is None:
        return ""
    if removal.outcome != OK:
        return "refused" if removal.failed else "no answer"
    return {True: "removed: true", False: "removed: false", None: "an odd answer"}[removed(removal)]
