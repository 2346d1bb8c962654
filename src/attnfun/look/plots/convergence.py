"""How the iterates of a network that learns in context come close to the exact ones, layer by layer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .style import CYCLE, STYLE, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...incontext.report import Report

LEAST = 1e-17
"""Distances of zero are drawn here."""


def plot_convergence(report: Report, path: str | os.PathLike[str] | None = None) -> Figure:
    """Relative distances of each register from the exact algorithm's, and bounds on them, against layers."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        for number, name in enumerate(dict.fromkeys(iterate.register for iterate in report.iterates)):
            of_it = [iterate for iterate in report.iterates if iterate.register == name]
            layers, marker = [iterate.layer for iterate in of_it], "osD^v"[number % 5]
            distances = [max(iterate.distance / iterate.size, LEAST) for iterate in of_it]
            colour = CYCLE[number % len(CYCLE)]
            axes.semilogy(layers, distances, marker, color=colour, label=name, markersize=4)
            axes.semilogy(layers, [i.bound / i.size for i in of_it], "--", color=colour, linewidth=1)
        axes.set(xlabel="attention layer", ylabel="relative distance from the exact iterate")
        axes.legend(title="dashed: bound")
    return save(figure, path)
