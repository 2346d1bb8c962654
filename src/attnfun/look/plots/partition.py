"""Cells of a max-affine partition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from .style import BLUE, CYCLE, GREY, ORANGE, STYLE, around, entitled, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...given.partition import Partition
    from ...pieces.power_diagram import PowerDiagram

Floats = npt.NDArray[np.float64]

POINTS = 2001
PIXELS = 241


def plot_partition(cells: Partition, path: str | os.PathLike[str] | None = None) -> Figure:
    """Scores and their maximum over a line, or the cells of a rectangle, neighbours mostly in different colours.

    The cells of a head are drawn as soft as its weights make them, beside its first output.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if cells.domain.size > 2:
        raise InputError("a plot of cells needs one or two variables", got=f"{cells.domain.size} in {cells.domain!r}")
    draw = _draw_scores if cells.domain.size == 1 else _draw_cells if cells.values is None else _draw_weights
    with rc_context(STYLE):
        figure = Figure(figsize=(5 if cells.values is None else 9, 4), layout="constrained")
        axes, *more = figure.subplots(1, 1 if cells.values is None else 2, squeeze=False)[0]
        draw(axes, cells)
        entitled(axes, f"{len(cells)} cells" if cells.values is None else f"weights of {len(cells)} tokens")
        for each in more:
            _draw_output(each, cells)
            entitled(each, "what the head returns")
    return save(figure, path)


def walls(cells: PowerDiagram) -> list[float]:
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


def _grid(cells: Partition) -> tuple[Floats, tuple[float, float, float, float]]:
    """Points of a picture (P, P, 2), row by row from below, and its ends."""
    (left, bottom), (right, top) = cells.domain.lo.ravel().tolist(), cells.domain.hi.ravel().tolist()
    across, up = np.meshgrid(np.linspace(left, right, PIXELS), np.linspace(bottom, top, PIXELS))
    return np.stack([across, up], axis=-1), (left, right, bottom, top)


def _draw_weights(axes: Axes, cells: Partition) -> None:
    """Colours of the tokens, mixed by their weights, and the walls of the cells."""
    from matplotlib.colors import to_rgb

    points, ends = _grid(cells)
    places = np.argsort(np.argsort(cells.volumes == 0, kind="stable"))  # tokens that lead somewhere first
    colours = np.array([to_rgb(CYCLE[place % len(CYCLE)]) for place in places])  # (N, 3)
    mixed = cells.indicator(points, 1.0) @ colours  # (P, P, 3)
    axes.imshow(np.clip(0.7 * mixed + 0.3, 0, 1), origin="lower", extent=ends, aspect="auto", interpolation="bilinear")
    _draw_walls(axes, cells)


def _draw_output(axes: Axes, cells: Partition) -> None:
    """The first output of a head, and the values and walls of its cells."""
    assert cells.values is not None  # noqa: S101 - drawn for heads only
    values = cells.values[:, 0]  # (N,)
    if cells.domain.size == 1:
        low, high = float(cells.domain.lo.ravel()[0]), float(cells.domain.hi.ravel()[0])
        x = np.linspace(low, high, POINTS)
        points = x[:, None] if cells.domain.shape else x
        axes.plot(x, values[cells.cell_of(points)], color=GREY, linewidth=0.8, label="values of the cells")
        axes.plot(x, cells.indicator(points, 1.0) @ values, color=BLUE, linewidth=2, label="the head")
        axes.set(xlabel=cells.domain.axes[0], xlim=(low, high))
        axes.legend()
        return
    points, ends = _grid(cells)
    shown = axes.imshow(cells.indicator(points, 1.0) @ values, origin="lower", extent=ends, aspect="auto")
    axes.figure.colorbar(shown, ax=axes)
    _draw_walls(axes, cells)


def _draw_walls(axes: Axes, cells: Partition) -> None:
    for wall in cells.boundaries():
        axes.plot(*wall.corners.T, color=GREY, linewidth=0.8)
    (left, bottom), (right, top) = cells.domain.lo.ravel(), cells.domain.hi.ravel()
    axes.set(xlabel=cells.domain.axes[0], ylabel=cells.domain.axes[1], xlim=(left, right), ylim=(bottom, top))


def _draw_cells(axes: Axes, cells: Partition) -> None:
    (left, bottom), (right, top) = cells.domain.lo.ravel(), cells.domain.hi.ravel()
    for cell, corners in enumerate(cells.corners):
        if len(corners) > 2:
            axes.fill(*around(corners).T, facecolor=CYCLE[cell % len(CYCLE)], alpha=0.45, edgecolor=GREY)
    axes.set(xlabel=cells.domain.axes[0], ylabel=cells.domain.axes[1], xlim=(left, right), ylim=(bottom, top))
