"""Which panels a network gets, and one figure of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...arguments import one_of
from ...errors import InputError, counted, shown
from ...network import Affine
from ..views import Window, cells, heads, held_out_rows, look
from .attention import draw_cells, draw_tokens, draw_weights
from .diagrams import circuit_of, draw_circuit, draw_layers, height
from .function import draw_error, draw_held_out, draw_residuals, draw_target, draw_values
from .style import ENLARGED, HEIGHT, STYLES, TITLE, WIDTH, save, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...compiled import Compiled

PANELS: dict[str, Callable[[Axes, Window], None]] = {
    "target": draw_target,
    "values": draw_values,
    "error": draw_error,
    "held-out": draw_held_out,
    "residuals": draw_residuals,
    "cells": draw_cells,
    "weights": draw_weights,
    "tokens": draw_tokens,
    "circuit": draw_circuit,
    "layers": draw_layers,
}
WIDE = ("circuit", "layers")
"""Panels that get a row of their own."""
LONGEST = 60
"""Letters of the target in the title."""


def plot(
    net: Compiled,
    path: str | os.PathLike[str] | None = None,
    panels: Sequence[str] | None = None,
    at: Any = None,
    output: int = 0,
    style: str = "page",
    ax: Axes | None = None,
) -> Figure:
    """A figure of the panels named, or of those that suit the network; in a talk, of its function only.

    With `ax`, one panel is drawn into axes that are there.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if panels is not None and not (isinstance(panels, list | tuple) and panels):
        raise InputError(f"panels must be some of {', '.join(PANELS)}, in a list", got=shown(panels))
    for name in panels or ():
        one_of("panels", name, PANELS)
    if isinstance(path, str) and path in PANELS:
        raise InputError("the first argument is the path of a file", got=path, remedy=f'Write panels=["{path}"].')
    one_of("style", style, STYLES)
    window = look(net, at, output)
    if ax is not None:
        return _into(ax, window, ("values",) if panels is None else tuple(panels), path)
    names = tuple(panels or (of_the_function(window) if style == "talk" else suitable(window)))
    rows, times = _rows(names), ENLARGED[style]
    heights = [height(window) if row[0] in WIDE else 1.0 for row in rows]
    size = times * WIDTH * max(2, *map(len, rows)), times * (HEIGHT * sum(heights) + TITLE)
    with rc_context(STYLES[style]):
        figure = Figure(figsize=size, layout="constrained")
        for part, row in zip(
            figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0], rows, strict=True
        ):
            for axes, name in zip(part.subplots(1, len(row), squeeze=False)[0], row, strict=True):
                PANELS[name](axes, window)
        size = counted(net.network.tokens, "token")
        heading = f"{shortened(net.name, LONGEST)}\n{size}, {net.certificate.headline}"
        figure.suptitle(heading, fontsize="large", parse_math=False)
    return save(figure, path, STYLES[style])


def _into(ax: Axes, window: Window, names: tuple[str, ...], path: object) -> Figure:
    """One panel in axes of a figure that somebody else made and will save."""
    from matplotlib.axes import Axes as MatplotlibAxes

    if not isinstance(ax, MatplotlibAxes) or len(names) != 1 or path is not None:
        got = shown(ax) if not isinstance(ax, MatplotlibAxes) else f"panels={list(names)}, path={path!r}"
        raise InputError("ax must be axes of matplotlib, for one panel and without a path", got=got)
    PANELS[names[0]](ax, window)
    return cast("Figure", ax.get_figure(root=True))


def suitable(window: Window) -> tuple[str, ...]:
    """Of its function; then a diagram of a deep network, or cells and weights of one that looks once."""
    network, function = window.net.network, of_the_function(window)
    if circuit_of(window) is not None:
        return *function, "circuit"
    if sum(not isinstance(layer, Affine) for layer in network.layers) > 1:
        return *function, "layers"
    if not network.attention:
        return function
    flat = window.domain.size == 2 and cells(window, heads(network)[0], (0, 1)) is not None
    shows_cells = flat and held_out_rows(window) is None
    tokens = ("tokens",) if window.domain.lo.ndim == 2 else ()
    return (*function, *(("cells",) if shows_cells else ()), "weights", *tokens)


def of_the_function(window: Window) -> tuple[str, ...]:
    """Network and error, a target that needs a map of its own, or what is known of data."""
    if held_out_rows(window) is not None:
        return "values", "held-out", "residuals"
    own_map = window.domain.size == 2 and window.has_target and window.cloud is None
    return (*(("target",) if own_map else ()), "values", "error")


def _rows(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Up to three panels a row, four as two and two, wide ones alone."""
    narrow = [name for name in names if name not in WIDE]
    step = 2 if len(narrow) == 4 else 3
    found = [tuple(narrow[start : start + step]) for start in range(0, len(narrow), step)]
    return [*found, *((name,) for name in names if name in WIDE)]
