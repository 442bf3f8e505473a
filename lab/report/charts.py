"""The one chart of a report: how long recovery took on each layer, as an inline SVG. Pure: same data, same bytes.

Colours are written as CSS variables, so that the picture follows the page's light or dark scheme; layers differ by
line style and label as well, since colour alone tells some readers nothing.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Matplotlib wants real colours: each is a stand-in that no palette has, replaced by its CSS variable in the SVG.
_INK, _FAINT = "#010203", "#010204"
_SERIES = ("#010211", "#010212", "#010213", "#010214", "#010215", "#010216")
_VARIABLES = {_INK: "--muted", _FAINT: "--line"} | {colour: f"--series-{n + 1}" for n, colour in enumerate(_SERIES)}
_DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2), (2, 1.5), (8, 2, 2, 2), (4, 1), (1, 1))

_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "lab",  # element names are hashed with a random salt otherwise
    "svg.fonttype": "none",  # text stays text: small, searchable, in the page's own font
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _FAINT,
    "font.size": 10,
}


def recovery_chart(times_ms: Mapping[str, Sequence[float]]) -> str:
    """Layer -> recovery times; the share of recoveries that had ended after so many ms. Empty if there are none."""
    shown = {storage: sorted(values) for storage, values in times_ms.items() if values}
    if not shown:
        return ""
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        axes = figure.subplots()
        for n, (storage, values) in enumerate(shown.items()):
            dashes = _DASHES[n % len(_DASHES)]
            axes.ecdf(
                values, label=storage, color=_SERIES[n % len(_SERIES)], linewidth=2, dashes=dashes or (None, None)
            )
        _dress(axes, longest_ms=max(values[-1] for values in shown.values()))
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(written.getvalue())


def _dress(axes: Axes, longest_ms: float) -> None:
    axes.set_xlim(0, longest_ms * 1.04)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 0.95, 1], ["0 %", "25 %", "50 %", "75 %", "95 %", "100 %"])
    axes.set_xlabel("ms from the start of the recovering container to the end of recovery")
    axes.set_ylabel("recoveries that had ended")
    axes.grid(visible=True, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", handlelength=3.5)


def _inline(svg: str) -> str:
    """The `<svg>` element alone, scaled by the page and coloured by its variables."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(
        r'^<svg [^>]*viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1" role="img" aria-labelledby="recovery">', svg
    )
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)  # it would hold for the whole page
    svg = re.sub(r"font-family: [^;\"]+; ?", "", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg
