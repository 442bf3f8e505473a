"""Where the commands write: lines for a person or a pipe, and a console that progress is drawn on.

All that is printed goes through `visible`: much of it was said by a subject. A reader that goes away (`| head`) counts
as a Ctrl-C: a campaign stops in order, and nothing that it prints on the way fails.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from lab.text import visible


class Screen(Console):
    """Where progress is drawn."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def on_broken_pipe(self) -> None:  # rich would exit with 1
        _reader_gone(self.file)


def say(text: str) -> None:
    """A line, or several, at once: what is behind a pipe must see it when a person would."""
    _print(text, sys.stdout)


def complain(text: str) -> None:
    """The same on standard error."""
    _print(text, sys.stderr)


def _print(text: str, stream: IO[str]) -> None:
    try:
        print(visible(text), file=stream, flush=True)
    except BrokenPipeError:
        _reader_gone(stream)
    except UnicodeEncodeError:  # a terminal that knows no UTF-8
        print(visible(text).encode("ascii", "replace").decode(), file=stream, flush=True)


def _reader_gone(stream: IO[str]) -> None:
    """Raise BrokenPipeError, unless somebody handles a Ctrl-C: to them it is one, and all else that is said is lost."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN):  # ignored: begun by `… &`
        raise BrokenPipeError
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
