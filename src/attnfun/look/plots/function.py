"""Panels of a network as a function: its values beside the target's, and its error beside the bound.

One variable makes curves, two make maps, more make curves along the variables that matter most. An L_p bound is no
bound at a point: it is drawn over the error that gathers from one end of a line to the other, or only named.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..views import Slice, Window, aspect, error_scale, held_out_rows, lines
from .style import BOUND, ERROR, ERRORS, NETWORK, TARGET, TOTAL, VALUES, VARIABLES, bar, entitled, few_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, MAP, MOST_LINES = 2001, 161, 5
"""Points of a line and along each side of a map; variables that are shown beyond two."""
BROAD = 2.5
"""The line of the target is so many times as broad as that of the network on top of it."""


def shown(window: Window) -> list[Slice]:
    """What the panels show: one line, one plane, or several lines."""
    if window.domain.size <= 2:
        return [window.slice(tuple(range(window.domain.size)), LINE if window.domain.size == 1 else MAP)]
    return lines(window, MOST_LINES)


def draw_target(axes: Axes, window: Window) -> None:
    """The target of two variables, on the scale of the network's values."""
    plane = shown(window)[0]
    if plane.target is None or len(plane.axes) != 2:
        draw_values(axes, window)
        return
    _draw_map(axes, window, plane.target, VALUES, window.ends(plane.network, plane.target))
    entitled(axes, f"target{_name(window)}")


def draw_values(axes: Axes, window: Window) -> None:
    """The network, beside its target or the data that it was fitted to."""
    cloud = window.cloud
    if cloud is not None:
        _draw_cloud(axes, window, window.values(cloud)[0], VALUES)
        _draw_truth_of_cloud(axes, window)
    elif window.domain.size == 2:
        plane = shown(window)[0]
        _draw_map(axes, window, plane.network, VALUES, window.ends(plane.network, plane.target))
    else:
        _draw_lines(axes, window)
    _draw_data(axes, window)
    entitled(axes, f"attention network{_name(window)}")


def draw_error(axes: Axes, window: Window) -> None:
    """The error, beside its bound."""
    certificate = window.net.certificate
    if not window.has_target:
        axes.set_axis_off()
        axes.text(0.5, 0.5, f"{certificate.headline}\n(the target is not at hand)", ha="center", va="center", wrap=True)
        return
    if window.cloud is not None:
        values, target = window.values(window.cloud)
        _draw_cloud(axes, window, np.abs(values - target) if target is not None else values, ERRORS)
    elif window.domain.size == 2:
        error = shown(window)[0].error
        low, high, logarithmic = error_scale(error)
        _draw_map(axes, window, error, ERRORS, (low, high), logarithmic)
    else:
        _draw_errors(axes, window)
    entitled(axes, _error_title(window))


def draw_held_out(axes: Axes, window: Window) -> None:
    """Predictions of held-out rows against what was measured there."""
    rows = held_out_rows(window)
    if rows is None:
        draw_error(axes, window)
        return
    both = np.concatenate([rows.y, rows.predicted])
    ends = [float(both.min()), float(both.max())]
    axes.plot(rows.y, rows.predicted, "o", color=NETWORK, alpha=0.6, markeredgewidth=0)
    axes.plot(ends, ends, "-", color=TARGET)
    axes.set(xlabel="measured", ylabel="predicted", aspect="equal")
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)
    entitled(axes, f"{len(rows.y)} held-out rows{_name(window)}")


def draw_residuals(axes: Axes, window: Window) -> None:
    """Prediction minus truth at held-out rows, over the prediction."""
    rows = held_out_rows(window)
    if rows is None:
        draw_error(axes, window)
        return
    axes.plot(rows.predicted, rows.residuals, "o", color=ERROR, alpha=0.6, markeredgewidth=0)
    axes.axhline(0.0, color=TARGET)
    axes.set(xlabel="predicted", ylabel="predicted - measured")
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)
    entitled(axes, f"residuals, RMSE {np.sqrt(np.mean(rows.residuals**2)):.3g}")


def _error_title(window: Window) -> str:
    """What the panel shows; a map says its bound in words, because its scale ends at the largest error drawn."""
    certificate = window.net.certificate
    if not window.bounded_everywhere and window.domain.size > 1:
        return f"error; {certificate.headline}"
    word, _, status = window.word.partition(" ")
    size = f"{word} {certificate.bound:.3g} {status}".rstrip()
    return f"|error|, {size}" if window.domain.size == 2 else "error"


def _name(window: Window) -> str:
    """Which output, if there are several."""
    shape = window.net.output_shape
    place = ", ".join(str(k) for k in np.unravel_index(window.output, shape)) if prod(shape) > 1 else ""
    return f", output {place}" if place else ""


def _over(window: Window, line: Slice) -> Any:
    """What a line is drawn over: the variable, or its place in its range if there are several lines."""
    ticks = line.ticks[0]
    return ticks if window.domain.size == 1 else (ticks - ticks[0]) / (ticks[-1] - ticks[0])


