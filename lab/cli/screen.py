"""Where the commands write: lines for a person or a pipe, and a console that progress is drawn on."""

from __future__ import annotations

from rich.console import Console


class Screen(Console):
    """Where progress is drawn. When its reader goes away it says so, where rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def say(line: str) -> None:
    """One line, at once: what is behind a pipe must see it when a person would."""
    print(line, flush=True)
