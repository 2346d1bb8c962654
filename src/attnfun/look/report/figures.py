"""Interactive figures as plain dicts, for the page of a report (`chart.js`) and for the lab; traces are plotly's."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from ..plots.style import BOUND, ERROR, ERRORS, NETWORK, TARGET, TOTAL, VALUES, VARIABLES
from ..views import Slice, Window, aspect, error_scale, held_out_rows, lines

LINE, MAP, MOST_LINES = 801, 101, 5
"""Points of a line, points along the side of a map, lines beyond two variables."""
DIGITS, COLOURED = 7, 4
"""Significant digits of numbers that are only looked at, and of those that are only colours."""

Figure = dict[str, Any]


def function_figures(window: Window) -> dict[str, Figure]:
    """The network beside its target, `values`, and the error under its bound, `error`, where the target is at hand.

    In a plane the target has a map of its own, `target`. Networks fitted to data have what held-out rows got in place
    of the error: `held_out` and `residuals`.
    """
    if window.cloud is not None:
        return _of_cloud(window)
    if window.domain.size == 2:
        figures = _of_plane(window, window.slice((0, 1), MAP))
    else:
        figures = _of_lines(
            window, [window.slice((0,), LINE)] if window.domain.size == 1 else lines(window, MOST_LINES)
        )
    if not window.has_target:
        del figures["error"]
    figures["values"]["data"] += _data(window, figures["values"]["data"][0])
    return figures | _of_held_out(window)


def figure(traces: list[Figure], x: str, y: str, **layout: Any) -> Figure:
    """Traces with titled axes; `log="y"` or `log="xy"` makes axes logarithmic, which the lab can draw."""
    return {"data": traces, "layout": {"x": x, "y": y, **layout}}


def numbers(array: Any, digits: int = DIGITS) -> list[Any]:
    """Rounded for display, None for what is not finite."""
    values = np.asarray(array, dtype=np.float64)
    flat = [float(f"{value:.{digits}g}") if isfinite(value) else None for value in values.ravel()]
    return flat if values.ndim == 1 else [flat[k : k + values.shape[1]] for k in range(0, len(flat), values.shape[1])]


def _curve(x: Any, y: Any, name: str, colour: str, **line: Any) -> Figure:
    style = {"color": colour, "width": 1.5} | line
    return {
        "type": "scatter",
        "mode": "lines",
        "x": numbers(x),
        "y": numbers(y),
        "name": name,
        "line": style,
    }


def _of_lines(window: Window, drawn: list[Slice]) -> dict[str, Figure]:
    alone, certificate = window.domain.size == 1, window.net.certificate
    values, errors = list[Figure](), list[Figure]()
    both = [*(line.network for line in drawn), *(line.target for line in drawn)]
    low, high = window.ends(*both) if window.has_poles else (-np.inf, np.inf)
    for line, colour in zip(drawn, VARIABLES, strict=False):
        x = line.ticks[0] if alone else (line.ticks[0] - line.ticks[0][0]) / np.ptp(line.ticks[0])
        name = "network" if alone else line.names[0]
        if line.target is not None:
            behind = _curve(x, np.clip(line.target, low, high), "" if values else "target", TARGET, width=4)
            values.append(behind | {"opacity": 0.45})
            errors.append(_curve(x, line.error, "|error|" if alone else name, ERROR if alone else colour))
        values.append(_curve(x, np.clip(line.network, low, high), name, NETWORK if alone else colour))
        if alone and line.target is not None and not window.bounded_everywhere:
            p = certificate.norm
            errors.append(_curve(x, line.growing_error(p), f"L_{p:g} error so far", TOTAL))
    ends = [drawn[0].ticks[0][0], drawn[0].ticks[0][-1]] if alone else [0, 1]
    if window.bounded_everywhere or alone:
        errors.append(_curve(ends, [certificate.bound] * 2, window.word, BOUND, dash="dash"))
    x = window.domain.axes[0] if alone else "share of each variable's range"
    return {"values": figure(values, x, "value"), "error": figure(errors, x, "|error|")}


def _of_plane(window: Window, plane: Slice) -> dict[str, Figure]:
    def heat(values: Any, colours: str, **limits: Any) -> Figure:
        trace = {
            "type": "heatmap",
            "x": numbers(plane.ticks[0]),
            "y": numbers(plane.ticks[1]),
            "z": numbers(plane.as_map(values), COLOURED),
            "colorscale": colours,
            **limits,
        }
        return figure([trace], plane.names[0], plane.names[1], equal=aspect(window.domain) == "equal")

    if plane.target is None:
        return {"values": heat(plane.network, VALUES), "error": heat(plane.error, ERRORS, zmin=0.0)}
    ends = dict(zip(("zmin", "zmax"), window.ends(plane.network, plane.target), strict=True))  # one scale
    low, high, logarithmic = error_scale(plane.error)
    if logarithmic:
        powers = {"zmin": float(np.log10(low)), "zmax": float(np.log10(high))}
        error = heat(np.log10(np.clip(plane.error, low, None)), ERRORS, **powers)
    else:
        error = heat(plane.error, ERRORS, zmin=0.0)
    error["layout"]["logarithmic"] = logarithmic
    return {"target": heat(plane.target, VALUES, **ends), "values": heat(plane.network, VALUES, **ends), "error": error}


def _data(window: Window, below: Figure) -> list[Figure]:
    """The rows that a network of one or two variables was fitted to: heights, or dots in the colours of the map."""
    rows = held_out_rows(window)
    if rows is None or window.domain.size > 2:
        return []
    marker: Figure = {"color": TARGET, "size": 5}
    if window.domain.size == 2:
        known = [value for line in below["z"] for value in line if value is not None]
        ends = {"cmin": min(known), "cmax": max(known)}
        marker = {"color": numbers(rows.y, COLOURED), "colorscale": VALUES, **ends, "size": 7}
    x, y = (rows.X[:, 0], rows.y) if window.domain.size == 1 else rows.X.T
    return [{"type": "scatter", "mode": "markers", "x": numbers(x), "y": numbers(y), "name": "data", "marker": marker}]


def _of_held_out(window: Window) -> dict[str, Figure]:
    """Predictions of held-out rows over what was measured, and their differences over the predictions."""
    rows = held_out_rows(window)
    if rows is None:
        return {}

    def dots(x: Any, y: Any, colour: str) -> Figure:
        marker = {"color": colour, "size": 5}
        return {"type": "scatter", "mode": "markers", "x": numbers(x), "y": numbers(y), "marker": marker}

    both = np.concatenate([rows.y, rows.predicted])
    ends = [float(both.min()), float(both.max())]
    sides = [float(rows.predicted.min()), float(rows.predicted.max())]
    agreed, none = _curve(ends, ends, "", TARGET), _curve(sides, [0.0, 0.0], "", TARGET)
    return {
        "held_out": figure([dots(rows.y, rows.predicted, NETWORK), agreed], "measured", "predicted", equal=True),
        "residuals": figure([dots(rows.predicted, rows.residuals, ERROR), none], "predicted", "predicted - measured"),
    }


def _of_cloud(window: Window) -> dict[str, Figure]:
    """Points of a plane in colours; others by their number or their one variable, as heights."""
    cloud = np.empty((0, window.domain.size)) if window.cloud is None else window.cloud
    found, target = window.values(cloud)
    error = np.abs(found - (np.nan if target is None else target))
    names, flat = window.domain.axes, window.domain.size == 2

    def dots(values: Any, title: str, colours: str, **limits: Any) -> Figure:
        if flat:
            marker = {"color": numbers(values), "colorscale": colours, "showscale": True, "size": 7, **limits}
            x, y, axes = cloud[:, 0], cloud[:, 1], (names[0], names[1])
        else:
            marker = {"color": ERROR if colours == ERRORS else NETWORK, "size": 5}
            alone = window.domain.size == 1
            x, y = cloud[:, 0] if alone else np.arange(len(cloud)), values
            axes = names[0] if alone else "number of the point", title
        return figure(
            [{"type": "scatter", "mode": "markers", "x": numbers(x), "y": numbers(y), "marker": marker}], *axes
        )

    return {
        "values": dots(found, "value", VALUES),
        "error": dots(error, "|error|", ERRORS, cmin=0.0),
    }
