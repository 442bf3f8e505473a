"""What a person sees while a campaign runs: a live bar on a terminal, plain lines in a pipe, or a line a trial.

Three classes with the same three methods; `progress_for` picks one. Workers call `finished` from their own
threads. Nothing here decides anything. The only part of the reports that reads a clock and writes to a screen.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from lab.model import Kind, Result, Word
from lab.report.console import trial_line
from lab.report.data import GREEN

LINE_EVERY_S = 5.0  # often enough to see that it lives, rare enough for a CI log
RATE_OVER_S = 30.0  # the rate of the last half minute: a start-up or a slow layer must not distort the time left


class CampaignProgress(Protocol):
    """What a campaign tells of its progress. Call `stop` in a `finally`: a live bar hides the cursor."""

    def start(self, total: int) -> None:
        """`total` trials will run, canaries and probes among them."""

    def finished(self, result: Result) -> None:
        """One has ended."""

    def stop(self) -> None:
        """The campaign has ended, or was interrupted."""


def progress_for(campaign: str, storages: tuple[str, ...], console: Console) -> CampaignProgress:
    """A live bar if the console is a terminal, else plain lines."""
    if console.is_terminal:
        return LiveProgress(campaign, storages, console)
    return PlainProgress(campaign, storages, lambda line: print(line, file=console.file, flush=True))


class Tally:
    """Counts of finished trials and their rate. Not thread-safe: its owner holds a lock."""

    def __init__(self, storages: tuple[str, ...], total: int, now: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, 0
        self._now, self._began = now, now()
        self._recent: deque[float] = deque()
        self._words: dict[str, Counter[Word]] = {storage: Counter() for storage in storages}

    def add(self, result: Result) -> None:
        """Count one. Canaries and probes are progress, and no verdict."""
        self.done += 1
        self._recent.append(self._now())
        if result.trial.kind is Kind.POINT:
            self._words.setdefault(result.trial.storage, Counter())[result.verdict.word] += 1

    def position(self) -> str:
        """`  12/1500`."""
        return f"{self.done:>{len(str(self.total))}}/{self.total}"

    def rate(self) -> float:
        """Trials per second over the last half minute, or since the start if that is less."""
        now = self._now()
        while self._recent and self._recent[0] <= now - RATE_OVER_S:
            self._recent.popleft()
        over_s = min(RATE_OVER_S, now - self._began)
        return len(self._recent) / over_s if over_s > 0 else 0.0

    def left(self) -> str:
        """`0:01:16 left`; unknown until a rate is known."""
        rate = self.rate()
        if not rate:
            return "-:--:-- left"
        seconds = round((self.total - self.done) / rate)
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} left"

    def layers(self) -> str:
        """`ext4 394 pass   tmpfs 393 pass, 1 violation`."""
        return "   ".join(f"{storage} {_counts(words)}" for storage, words in self._words.items())


def _counts(words: Counter[Word]) -> str:
    shown = [f"{words[word]:,} {word}" for word in Word if words[word] or word is Word.PASS]
    return ", ".join(shown)


def _is_red(result: Result) -> bool:
    return result.verdict.word not in GREEN and result.trial.kind is not Kind.CANARY


class LiveProgress:
    """A bar with rate and time left, and the counts of each layer below it. For a terminal."""

    def __init__(self, campaign: str, storages: tuple[str, ...], console: Console) -> None:
        self._campaign, self._storages, self._console = campaign, storages, console
        self._lock = threading.Lock()
        self._live: Live | None = None

    def start(self, total: int) -> None:
        """Show an empty bar."""
        self._tally = Tally(self._storages, total)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(40), TextColumn("{task.fields[status]}"), console=self._console
        )
        self._task: TaskID = self._bar.add_task(self._campaign.ljust(8), total=total, status="")
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def _render(self) -> Group:
        with self._lock:
            tally = self._tally
            status = f"{tally.done:,}/{tally.total:,}   {tally.rate():.1f}/s   {tally.left()}"
            layers = Text(" " * 9 + tally.layers(), no_wrap=True, overflow="ellipsis")
        self._bar.update(self._task, completed=tally.done, status=status)
        return Group(self._bar.get_renderable(), layers)

    def finished(self, result: Result) -> None:
        """Count it; a red trial is also said at once, above the bar."""
        with self._lock:
            self._tally.add(result)
            line = trial_line(result, self._tally.position())
        if _is_red(result):
            self._console.print(Text(line), soft_wrap=True)

    def stop(self) -> None:
        """Take the bar away. May be called twice, or before `start`."""
        if self._live:
            self._live.stop()
            self._live = None


class PlainProgress:
    """A line every few seconds, and one at once for each red trial. For a pipe and for CI."""

    def __init__(
        self,
        campaign: str,
        storages: tuple[str, ...],
        write: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._campaign, self._storages, self._write, self._now = campaign, storages, write, now
        self._lock = threading.Lock()

    def start(self, total: int) -> None:
        """Begin to count."""
        self._tally = Tally(self._storages, total, self._now)
        self._said_at = self._now()

    def finished(self, result: Result) -> None:
        """Count it, and write a line if the last one is old enough or this is the last trial."""
        with self._lock:
            self._tally.add(result)
            if _is_red(result):
                self._write(trial_line(result, self._tally.position()))
            if self._now() - self._said_at >= LINE_EVERY_S or self._tally.done == self._tally.total:
                self._said_at = self._now()
                self._write(self._line())

    def _line(self) -> str:
        tally = self._tally
        head = f"{self._campaign.ljust(8)} {tally.done:,}/{tally.total:,}  {tally.rate():.1f}/s  {tally.left()}"
        return f"{head}  {tally.layers()}"

    def stop(self) -> None:
        """Nothing is held."""


class LineProgress:
    """One line for each trial. For `-v`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lock = threading.Lock()

    def start(self, total: int) -> None:
        """Begin to count."""
        self._tally = Tally((), total)

    def finished(self, result: Result) -> None:
        """Write its line; whole lines, whatever the threads do."""
        with self._lock:
            self._tally.add(result)
            self._write(trial_line(result, self._tally.position()))

    def stop(self) -> None:
        """Nothing is held."""
