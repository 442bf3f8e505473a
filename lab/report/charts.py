"""The charts of the reports as inline SVG: recovery times per layer, waits per operation. Pure: same data, same bytes.

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
_LEAST_MS = 0.1  # what a history says; a logarithmic scale has no zero
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
        return _inline(figure, "recovery")


def waits_chart(quantiles_ms: Mapping[str, Sequence[float]], limit_ms: float) -> str:
    """Operation -> its quantiles of waiting, rising: a line from the first to the last with a mark at each.

    On a logarithmic scale, since most answers take a ms and one may take seconds; `limit_ms` is what was promised.
    """
    if not quantiles_ms:
        return ""
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(8.6, 0.9 + 0.27 * len(quantiles_ms)), layout="constrained")
        axes = figure.subplots()
        names = list(quantiles_ms)[::-1]
        for row, name in enumerate(names):
            times = [max(ms, _LEAST_MS) for ms in quantiles_ms[name]]
            axes.plot(times, [row] * len(times), color=_SERIES[0], linewidth=2, marker="|", markersize=8)
            axes.plot(times[:1], [row], color=_SERIES[0], marker="o", markersize=5)
        axes.axvline(limit_ms, color=_SERIES[1], linewidth=1.5, dashes=_DASHES[1])
        axes.set_xscale("log")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("ms from the request to its answer: p50 (dot), p95, p99, max; dashed: the promise")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(visible=True, axis="x", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        return _inline(figure, "waits")


def _dress(axes: Axes, longest_ms: float) -> None:
    axes.set_xlim(0, longest_ms * 1.04)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 0.95, 1], ["0 %", "25 %", "50 %", "75 %", "95 %", "100 %"])
    axes.set_xlabel("ms from the start of the recovering container to the end of recovery")
    axes.set_ylabel("recoveries that had ended")
    axes.grid(visible=True, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", handlelength=3.5)


def _inline(figure: Figure, heading: str) -> str:
    """The `<svg>` element alone, scaled by the page and coloured by its variables; `heading` is the id of its title."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(
        r'^<svg [^>]*viewBox="([^"]+)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-labelledby="{heading}">', svg
    )
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)  # it would hold for the whole page
    svg = re.sub(r"font-family: [^;\"]+; ?", "", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg
