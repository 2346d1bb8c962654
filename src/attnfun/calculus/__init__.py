"""CALCULUS: integrals, extreme values, roots and derivatives of what was compiled, as enclosures with a status."""

from .answers import Enclosure, Extremum, Integral, Roots

__all__ = ["Enclosure", "Extremum", "Integral", "Roots"]
