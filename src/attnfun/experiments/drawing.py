"""Pictures drawn: data in, a matplotlib figure out, colours that everybody can tell apart (Okabe and Ito)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .base import Curve, Panel, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, SKY, GREY, PINK = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#666666", "#CC79A7"
WIDTH, HEIGHT = 5.0, 3.6
"""Inches a panel."""
MOST_TICKS = 8
"""Where so few sizes are shown, each has its tick."""


def draw(picture: Picture) -> Figure:
    """All panels; equal labels share one legend below them."""
    from matplotlib.figure import Figure

    columns = min(picture.across, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    figure = Figure(figsize=(max(WIDTH * columns, 6.5), HEIGHT * rows + 0.4), layout="constrained")
    known: dict[str, Any] = {}
    for place, panel in enumerate(picture.panels, 1):
        known = {**_panel(figure.add_subplot(rows, columns, place), panel), **known}
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=2 * columns, frameon=False)
    return figure


def _panel(axes: Any, panel: Panel) -> dict[str, Any]:
    """Draw one panel; its lines by their labels."""
    lines = {}
    for curve in panel.curves:
        line = _curve(axes, panel.scale, curve)
        if curve.label:
            lines[curve.label] = line
    axes.set(title=panel.title, xlabel=panel.across, ylabel=panel.up, ylim=panel.limits)
    places = sorted({float(x) for curve in panel.curves for x in curve.x})
    if axes.get_xscale() == "log" and len(places) <= MOST_TICKS:
        axes.set_xticks(places, [f"{x:.3g}" for x in places])
        axes.minorticks_off()
    axes.grid(alpha=0.25)
    return lines


def _curve(axes: Any, scale: str, curve: Curve) -> Any:
    values = np.array([np.nan if value is None else value for value in curve.y])
    return getattr(axes, scale)(curve.x, values, curve.style, color=curve.colour, markersize=5, linewidth=1.1)[0]
