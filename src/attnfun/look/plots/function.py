"""Panels of a network as a function: its values beside the target's, and its error under the bound.

One variable makes curves, two make maps, more make curves along the variables that matter most. An L_p bound is no
bound at a point: it is drawn over the error that gathers from one end of a line to the other, or only named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..views import Slice, Window, lines
from .style import AMOUNTS, BLUE, CYCLE, GREY, ORANGE, VALUES, bar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, MAP, MOST_LINES = 2001, 161, 5
"""Points of a line and along each side of a map; variables that are shown beyond two."""


def shown(window: Window) -> list[Slice]:
    """What the panels show: one line, one plane, or several lines."""
    if window.domain.size <= 2:
        return [window.slice(tuple(range(window.domain.size)), LINE if window.domain.size == 1 else MAP)]
    return lines(window, MOST_LINES)


def draw_values(axes: Axes, window: Window) -> None:
    """The network and its target."""
    cloud = window.cloud
    if cloud is not None:
        _draw_cloud(axes, window, window.values(cloud)[0], VALUES)
    elif window.domain.size == 2:
        _draw_map(axes, shown(window)[0], shown(window)[0].network, VALUES)
    else:
        _draw_lines(axes, window)
    axes.set_title(f"attention network{_name(window)}" + (", target in grey" if _curves(window) else ""))


def draw_error(axes: Axes, window: Window) -> None:
    """The error, under its bound."""
    certificate = window.net.certificate
    if not window.has_target:
        axes.set_axis_off()
        axes.text(0.5, 0.5, f"{certificate.headline}\n(the target is not at hand)", ha="center", va="center", wrap=True)
        return
    limit = certificate.bound if window.bounded_everywhere else None
    if window.cloud is not None:
        values, target = window.values(window.cloud)
        _draw_cloud(axes, window, np.abs(values - target) if target is not None else values, AMOUNTS, limit)
    elif window.domain.size == 2:
        _draw_map(axes, shown(window)[0], shown(window)[0].error, AMOUNTS, limit)
    else:
        _draw_errors(axes, window)
    if not _curves(window):
        scale = f"scale to the {window.word}" if limit is not None else certificate.headline
        axes.set_title(f"|error|, {scale}")


def _curves(window: Window) -> bool:
    return window.has_target and window.cloud is None and window.domain.size != 2


def _name(window: Window) -> str:
    """Which output, if there are several."""
    shape = window.net.output_shape
    place = ", ".join(str(k) for k in np.unravel_index(window.output, shape)) if shape else ""
    return f", output {place}" if place else ""


def _over(window: Window, line: Slice) -> Any:
    """What a line is drawn over: the variable, or its place in its range if there are several lines."""
    ticks = line.ticks[0]
    return ticks if window.domain.size == 1 else (ticks - ticks[0]) / (ticks[-1] - ticks[0])


def _draw_lines(axes: Axes, window: Window) -> None:
    for line, colour in zip(shown(window), CYCLE, strict=False):
        if line.target is not None:
            axes.plot(_over(window, line), line.target, color=GREY, linewidth=3, alpha=0.45)
        axes.plot(_over(window, line), line.network, color=colour, linewidth=1, label=line.names[0])
    _label(axes, window)


def _draw_errors(axes: Axes, window: Window) -> None:
    certificate, drawn = window.net.certificate, shown(window)
    alone, p = window.domain.size == 1, certificate.norm
    for line, colour in zip(drawn, CYCLE, strict=False):
        label = "|error|" if alone else line.names[0]
        axes.plot(_over(window, line), line.error, color=colour, linewidth=0.8, label=label)
    if window.bounded_everywhere:
        axes.axhline(certificate.bound, color=ORANGE, linestyle="--", label=window.word)
        axes.set_ylim(0, 1.4 * certificate.bound)
    elif alone:
        growing = drawn[0].growing_error(p)
        axes.plot(drawn[0].ticks[0], growing, color=GREY, label=f"L_{p:g} error so far")
        axes.axhline(certificate.bound, color=ORANGE, linestyle="--", label=f"L_{p:g} {window.word}")
    axes.set_title("|error|" if window.bounded_everywhere else f"|error|; {certificate.headline}")
    _label(axes, window)
    axes.legend()


def _label(axes: Axes, window: Window) -> None:
    if window.domain.size == 1:
        low, high = float(window.domain.lo.ravel()[0]), float(window.domain.hi.ravel()[0])
        axes.set(xlabel=window.domain.axes[0], xlim=(low, high))
    else:
        axes.set(xlabel="share of each variable's range", xlim=(0, 1))
        axes.legend()


def _draw_map(axes: Axes, plane: Slice, numbers: Any, colours: str, limit: float | None = None) -> None:
    ends = [float(end) for ticks in plane.ticks for end in (ticks[0], ticks[-1])]
    image = axes.imshow(
        plane.as_map(numbers),
        origin="lower",
        extent=(ends[0], ends[1], ends[2], ends[3]),
        aspect="auto",
        cmap=colours,
        vmin=None if limit is None else 0.0,
        vmax=limit,
    )
    axes.set(xlabel=plane.names[0], ylabel=plane.names[1])
    bar(axes, image)


def _draw_cloud(axes: Axes, window: Window, numbers: Any, colours: str, limit: float | None = None) -> None:
    """Points of a plane in colours; others by their number or their one variable, as heights."""
    cloud, names = window.cloud, window.domain.axes
    if cloud is not None and window.domain.size == 2:
        bar(axes, axes.scatter(*cloud.T, s=8, c=numbers, cmap=colours, vmin=limit and 0.0, vmax=limit))
        axes.set(xlabel=names[0], ylabel=names[1])
        return
    alone = cloud is not None and window.domain.size == 1
    axes.scatter(cloud[:, 0] if alone and cloud is not None else np.arange(len(numbers)), numbers, s=6, color=BLUE)
    if limit is not None:
        axes.axhline(limit, color=ORANGE, linestyle="--")
    axes.set(xlabel=names[0] if alone else "number of the point")
