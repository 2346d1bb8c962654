"""VIEWS: the numbers behind every picture, without a drawing library. Plots, report and lab draw the same views."""

from .heads import Cells, HeadPlace, cells, heads, peaks, weights
from .held_out import HeldOutRows, held_out_rows
from .scales import ErrorScale, aspect, error_scale
from .slices import Slice, Window, leading_axes, lines, look

__all__ = [
    "Cells",
    "ErrorScale",
    "HeadPlace",
    "HeldOutRows",
    "Slice",
    "Window",
    "aspect",
    "cells",
    "error_scale",
    "heads",
    "held_out_rows",
    "leading_axes",
    "lines",
    "look",
    "peaks",
    "weights",
]
