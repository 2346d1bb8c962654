"""What a float is: number formats, directed rounding, lemmas on rounding, outward-rounded enclosures of functions."""

from . import functions as functions
from . import jet_functions as jet_functions
from .interval import Interval, Untraceable, as_interval, join
from .jets import Jet
from .truth import TruthValues, as_truth

__all__ = ["Interval", "Jet", "TruthValues", "Untraceable", "as_interval", "as_truth", "join"]
