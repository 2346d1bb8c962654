"""Pictures: the network beside its target, and the error under its certified bound."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .targets.regions import Points

if TYPE_CHECKING:
    from .compiled import Compiled
    from .pieces.partition import Partition

Floats = npt.NDArray[np.float64]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
"""Colours that colour-blind readers can tell apart (Okabe and Ito)."""
LINE_POINTS, MAP_POINTS = 2001, 161


def plot(net: Compiled, path: str | os.PathLike[str] | None = None) -> Any:
    """A figure for one variable (curves) or two (maps); the first output of a vector target."""
    from matplotlib.figure import Figure

    if net.domain.size > 2:
        raise InputError("a plot needs one or two variables", got=f"{net.domain.size} in {net.domain!r}")
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    draw = _draw_line if net.domain.size == 1 else _draw_map
    if isinstance(net.domain, Points):
        draw = _draw_cloud
    draw(figure, net)
    figure.suptitle(f"{net.summary().target}: {net.network.tokens} tokens, {net.certificate.headline}", fontsize=11)
    if path is not None:
        figure.savefig(path, dpi=160)
    return figure


def _values(net: Compiled, rows: Floats) -> tuple[Floats, Floats | None]:
    """Network and, where its code is at hand, target, first output: (B, D) -> (B,). NaN outside the domain."""
    inside, values = net.domain.contains(rows), np.full(len(rows), np.nan)
    values[inside] = net(net.domain.unflatten(rows[inside])).reshape(int(inside.sum()), -1)[:, 0]
    target, truth = net.certificate.claim.target, np.full(len(rows), np.nan)
    if target is None or not target.evaluable or target.status.value == "conditional":
        return values, None
    truth[inside] = target.values(rows[inside])[:, 0]
    return values, truth


def _draw_cloud(figure: Any, net: Compiled) -> None:
    """The points, by their values and by their errors."""
    rows = net.domain.points if isinstance(net.domain, Points) else np.empty((0, net.domain.size))
    values, target = _values(net, rows)
    shown = [("attention network", values)]
    shown += [] if target is None else [("|error|", np.abs(values - target))]
    for axes, (title, numbers) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        if net.domain.size == 1:
            axes.scatter(rows[:, 0], numbers, s=6, color=BLUE)
        else:
            figure.colorbar(axes.scatter(*rows.T, s=8, c=numbers, cmap="viridis"), ax=axes)
            axes.set_ylabel(net.domain.axes[1])
        axes.set(xlabel=net.domain.axes[0], title=title)


def _draw_line(figure: Any, net: Compiled) -> None:
    low, high = float(net.domain.lo.ravel()[0]), float(net.domain.hi.ravel()[0])
    x = np.linspace(low, high, LINE_POINTS)
    values, target = _values(net, x[:, None])
    left, right = figure.subplots(1, 2)
    if target is not None:
        left.plot(x, target, color=GREY, linewidth=3, alpha=0.5, label="target")
    left.plot(x, values, color=BLUE, linewidth=1, label="attention network")
    left.set(xlabel=net.domain.axes[0], xlim=(low, high))
    left.legend(frameon=False)
    if target is not None:
        right.plot(x, np.abs(values - target), color=BLUE, linewidth=0.8, label="|error|")
    right.axhline(net.certificate.bound, color=ORANGE, linestyle="--", label=f"bound ({net.certificate.status.value})")
    right.set(xlabel=net.domain.axes[0], xlim=(low, high), ylim=(0, 1.4 * net.certificate.bound))
    right.legend(frameon=False, loc="upper right")


def _draw_map(figure: Any, net: Compiled) -> None:
    low, high = net.domain.lo.ravel(), net.domain.hi.ravel()
    axes = [np.linspace(low[k], high[k], MAP_POINTS) for k in range(2)]
    mesh = np.meshgrid(*axes, indexing="ij")
    rows = np.stack([axis.ravel() for axis in mesh], axis=1)  # (P, 2)
    values, target = _values(net, rows)
    extent = (low[0], high[0], low[1], high[1])
    left, right = figure.subplots(1, 2)
    shape = (MAP_POINTS, MAP_POINTS)
    image = left.imshow(values.reshape(shape).T, origin="lower", extent=extent, aspect="auto", cmap="viridis")
    left.set(xlabel=net.domain.axes[0], ylabel=net.domain.axes[1], title="attention network")
    figure.colorbar(image, ax=left)
    if target is None:
        right.set_axis_off()
        return
    error = np.abs(values - target).reshape(shape).T
    image = right.imshow(
        error,
        origin="lower",
        extent=extent,
        aspect="auto",
        cmap="cividis",
        vmin=0,
        vmax=net.certificate.bound,
    )
    right.set(xlabel=net.domain.axes[0], title="|error|, colour scale up to the bound")
    figure.colorbar(image, ax=right)


def plot_partition(cells: Partition, path: str | os.PathLike[str] | None = None) -> Any:
    """Scores and their maximum over a line, or the cells of a rectangle, each in its own colour."""
    from matplotlib.figure import Figure

    if cells.domain.size > 2:
        raise InputError("a plot needs one or two variables", got=f"{cells.domain.size} in {cells.domain!r}")
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes, low, high = figure.subplots(), cells.domain.lo.ravel(), cells.domain.hi.ravel()
    if cells.domain.size == 1:
        x = np.linspace(low[0], high[0], LINE_POINTS)
        scores = cells.scores(x[:, None] if cells.domain.shape else x)  # (P, N)
        axes.plot(x, scores, color=GREY, linewidth=0.8, alpha=0.6)
        axes.plot(x, scores.max(axis=1), color=BLUE, linewidth=2, label="largest score")
        for wall in {float(corner) for corners in cells.corners for corner in corners.ravel()}:
            axes.axvline(wall, color=ORANGE, linewidth=0.8, linestyle="--")
        axes.set(xlabel=cells.domain.axes[0], xlim=(low[0], high[0]))
        axes.legend(frameon=False)
    else:
        for cell, corners in enumerate(cells.corners):
            if len(corners) > 2:
                middle = corners.mean(axis=0)
                angle = np.arctan2(*(corners - middle).T[::-1])
                axes.fill(*corners[np.argsort(angle)].T, facecolor=f"C{cell % 10}", alpha=0.45, edgecolor=GREY)
        axes.set(
            xlabel=cells.domain.axes[0], ylabel=cells.domain.axes[1], xlim=(low[0], high[0]), ylim=(low[1], high[1])
        )
    axes.set_title(f"{len(cells)} cells", fontsize=11)
    if path is not None:
        figure.savefig(path, dpi=160)
    return figure
