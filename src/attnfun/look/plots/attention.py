"""Panels of what a head does: its cells, its weights, and which token looks at which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...errors import counted
from ..views import Window, aspect, cells, heads, leading_axes, peaks, weights
from .function import MAP
from .partition import walls
from .style import AMOUNTS, GREY, QUERY, VALUES, bar, few_ticks, tiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, MOST_TOKENS, MOST_KEYS, MOST_WALLS = 401, 64, 48, 64
"""Points of a line; curves of a panel; columns of a map of keys; cells whose walls can be distinguished."""
VISIBLE = 0.85
"""Curves take this part of the colours: the brightest cannot be seen on white, the darkest not on a dark page."""


def draw_cells(axes: Axes, window: Window) -> None:
    """The cells on which tokens lead, in a plane, in the colours of the values that they hold."""
    place = heads(window.net.network)[0]
    found = cells(window, place, (0, 1))
    if found is None:
        axes.set_axis_off()
        return
    corners = found.partition.corners
    live = [cell for cell, around in enumerate(corners) if len(around) > 2]
    limits = {}
    if window.has_poles:  # the colours of the panels beside this one
        plane = window.slice((0, 1), MAP)
        limits = dict(zip(("vmin", "vmax"), window.ends(plane.network, plane.target), strict=True))
    tiles(axes, [corners[cell] for cell in live], found.values[live], VALUES, **limits)
    _frame(axes, window, f"{len(live)} cells, coloured by value")


def draw_weights(axes: Axes, window: Window) -> None:
    """Along a line, the weights of all tokens; in a plane, those of one query."""
    if window.domain.size == 2 and cells(window, heads(window.net.network)[0], (0, 1)) is not None:
        _draw_query(axes, window)
    else:
        _draw_along(axes, window)


def _draw_along(axes: Axes, window: Window) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    place = heads(window.net.network)[0]
    axis = 0 if window.domain.size == 1 else leading_axes(window)[0]
    low, high = float(window.domain.lo.ravel()[axis]), float(window.domain.hi.ravel()[axis])
    x, rows = np.linspace(low, high, LINE), np.tile(window.point, (LINE, 1))
    rows[:, axis] = x
    highest = peaks(window, rows, place)  # (T,)
    strongest = np.sort(np.argsort(-highest, kind="stable")[:MOST_TOKENS])
    shown = weights(window, rows, place, strongest)  # (P, T)
    order = np.argsort(shown.argmax(axis=0), kind="stable")
    first = 0.0 if np.mean(to_rgb(axes.get_facecolor())) > 0.5 else 1.0 - VISIBLE
    for number, token in enumerate(order):
        axes.plot(x, shown[:, token], color=colormaps[VALUES](first + VISIBLE * number / max(1, len(order) - 1)))
    found = cells(window, place, (axis,))
    if found is not None and len(found.keys) <= MOST_WALLS:
        for wall in walls(found.partition):
            axes.axvline(wall, color=GREY, linewidth=0.4, linestyle=":")
    several = f", head 1 of {place.attention.heads}" if place.attention.heads > 1 else ""
    memory = len(place.attention.memory)
    data = len(highest) - memory  # tokens of the input, the query among them
    keys = f"{memory} memory and {data} data tokens" if data > 1 else counted(memory, "token")
    part = f"{len(strongest)} of " if len(strongest) < len(highest) else ""
    axes.set(
        xlabel=window.domain.axes[axis],
        ylabel="weight",
        xlim=(low, high),
        ylim=(0, None),
        title=f"attention to {'itself and ' if data == 1 else ''}{part}{keys}{several}",
    )
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)


def _draw_query(axes: Axes, window: Window) -> None:
    place = heads(window.net.network)[0]
    found = cells(window, place, (0, 1))
    if found is None:
        return
    numbers = weights(window, window.point[None], place, found.keys)[0]  # (N,)
    corners = found.partition.corners
    live = [cell for cell, around in enumerate(corners) if len(around) > 2]
    tiles(axes, [corners[cell] for cell in live], numbers[live], AMOUNTS, vmin=0.0)
    axes.plot(*window.point, "x", color=QUERY, markersize=8)
    _frame(axes, window, "weights of the query at the cross")


def draw_tokens(axes: Axes, window: Window) -> None:
    """Which keys each token of a sequence looks at, at one input, in the first head that has the most keys."""
    place = heads(window.net.network)[0]
    network, layer = window.net.network, place.attention
    length = network.rows
    for before in network.layers[: place.layer]:
        length = before.length_out(length)
    rows = [weights(window, window.point[None], place._replace(token=token))[0] for token in range(length)]
    table = np.array(rows)  # (n', T)
    keys = np.sort(np.argsort(-table.max(axis=0), kind="stable")[:MOST_KEYS])
    image = axes.imshow(table[:, keys], aspect="auto", cmap=AMOUNTS, vmin=0.0, interpolation="nearest")
    data = length if layer.attends_data else 0
    if 0 < (mine := int((keys < data).sum())) < len(keys):
        axes.axvline(mine - 0.5, color=QUERY)
    kinds = "data tokens, then memory tokens" if data else "memory tokens"
    axes.set(xlabel=f"keys: {kinds}", ylabel="query token", title="attention weights at one input")
    axes.set_yticks(range(length))
    bar(axes, image)


def _frame(axes: Axes, window: Window, title: str) -> None:
    (left, bottom), (right, top) = window.domain.lo.ravel(), window.domain.hi.ravel()
    names = window.domain.axes
    axes.set(xlabel=names[0], ylabel=names[1], xlim=(left, right), ylim=(bottom, top), title=title)
    axes.set_aspect(aspect(window.domain))
    wide = (right - left) / (top - bottom) if aspect(window.domain) == "equal" else 1.0
    few_ticks(axes.xaxis, wide)
    few_ticks(axes.yaxis, 1 / wide)
