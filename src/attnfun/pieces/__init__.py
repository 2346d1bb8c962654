"""CUT: how a domain is divided before weights are written."""

from .grids import Grid

__all__ = ["Grid"]
