"""Pictures drawn: data in, a matplotlib figure out, in the colours and the style of all pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..look.plots.style import CYCLE, GREY, STYLE
from .base import Curve, HeatMap, Panel, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, _, SKY = CYCLE
__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "PINK", "SKY", "draw"]
WIDTH, HEIGHT = 5.0, 3.6
"""Inches a panel."""
MOST_TICKS = 7
"""Where so few sizes are shown, each has its tick."""


def draw(picture: Picture) -> Figure:
    """All panels; equal labels share one legend below them."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(picture.across, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    known: dict[str, Any] = {}
    with rc_context(STYLE):
        figure = Figure(figsize=(max(WIDTH * columns, 6.5), HEIGHT * rows + 0.4), layout="constrained")
        for place, panel in enumerate(picture.panels, 1):
            axes = figure.add_subplot(rows, columns, place)
            known = {**(_heat(axes, panel) if isinstance(panel, HeatMap) else _panel(axes, panel)), **known}
        if known:
            figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=2 * columns)
    return figure


def _panel(axes: Any, panel: Panel) -> dict[str, Any]:
    """Draw one panel; its lines by their labels."""
    from matplotlib.ticker import NullLocator

    lines = {}
    for curve in panel.curves:
        line = _curve(axes, panel.scale, curve)
        if curve.label:
            lines[curve.label] = line
    axes.set(title=panel.title, xlabel=panel.across, ylabel=panel.up, ylim=panel.limits)
    places = sorted({float(x) for curve in panel.curves for x in curve.x})
    if axes.get_xscale() == "log" and len(places) <= MOST_TICKS:
        axes.set_xticks(places, [f"{x:.4g}" for x in places])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.25)
    return lines


def _heat(axes: Any, panel: HeatMap) -> dict[str, Any]:
    """Draw one matrix, its first row below; no lines."""
    axes.imshow(panel.values, origin="lower", cmap="magma", vmin=0.0, aspect="auto", interpolation="nearest")
    axes.set(title=panel.title, xlabel=panel.across, ylabel=panel.up)
    axes.grid(visible=False)
    return {}


def _curve(axes: Any, scale: str, curve: Curve) -> Any:
    values, spread = (
        np.array([np.nan if value is None else value for value in part])
        for part in (curve.y, () if curve.spread is None else curve.spread)
    )
    if len(spread):
        axes.fill_between(curve.x, values - spread, values + spread, color=curve.colour, alpha=0.2, linewidth=0)
    return getattr(axes, scale)(curve.x, values, curve.style, color=curve.colour, markersize=5, linewidth=1.1)[0]
