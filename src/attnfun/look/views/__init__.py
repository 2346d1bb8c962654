"""VIEWS: the numbers behind every picture, without a drawing library. Plots, report and lab draw the same views."""

from .heads import Cells, HeadPlace, cells, heads, peaks, weights
from .scales import ErrorScale, aspect, error_scale, value_scale
from .slices import HeldOutRows, Slice, Window, held_out_rows, leading_axes, lines, look

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
    "value_scale",
    "weights",
]
