"""What a person sees while a run goes on: a live bar on a terminal, plain lines in a pipe, or a line a trial.

`progress_for` picks one. Workers call `finished` from their own threads. Nothing here decides anything. The only part
of the reports that reads a clock and writes to a screen.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from lab.model import Kind, Result, Trial, Word
from lab.plan.points import Plan
from lab.report.failures import finding_line, note_line
from lab.report.text import WIDTH, ident, plural
from lab.report.trial import trial_line
from lab.run.data import GREEN

LINE_EVERY_S = 5.0  # often enough to see that it lives, rare enough for a CI log
RATE_OVER_S = 30.0  # the rate of the last half minute: a start-up or a slow layer must not distort the time left

Clock = Callable[[], float]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Goal:
    """Where a run ends: whichever is not None and comes first."""

    trials: int | None = None
    seconds: float | None = None
    canaries: bool = True  # the tries of a planted bug are among the trials, all of them together as one

    @classmethod
    def of(cls, plan: Plan) -> Goal:
        """Of a whole plan; what has been done of it already included."""
        if plan.bounds is None:
            return cls(len({_unit(trial) for trial in plan.trials}))
        minutes = plan.bounds.minutes
        return cls(plan.bounds.trials, None if minutes is None else 60 * minutes, canaries=False)


def _unit(trial: Trial) -> object:
    """What counts as one: how many tries a planted bug takes is known only when it is caught."""
    return (trial.bug, trial.storage, trial.faults) if trial.kind is Kind.CANARY else trial.ident


class Tally:
    """What was done so far. Not thread-safe: its owner holds a lock."""

    def __init__(
        self, storages: Sequence[str], goal: Goal, done: Sequence[Result], spent_s: float, now: Clock = time.monotonic
    ) -> None:
        self._goal, self._now, self._began = goal, now, now()
        self._spent_s = spent_s
        self._recent: deque[float] = deque()
        self._words: dict[str, Counter[Word]] = {storage: Counter() for storage in storages}
        self._units: set[object] = set()
        self._canaries = self._operations = self._kills = 0
        for result in done:
            self._count(result)

    def add(self, result: Result) -> None:
        """Count one that has just ended."""
        self._count(result)
        self._recent.append(self._now())

    def _count(self, result: Result) -> None:
        """Canaries and probes are progress, and no verdict."""
        if self._goal.canaries or result.trial.kind is not Kind.CANARY:
            self._units.add(_unit(result.trial))
        self._operations += result.operations
        self._kills += len(result.hits)
        self._canaries += result.trial.kind is Kind.CANARY
        if result.trial.kind is Kind.POINT:
            self._words.setdefault(result.trial.storage, Counter())[result.verdict.word] += 1

    @property
    def _done(self) -> int:
        return len(self._units)

    @property
    def _total(self) -> int | None:
        """Never fewer than have ended."""
        return None if self._goal.trials is None else max(self._done, self._goal.trials)

    def is_full(self) -> bool:
        return self._done == self._total

    def share(self) -> float:
        """How much of the run is behind it, from 0 to 1, by what it is bounded by."""
        shares = [self._done / self._total] if self._total else []
        shares += [self._passed_s() / self._goal.seconds] if self._goal.seconds else []
        return min(1.0, max(shares, default=0.0))

    def _passed_s(self) -> float:
        return self._spent_s + self._now() - self._began

    def position(self) -> str:
        """`  12/1500`; `12` where the number of trials is open."""
        if self._total is None:
            return f"{self._done}"
        return f"{self._done:>{len(str(self._total))}}/{self._total}"

    def rate(self) -> float:
        """Trials per second over the last half minute, or since the start if that is less."""
        now = self._now()
        while self._recent and self._recent[0] <= now - RATE_OVER_S:
            self._recent.popleft()
        over_s = min(RATE_OVER_S, now - self._began)
        return len(self._recent) / over_s if over_s > 0 else 0.0

    def left(self) -> str:
        """`0:01:16 left`; unknown until a rate is known."""
        found = [max(0.0, self._goal.seconds - self._passed_s())] if self._goal.seconds else []
        found += [(self._total - self._done) / rate] if self._total is not None and (rate := self.rate()) else []
        return f"{_clock(min(found))} left" if found else "-:--:-- left"

    def status(self) -> str:
        """`12/1500   4.2/s   0:01:16 left   120 kills   3,204 operations`."""
        work = [plural(self._kills, "kill"), plural(self._operations, "operation")] if self._operations else []
        trials = self.position().strip() if self._total is not None else plural(self._done, "trial")
        return "   ".join([trials, f"{self.rate():.1f}/s", self.left(), *work])

    def layers(self) -> str:
        """`ext4 394 pass   tmpfs 393 pass, 1 violation`, and the canaries while there are any."""
        said = [f"{storage} {_counts(words)}" for storage, words in self._words.items()]
        return "   ".join(said + ([f"canaries {self._canaries:,} run"] if self._canaries else []))

    def line(self, campaign: str) -> str:
        """All of it on one line of a terminal: by layer if that fits, else the layers together."""
        head = f"{campaign:<8} {self.status()}   "
        if len(whole := head + self.layers()) <= WIDTH:
            return whole
        together = head + _counts(sum(self._words.values(), Counter()))
        return together if len(together) <= WIDTH else f"{together[: WIDTH - 1]}…"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _counts(words: Counter[Word]) -> str:
    return ", ".join(f"{words[word]:,} {word}" for word in Word if words[word] or word is Word.PASS)


class Progress(ABC):
    """A run tells it what has ended. Call `stop` in a `finally`: a live bar hides the cursor."""

    def __init__(self, storages: Sequence[str], now: Clock = time.monotonic) -> None:
        self._storages, self._now = storages, now
        self._lock = threading.Lock()

    def start(self, campaign: str, goal: Goal, done: Sequence[Result] = (), spent_s: float = 0.0) -> None:
        """It begins; a resumed one with what it has done, in so many seconds."""
        self._campaign = campaign
        self._tally = Tally(self._storages, goal, done, spent_s, self._now)

    @abstractmethod
    def finished(self, result: Result) -> None:
        """A trial has ended."""

    def stop(self) -> None:  # noqa: B027 - most hold nothing
        """The run has ended, or was interrupted. May be called twice, or before `start`."""

    def _at_once(self, result: Result) -> list[str]:
        """What is not kept for the end: a red trial. A canary is meant to be red."""
        if result.trial.kind is Kind.CANARY or result.verdict.word in GREEN:
            return []
        trial = result.trial
        return [f"{self._tally.position()}  {ident(trial)}  {trial.storage:<7}  {finding_line(result)}"]


class LiveBar(Progress):
    """A bar with rate and time left, and the counts of each layer below it. For a terminal."""

    def __init__(self, storages: Sequence[str], console: Console) -> None:
        super().__init__(storages)
        self._console = console
        self._live: Live | None = None

    def start(self, campaign: str, goal: Goal, done: Sequence[Result] = (), spent_s: float = 0.0) -> None:
        super().start(campaign, goal, done, spent_s)
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def _render(self) -> Group:
        with self._lock:
            share, status, layers = self._tally.share(), self._tally.status(), self._tally.layers()
        bar = Table.grid(Column(no_wrap=True), Column(), Column(no_wrap=True), padding=(0, 1))  # the bar gives way
        bar.add_row(f"{self._campaign:<8}", ProgressBar(1.0, share, width=30), status)
        return Group(bar, Text(" " * 9 + layers, no_wrap=True, overflow="ellipsis"))

    def finished(self, result: Result) -> None:
        with self._lock:
            self._tally.add(result)
            lines = self._at_once(result)
        for line in lines:  # without the lock: whoever draws the bar holds the screen, and waits for it
            self._console.print(Text(line), soft_wrap=True)

    def stop(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None


class PlainLines(Progress):
    """A line every few seconds, and one at once for each red trial. For a pipe and for CI."""

    def __init__(self, storages: Sequence[str], write: Say, now: Clock = time.monotonic) -> None:
        super().__init__(storages, now)
        self._write = write
        self._unsaid = False

    def start(self, campaign: str, goal: Goal, done: Sequence[Result] = (), spent_s: float = 0.0) -> None:
        super().start(campaign, goal, done, spent_s)
        self._said_at = self._now()

    def finished(self, result: Result) -> None:
        with self._lock:
            self._tally.add(result)
            self._unsaid = True
            for line in self._at_once(result):
                self._write(line)
            if self._now() - self._said_at >= LINE_EVERY_S or self._tally.is_full():
                self._say()

    def _say(self) -> None:
        self._said_at, self._unsaid = self._now(), False
        self._write(self._tally.line(self._campaign))

    def stop(self) -> None:
        with self._lock:
            if self._unsaid:
                self._say()


class TrialLines(Progress):
    """A line for each trial, and what it found. For `-v`."""

    def __init__(self, storages: Sequence[str], write: Say) -> None:
        super().__init__(storages)
        self._write = write

    def finished(self, result: Result) -> None:
        with self._lock:
            self._tally.add(result)
            self._write(trial_line(result, self._tally.position()))
            if result.verdict.word is Word.VIOLATION:
                self._write(finding_line(result))
            for note in result.verdict.notes:
                self._write(f"NOTE {note_line(result, note)}")


def progress_for(storages: Sequence[str], console: Console, verbose: bool, say: Say) -> Progress:
    """A line a trial if `verbose`; else a live bar if the console is a terminal, and plain lines if it is not."""
    if verbose:
        return TrialLines(storages, say)
    return LiveBar(storages, console) if console.is_terminal else PlainLines(storages, say)
