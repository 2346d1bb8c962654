"""PICTURES: the network beside its target, the error under its certified bound, cells, weights and circuits."""

from .compiled import plot
from .convergence import plot_convergence
from .partition import plot_partition

__all__ = ["plot", "plot_convergence", "plot_partition"]
