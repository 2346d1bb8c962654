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
VALUES, AMOUNTS = "viridis", "cividis"
"""Colour maps for values of either sign and for amounts from zero."""
DPI = 160
MOST_EDGES = 2000
"""More polygons than this are drawn without edges."""
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "savefig.dpi": DPI,
}


def save(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """The figure, written in one step if there is a path; the format is that of its ending, or PNG."""
    from matplotlib import rc_context

    if path is not None:
        destination, drawn = refuse_place(path), BytesIO()
        with rc_context(STYLE):
            figure.savefig(drawn, format=picture_format(path))
        write_whole(destination if destination.suffix else destination.with_suffix(".png"), drawn.getvalue())
    return figure


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
    """A colour bar beside the panel."""
    axes.figure.colorbar(image, ax=axes)


def around(corners: Any) -> Any:
    """Corners (k, 2) of a convex polygon in the order of a walk around it."""
    turn = np.arctan2(*(corners - corners.mean(axis=0)).T[::-1])
    return corners[np.argsort(turn)]


def shortened(text: str, letters: int) -> str:
    """At most so many letters, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= letters else text[: letters - 1] + "…"
