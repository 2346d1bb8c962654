"""Which panels a network gets, and one figure of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import InputError, shown
from ...network import Affine
from ..views import Window, cells, heads, look
from .attention import draw_cells, draw_tokens, draw_weights
from .diagrams import circuit_of, draw_circuit, draw_layers
from .function import draw_error, draw_values
from .style import STYLE, save, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...compiled import Compiled

PANELS: dict[str, Callable[[Axes, Window], None]] = {
    "values": draw_values,
    "error": draw_error,
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
) -> Figure:
    """A figure of the panels asked for, or of those that suit the network."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    listed = isinstance(panels, list | tuple) and all(isinstance(name, str) and name in PANELS for name in panels)
    if panels is not None and not (listed and panels):
        raise InputError(f"panels must be some of {', '.join(PANELS)}, in a list", got=shown(panels))
    window = look(net, at, output)
    names = suitable(window) if panels is None else tuple(panels)
    rows = _rows(names)
    with rc_context(STYLE):
        figure = Figure(figsize=(3.4 * max(2, *map(len, rows)), 2.9 * len(rows) + 0.3), layout="constrained")
        for part, row in zip(figure.subfigures(len(rows), 1, squeeze=False)[:, 0], rows, strict=True):
            for axes, name in zip(part.subplots(1, len(row), squeeze=False)[0], row, strict=True):
                PANELS[name](axes, window)
        heading = f"{shortened(net.name, LONGEST)}\n{net.network.tokens} tokens, {net.certificate.headline}"
        figure.suptitle(heading, fontsize=10, parse_math=False)
    return save(figure, path)


def suitable(window: Window) -> tuple[str, ...]:
    """Values and error; then a diagram of a deep network, or cells and weights of one that looks once."""
    network, size = window.net.network, window.domain.size
    if circuit_of(window) is not None:
        return "values", "error", "circuit"
    if sum(not isinstance(layer, Affine) for layer in network.layers) > 1:
        return "values", "error", "layers"
    if not network.attention:
        return "values", "error"
    flat = size == 2 and cells(window, heads(network)[0], (0, 1)) is not None
    tokens = ("tokens",) if window.domain.lo.ndim == 2 else ()
    return ("values", "error", *(("cells",) if flat else ()), "weights", *tokens)


def _rows(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Up to three panels a row, four as two and two, wide ones alone."""
    narrow = [name for name in names if name not in WIDE]
    step = 2 if len(narrow) == 4 else 3
    found = [tuple(narrow[start : start + step]) for start in range(0, len(narrow), step)]
    return [*found, *((name,) for name in names if name in WIDE)]
