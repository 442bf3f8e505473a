"""What a person sees while a fuzz run goes on: a live bar of its time, plain lines in a pipe, or a line a trial.

The shape of lab.report.progress, for a run that ends by the clock and whose trials are not counted beforehand.
Nothing here decides anything.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from lab.fuzz.model import FuzzResult
from lab.model import Kind, Word
from lab.report.data import BROKEN, GREEN
from lab.report.fuzz import note_lines, trial_line, violation_line
from lab.report.progress import LINE_EVERY_S
from lab.report.table import WIDTH
from lab.report.text import plural

Clock = Callable[[], float]


class FuzzProgress(Protocol):
    """What a fuzz run tells of its progress. Call `stop` in a `finally`: a live bar hides the cursor."""

    def start(self, minutes: float | None, trials: int | None) -> None:
        """It begins, and ends after so many minutes, or trials of its own; whichever is not None and comes first."""

    def finished(self, result: FuzzResult) -> None:
        """One has ended."""

    def stop(self) -> None:
        """The run has ended, or was interrupted. May be called twice, or before `start`."""


def fuzz_progress_for(campaign: str, storages: tuple[str, ...], console: Console) -> FuzzProgress:
    """A live bar if the console is a terminal, else plain lines."""
    if console.is_terminal:
        return LiveFuzz(campaign, storages, console)
    return PlainFuzz(campaign, storages, lambda line: print(line, file=console.file, flush=True))


class Tally:
    """What was done so far. Not thread-safe: its owner holds a lock."""

    def __init__(
        self, storages: tuple[str, ...], minutes: float | None, trials: int | None, now: Clock = time.monotonic
    ) -> None:
        self._now, self._began = now, now()
        self._limit_s = None if minutes is None else 60 * minutes
        self._trials = trials
        self._words: dict[str, Counter[Word]] = {storage: Counter() for storage in storages}
        self._done = self._canaries = self._operations = self._kills = 0

    def add(self, result: FuzzResult) -> None:
        """Count one. A canary is work, and no verdict."""
        self._operations += result.operations
        self._kills += len(result.kills)
        if result.trial.kind is Kind.CANARY:
            self._canaries += 1
            return
        self._done += 1
        self._words.setdefault(result.trial.storage, Counter())[result.verdict.word] += 1

    def share(self) -> float:
        """How much of the run is behind it, by what it is bounded by."""
        shares = [(self._now() - self._began) / self._limit_s] if self._limit_s else []
        shares += [self._done / self._trials] if self._trials else []
        return min(1.0, max(shares, default=0.0))

    def status(self) -> str:
        """`0:03:12 of 0:10:00   41 trials   3,204 operations   120 kills`."""
        passed = self._now() - self._began
        of_time = f" of {_clock(self._limit_s)}" if self._limit_s else ""
        trials = plural(self._done, "trial")
        if self._trials:
            trials = f"{self._done:,}/{plural(self._trials, 'trial')}"
        work = f"{trials}   {plural(self._operations, 'operation')}   {plural(self._kills, 'kill')}"
        return f"{_clock(passed)}{of_time}   {work}"

    def layers(self) -> str:
        """`ext4 14 pass   tmpfs 13 pass, 1 violation`, and the canaries while there are any."""
        return self._with_canaries([f"{storage} {_counts(words)}" for storage, words in self._words.items()])

    def line(self, campaign: str) -> str:
        """All of it on one line of a terminal: by layer if that fits, else the layers together."""
        head = f"{campaign.ljust(8)} {self.status()}   "
        whole = head + self.layers()
        if len(whole) <= WIDTH:
            return whole
        together = head + self._with_canaries([_counts(sum(self._words.values(), Counter()))])
        return together if len(together) <= WIDTH else f"{together[: WIDTH - 1]}…"

    def _with_canaries(self, said: list[str]) -> str:
        return "   ".join([*said, f"canaries {self._canaries:,} run"] if self._canaries else said)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _counts(words: Counter[Word]) -> str:
    return ", ".join(f"{words[word]:,} {word}" for word in Word if words[word] or word is Word.PASS)


def _at_once(result: FuzzResult) -> list[str]:
    """What is not kept for the end: a broken promise, a red trial. Losses that nobody promised to prevent are many."""
    word = result.verdict.word
    if result.trial.kind is Kind.CANARY or word in GREEN:
        return []
    return [violation_line(result) if word in BROKEN else trial_line(result)]


class LiveFuzz:
    """A bar of the time that has passed, and the counts of each layer below it. For a terminal."""

    def __init__(self, campaign: str, storages: tuple[str, ...], console: Console) -> None:
        self._campaign, self._storages, self._console = campaign, storages, console
        self._lock = threading.Lock()
        self._live: Live | None = None

    def start(self, minutes: float | None, trials: int | None) -> None:
        self._tally = Tally(self._storages, minutes, trials)
        columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[status]}"))
        self._bar = Progress(*columns, console=self._console)
        self._task: TaskID = self._bar.add_task(self._campaign.ljust(8), total=1.0, status="")
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def _render(self) -> Group:
        with self._lock:
            status, layers, share = self._tally.status(), self._tally.layers(), self._tally.share()
        self._bar.update(self._task, completed=share, status=status)
        return Group(self._bar.get_renderable(), Text(" " * 9 + layers, no_wrap=True, overflow="ellipsis"))

    def finished(self, result: FuzzResult) -> None:
        """Count it; what broke is also said at once, above the bar."""
        with self._lock:
            self._tally.add(result)
        for line in _at_once(result):
            self._console.print(Text(line), soft_wrap=True)

    def stop(self) -> None:
        """Take the bar away."""
        if self._live:
            self._live.stop()
            self._live = None


class PlainFuzz:
    """A line every few seconds, and one at once for whatever broke. For a pipe and for CI."""

    def __init__(
        self, campaign: str, storages: tuple[str, ...], write: Callable[[str], None], now: Clock = time.monotonic
    ) -> None:
        self._campaign, self._storages, self._write, self._now = campaign, storages, write, now
        self._lock = threading.Lock()
        self._unsaid = False

    def start(self, minutes: float | None, trials: int | None) -> None:
        """Begin to count."""
        self._tally = Tally(self._storages, minutes, trials, self._now)
        self._said_at = self._now()

    def finished(self, result: FuzzResult) -> None:
        """Count it, and write a line if the last one is old enough."""
        with self._lock:
            self._tally.add(result)
            self._unsaid = True
            for line in _at_once(result):
                self._write(line)
            if self._now() - self._said_at >= LINE_EVERY_S:
                self._say()

    def _say(self) -> None:
        self._said_at, self._unsaid = self._now(), False
        self._write(self._tally.line(self._campaign))

    def stop(self) -> None:
        """Say where it has got to, if that was not said yet."""
        with self._lock:
            if self._unsaid:
                self._say()


class LineFuzz:
    """One line for each trial, with what it found. For `-v`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lock = threading.Lock()

    def start(self, minutes: float | None, trials: int | None) -> None:
        """Nothing is counted."""

    def finished(self, result: FuzzResult) -> None:
        """Write its lines; whole, whatever the threads do."""
        broken = [violation_line(result)] if result.verdict.word in BROKEN else []
        with self._lock:
            for line in (trial_line(result), *broken, *note_lines(result)):
                self._write(line)

    def stop(self) -> None:
        """Nothing is held."""