def _draw_lines(axes: Axes, window: Window) -> None:
    from matplotlib import rcParams

    alone, width = window.domain.size == 1, BROAD * rcParams["lines.linewidth"]
    drawn = shown(window)
    for number, line in enumerate(drawn):
        if line.target is not None:
            label = "target" if number == len(drawn) - 1 else None
            axes.plot(_over(window, line), line.target, color=TARGET, linewidth=width, alpha=0.45, label=label)
    for line, colour in zip(drawn, (NETWORK,) if alone else VARIABLES, strict=False):
        axes.plot(_over(window, line), line.network, color=colour, label="network" if alone else line.names[0])
    if window.has_poles:
        axes.set_ylim(*window.ends(*(line.network for line in drawn), *(line.target for line in drawn)))
    _label(axes, window)


def _draw_errors(axes: Axes, window: Window) -> None:
    certificate, drawn = window.net.certificate, shown(window)
    alone, p = window.domain.size == 1, certificate.norm
    for line, colour in zip(drawn, (ERROR,) if alone else VARIABLES, strict=False):
        label = "|error|" if alone else line.names[0]
        axes.plot(_over(window, line), line.error, color=colour, label=label)
    if window.bounded_everywhere:
        axes.axhline(certificate.bound, color=BOUND, linestyle="--", label=window.word)
    elif alone:
        axes.plot(drawn[0].ticks[0], drawn[0].growing_error(p), color=TOTAL, label=f"L_{p:g} error so far")
        axes.axhline(certificate.bound, color=BOUND, linestyle="--", label=f"L_{p:g} {window.word}")
    axes.set_ylim(0, None)
    _label(axes, window)


def _label(axes: Axes, window: Window) -> None:
    if window.domain.size == 1:
        low, high = float(window.domain.lo.ravel()[0]), float(window.domain.hi.ravel()[0])
        axes.set(xlabel=window.domain.axes[0], xlim=(low, high))
    else:
        axes.set(xlabel=f"share of each variable's range,\nthrough {window.place}", xlim=(0, 1))
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)


def _draw_map(
    axes: Axes, window: Window, numbers: Any, colours: str, ends: tuple[float, float], logarithmic: bool = False
) -> None:
    """Numbers of a plane in colours, from one end of a scale to the other."""
    from matplotlib.colors import LogNorm, Normalize

    plane = shown(window)[0]
    left, right, bottom, top = (float(end) for ticks in plane.ticks for end in (ticks[0], ticks[-1]))
    image = axes.imshow(
        plane.as_map(numbers),
        origin="lower",
        extent=(left, right, bottom, top),
        aspect=aspect(window.domain),
        cmap=colours,
        norm=LogNorm(*ends, clip=True) if logarithmic else Normalize(*ends),
    )
    axes.set(xlabel=plane.names[0], ylabel=plane.names[1])
    wide = (right - left) / (top - bottom) if aspect(window.domain) == "equal" else 1.0
    few_ticks(axes.xaxis, wide)
    few_ticks(axes.yaxis, 1 / wide)
    bar(axes, image)


def _draw_data(axes: Axes, window: Window) -> None:
    """The rows that a network of one or two variables was fitted to: heights, or dots in the colours of the map."""
    rows = held_out_rows(window)
    if rows is None or window.domain.size > 2:
        return
    if window.domain.size == 1:
        axes.plot(rows.X[:, 0], rows.y, "o", color=TARGET, alpha=0.6, markeredgewidth=0, label="data", zorder=1)
        return
    low, high = axes.images[0].get_clim()
    colours = {"c": rows.y, "cmap": VALUES, "vmin": low, "vmax": high}
    axes.scatter(*rows.X.T, **colours, s=14, edgecolors="white", linewidths=0.5)


def _draw_cloud(axes: Axes, window: Window, numbers: Any, colours: str) -> None:
    """Points of a plane in colours; others by their number or their one variable, as heights."""
    cloud, names = window.cloud, window.domain.axes
    if cloud is not None and window.domain.size == 2:
        bar(axes, axes.scatter(*cloud.T, s=8, c=numbers, cmap=colours, vmin=0.0 if colours == ERRORS else None))
        axes.set(xlabel=names[0], ylabel=names[1], aspect=aspect(window.domain))
        return
    alone, error = cloud is not None and window.domain.size == 1, colours == ERRORS
    over = cloud[:, 0] if alone and cloud is not None else np.arange(len(numbers))
    axes.plot(over, numbers, "o", color=ERROR if error else NETWORK, label="|error|" if error else "network")
    if error and window.bounded_everywhere:
        axes.axhline(window.net.certificate.bound, color=BOUND, linestyle="--", label=window.word)
        axes.set_ylim(0, None)
    axes.set(xlabel=names[0] if alone else "number of the point")


def _draw_truth_of_cloud(axes: Axes, window: Window) -> None:
    """The target at points that are drawn as heights, behind those of the network."""
    if window.cloud is None or window.domain.size == 2:
        return
    target = window.values(window.cloud)[1]
    if target is not None:
        over = window.cloud[:, 0] if window.domain.size == 1 else np.arange(len(target))
        axes.plot(over, target, "o", color=TARGET, alpha=0.45, markersize=6, zorder=1, label="target")
