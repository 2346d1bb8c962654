"""Targets whose operations are known: what formulas and traced functions have in common."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet
from ..formula.circuits import Circuit
from ..formula.lowering import circuit_of
from ..formula.majorants import p_means, why_not_integrable
from ..formula.program import Program
from ..resources.deadline import in_force
from .base import Floats, Target


class OfProgram(Target):
    """A target that is a program of elementary operations, in every arithmetic that they have."""

    program: Program

    def enclose(self, boxes: Interval) -> Interval:
        """Its operations in interval arithmetic."""
        return self.program.enclose(boxes, in_force())

    def values_or_nan(self, rows: Floats) -> Floats:
        """Its operations in float64, NaN at poles."""
        with np.errstate(all="ignore"):
            values = self.program.values(rows, in_force())
        return np.where(np.isfinite(values), values, np.nan)

    def p_means(self, boxes: Interval, p: float) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """By powers of its factors [T 3.7]."""
        return p_means(self.program, self.hull, boxes, p)

    def not_integrable(self, box: Interval, p: float) -> str:
        """The factor, and its exponent."""
        return why_not_integrable(self.program, self.hull, box, p)

    def jets(self, variables: Jet) -> Jet | None:
        """Its operations on Taylor series."""
        return self.program.jets(variables, in_force())

    def circuit(self) -> Circuit | None:
        """Its operations as affine maps and functions of one variable."""
        return self._circuit

    @property
    def may_jump(self) -> bool:
        """As its operations say."""
        return self.program.may_jump

    @property
    def continuous(self) -> bool:
        """Where it is bounded and made of continuous operations."""
        return self.circuit() is not None

    @cached_property
    def _circuit(self) -> Circuit | None:
        return circuit_of(self.program, self.domain.lo.ravel(), self.domain.hi.ravel(), in_force())
