"""A trial's timeline in characters: a row a lane, at most 100 columns. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lab.report.text import LABEL, WIDTH, labelled
from lab.report.timeline import Timeline

ROOM = WIDTH - LABEL - 2
MARKS = {"process": "=", "recovery": "~", "operation": "-", "look": "o", "request": ".", "effect": "*"}
LEGEND = "= runs   ~ recovers   - operation   o look   . request   * effect   ! what broke   | fault"


def lanes(timeline: Timeline) -> Iterator[str]:
    """The rows, the faults numbered below them, and what the characters mean."""
    if not timeline.spans or timeline.length_ms <= 0:
        return
    struck = [_column(timeline, strike.at_ms) for strike in timeline.strikes]
    for lane in timeline.lanes:
        cells = [" "] * (ROOM + 1)
        for span in sorted(timeline.of(lane), key=lambda s: (s.kind == "recovery", s.state == "broke")):
            first, last = _column(timeline, span.began_ms), _column(timeline, span.ended_ms)
            cells[first : last + 1] = ["!" if span.state == "broke" else MARKS[span.kind]] * (last - first + 1)
        for column in struck:
            if cells[column] != "!":
                cells[column] = "|"
        yield f"{lane:<{LABEL}} {''.join(cells)}".rstrip()
    end = f"{timeline.length_ms:,.0f} ms"
    yield f"{'time':<{LABEL}} 0{end:>{ROOM}}"
    yield from labelled("", LEGEND, width=LABEL + 1)
    for strike in timeline.strikes:
        yield from labelled("|", f"{strike.at_ms:,.0f} ms: {strike.label}", width=LABEL + 1)
    for span in timeline.spans:
        if span.state == "broke":
            yield from labelled("!", f"{span.began_ms:,.0f} ms, {span.lane}: {span.label}", width=LABEL + 1)
    if timeline.caption:
        yield from labelled("", timeline.caption, width=LABEL + 1)


def _column(timeline: Timeline, at_ms: float) -> int:
    return max(0, min(ROOM, int(at_ms / timeline.length_ms * ROOM)))
