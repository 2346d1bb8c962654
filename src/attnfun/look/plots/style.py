"""How all pictures look: colours that colour-blind readers can tell apart, small type, no frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arguments import path as given_path
from ...errors import InputError
from ...network.storage import refuse_place, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"
CYCLE = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""After Okabe and Ito."""
NETWORK, TARGET, BOUND, ERROR, TOTAL, QUERY = BLUE, GREY, ORANGE, "#009E73", "#8A5FBF", "#CC0000"
"""One colour, one meaning, in every picture of a network."""
VARIABLES = (BLUE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""One for each variable where several are drawn; none of them is the bound's or the target's."""
VALUES, AMOUNTS, ERRORS = "viridis", "cividis", "magma"
"""Colour maps: values of either sign, weights from zero, errors from zero."""
DPI = 160
WIDTH, HEIGHT, TITLE = 3.4, 2.9, 0.3
"""Inches of a panel, and of the heading."""
MOST_TICKS = 5
LETTERS = 40
"""Letters of a legend that fit beside each other above a panel."""
ENTITLED = ("png", "pdf", "svg")
MOST_EDGES = 2000
"""More polygons than this are drawn without edges."""
NIGHT, MOON = "#18181B", "#E4E4E7"
"""Paper and ink of dark pictures."""
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "pdf.fonttype": 42,
    "savefig.dpi": DPI,
}
STYLES: dict[str, dict[Any, Any]] = {
    "page": STYLE,
    "dark": STYLE
    | dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), NIGHT)
    | dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), MOON),
    "talk": STYLE
    | {
        "font.size": 20,
        "axes.titlesize": 20,
        "legend.fontsize": 18,
        "lines.linewidth": 3,
        "lines.markersize": 7,
        "axes.linewidth": 1.5,
        "figure.dpi": 80,
    },
}
"""For a page of text, for a dark page, and for slides, with type twice as large as on a page."""
ENLARGED = {"page": 1.0, "dark": 1.0, "talk": 2.0}
"""How much larger the panels of a style are."""


def save(figure: Figure, path: str | os.PathLike[str] | None, style: dict[Any, Any] = STYLE) -> Figure:
    """The figure, written in one step if there is a path; the format is that of its ending, or PNG.

    Formats that have room for a title of the file get that of the figure.
    """
    from matplotlib import rc_context

    if path is not None:
        destination, drawn = refuse_place(path), BytesIO()
        with rc_context(style):
            kind, title = picture_format(path), " ".join(figure.get_suptitle().split())
            figure.savefig(drawn, format=kind, metadata={"Title": title} if title and kind in ENTITLED else None)
        write_whole(destination if destination.suffix else destination.with_suffix(".png"), drawn.getvalue())
    return figure


def entitled(axes: Axes, title: str) -> None:
    """The title, and between it and the panel, off the curves, the legend of what has a label."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    handles, labels = axes.get_legend_handles_labels()
    lines = 0
    if labels:
        columns = max(1, min(len(labels), LETTERS // (max(map(len, labels)) + 5)))
        lines = -(-len(labels) // columns)
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2, "borderpad": 0.2}
        axes.legend(handles, labels, ncols=columns, handlelength=1.5, columnspacing=1.2, **place)
    axes.set_title(title, pad=6 + 1.7 * lines * FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points())


def few_ticks(axis: Any, share: float = 1.0) -> None:
    """So few round numbers on a linear axis, drawn on this share of a panel, that their labels do not touch."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(max(1, int(MOST_TICKS * min(share, 1.0))), steps=[1, 2, 2.5, 5, 10]))


def picture_format(path: str | os.PathLike[str]) -> str:
    """What the ending of a picture's name stands for; an error for one that cannot be drawn."""
    from matplotlib.backend_bases import FigureCanvasBase

    ending, known = given_path("path", path).suffix[1:].lower() or "png", FigureCanvasBase.get_supported_filetypes()
    if ending not in known:
        raise InputError(f"a picture's name must end in one of {', '.join(sorted(known))}", got=str(path))
    return ending


def tiles(axes: Axes, polygons: Sequence[Any], numbers: Any, colours: str, **limits: float) -> None:
    """Convex polygons, each (corners, 2), in the colours of their numbers; with a colour bar."""
    from matplotlib.collections import PolyCollection

    shown = PolyCollection([around(corners) for corners in polygons])
    shown.set(array=np.asarray(numbers), cmap=colours)
    shown.set(edgecolor="white" if len(polygons) < MOST_EDGES else "face", linewidth=0.4)
    shown.set_clim(**limits)
    axes.add_collection(shown)
    bar(axes, shown)


def bar(axes: Axes, image: Any) -> None:
    """A colour bar beside the panel, as tall as what is drawn; pointed where numbers are beyond its end."""
    from matplotlib.colors import LogNorm

    numbers, linear = image.get_array(), not isinstance(image.norm, LogNorm)
    under, over = linear and numbers.min() < image.norm.vmin, linear and numbers.max() > image.norm.vmax
    extend = ("neither", "min", "max", "both")[under + 2 * over]
    drawn = axes.figure.colorbar(image, cax=axes.inset_axes((1.04, 0.0, 0.05, 1.0)), extend=extend)
    if linear:
        few_ticks(drawn.ax.yaxis)


def around(corners: Any) -> Any:
    """Corners (k, 2) of a convex polygon in the order of a walk around it."""
    turn = np.arctan2(*(corners - corners.mean(axis=0)).T[::-1])
    return corners[np.argsort(turn)]


def shortened(text: str, letters: int) -> str:
    """At most so many letters, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= letters else text[: letters - 1] + "…"
