"""Outward-rounded interval arithmetic, vectorised over many boxes; NumPy functions run on it unchanged."""

from . import functions as functions
from .interval import Interval, Untraceable, as_interval, join
from .jets import Jet

__all__ = ["Interval", "Jet", "Untraceable", "as_interval", "join"]
