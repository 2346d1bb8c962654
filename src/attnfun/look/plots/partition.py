"""Cells of a max-affine partition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from .style import BLUE, CYCLE, GREY, ORANGE, STYLE, around, entitled, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...pieces.partition import Partition

POINTS = 2001


def plot_partition(cells: Partition, path: str | os.PathLike[str] | None = None) -> Figure:
    """Scores and their maximum over a line, or the cells of a rectangle, neighbours mostly in different colours."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if cells.domain.size > 2:
        raise InputError("a plot of cells needs one or two variables", got=f"{cells.domain.size} in {cells.domain!r}")
    with rc_context(STYLE):
        figure = Figure(figsize=(5, 4), layout="constrained")
        axes = figure.subplots()
        (_draw_scores if cells.domain.size == 1 else _draw_cells)(axes, cells)
        entitled(axes, f"{len(cells)} cells")
    return save(figure, path)


def walls(cells: Partition) -> list[float]:
    """Where the cells of a line meet, without its ends."""
    ends = {float(corner) for corners in cells.corners for corner in corners.ravel()}
    low, high = float(cells.domain.lo.ravel()[0]), float(cells.domain.hi.ravel()[0])
    return sorted(wall for wall in ends if low < wall < high)


def _draw_scores(axes: Axes, cells: Partition) -> None:
    low, high = float(cells.domain.lo.ravel()[0]), float(cells.domain.hi.ravel()[0])
    x = np.linspace(low, high, POINTS)
    scores = cells.scores(x[:, None] if cells.domain.shape else x)  # (P, N)
    axes.plot(x, scores, color=GREY, linewidth=0.8, alpha=0.6)
    axes.plot(x, scores.max(axis=1), color=BLUE, linewidth=2, label="largest score")
    for wall in walls(cells):
        axes.axvline(wall, color=ORANGE, linewidth=0.8, linestyle="--")
    axes.set(xlabel=cells.domain.axes[0], ylabel="score", xlim=(low, high))


def _draw_cells(axes: Axes, cells: Partition) -> None:
    (left, bottom), (right, top) = cells.domain.lo.ravel(), cells.domain.hi.ravel()
    for cell, corners in enumerate(cells.corners):
        if len(corners) > 2:
            axes.fill(*around(corners).T, facecolor=CYCLE[cell % len(CYCLE)], alpha=0.45, edgecolor=GREY)
    axes.set(xlabel=cells.domain.axes[0], ylabel=cells.domain.axes[1], xlim=(left, right), ylim=(bottom, top))
