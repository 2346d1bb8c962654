"""LOOK: the numbers behind every picture, without a drawing library. Plots, report and lab draw the same views."""

from .heads import Cells, Place, cells, heads, peaks, weights
from .slices import Slice, Window, leading_axes, lines, look

__all__ = ["Cells", "Place", "Slice", "Window", "cells", "heads", "leading_axes", "lines", "look", "peaks", "weights"]
