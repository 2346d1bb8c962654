"""A formula as a target."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet
from ..arithmetic.directed import LIBRARY_ULPS
from ..domains.box import Box, name_axes
from ..formula.circuits import Circuit
from ..formula.lowering import circuit_of
from ..formula.majorants import p_means, why_not_integrable
from ..formula.parser import formula_line, parse
from ..formula.program import Program
from .base import Floats, Status, Target, describe, refuse_nonfinite

LIBRARY_ASSUMPTION = (
    f"NumPy's and SciPy's elementary functions are accurate to {LIBRARY_ULPS} units in the last place "
    "(tested against ball arithmetic, not proved)"
)


class Expression(Target):
    """A formula in the named variables of its domain.

    Written constants stand for the exact decimal number: where no float equals it, both neighbours are
    enclosed, so a certificate holds for the formula as typed.

    >>> f = Expression("sin(3*x)*y", Box([-1, -1], [1, 1], ("x", "y")))
    >>> f.values(np.array([[0.0, 1.0]])), f.enclose(Interval([[0.0, 0.0]], [[0.1, 1.0]])).hi.round(3)
    (array([[0.]]), array([[0.296]]))
    """

    status = Status.PROVED
    kind = "expression"
    assumptions = (LIBRARY_ASSUMPTION,)

    def __init__(self, text: str, domain: Box) -> None:
        self.text = formula_line(text) if isinstance(text, str) else text
        self.domain = name_axes(self.text, domain)
        self.program: Program = parse(self.text, self.domain.axes)
        self.output_shape = (len(self.program.outputs),) if self.program.is_vector else ()

    @classmethod
    def of_program(cls, program: Program, domain: Box) -> Expression:
        """A formula whose operations are known already."""
        formula = cls.__new__(cls)
        formula.text, formula.domain, formula.program = program.source, domain, program
        formula.output_shape = (len(program.outputs),)
        return formula

    def values(self, rows: Floats) -> Floats:
        """The formula in float64; a value that is not finite is refused, with the part that has none named."""
        return refuse_nonfinite(self, rows, self.program.values(rows, self.deadline))

    def enclose(self, boxes: Interval) -> Interval:
        """The formula in interval arithmetic."""
        return self.program.enclose(boxes, self.deadline)

    def p_means(self, boxes: Interval, p: float) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """By powers of its factors [T 3.7]."""
        return p_means(self.program, self.hull, boxes, p)

    def not_integrable(self, box: Interval, p: float) -> str:
        """The factor, and its exponent."""
        return why_not_integrable(self.program, self.hull, box, p)

    def jets(self, variables: Jet) -> Jet | None:
        """The formula in Taylor arithmetic."""
        return self.program.jets(variables, self.deadline)

    def circuit(self) -> Circuit | None:
        """The formula as affine maps and functions of one variable."""
        return self._circuit

    @property
    def may_jump(self) -> bool:
        """As its operations say."""
        return self.program.may_jump

    @property
    def continuous(self) -> bool:
        """Formulas that are bounded and made of continuous operations are."""
        return self.circuit() is not None

    @cached_property
    def _circuit(self) -> Circuit | None:
        return circuit_of(self.program, self.domain.lo.ravel(), self.domain.hi.ravel(), self.deadline)

    def explain(self, box: Interval) -> str:
        """Name the first operation that is undefined or unbounded on the box although its operands are not."""
        steps = self.program.ranges(box)
        place = describe(box, self.domain)
        for number in self._needed(steps):
            node, step = self.program.nodes[number], steps[number]
            if not (np.all(step.defined) and np.isfinite(step.lo).all() and np.isfinite(step.hi).all()):
                ranges = ", ".join(
                    f"{self.program.text(self.program.nodes[k])} in [{steps[k].lo.min():g}, {steps[k].hi.max():g}]"
                    for k in node.args
                )
                return f"{self.program.text(node)!r} is undefined or unbounded at {place} (there {ranges})"
        return f"{self.text!r} has no finite float value at {place}"

    def _needed(self, steps: list[Interval]) -> list[int]:
        """The operations, in order, without those in branches of `where` that are not taken."""
        needed, stack = set(), list(self.program.outputs)
        while stack:
            number = stack.pop()
            node = self.program.nodes[number]
            args = node.args
            if node.kind == "where":
                truth = steps[args[0]]
                args = (args[0], *args[1:2] * bool(truth.hi.all()), *args[2:] * bool((truth.lo == 0).any()))
            stack += [k for k in args if k not in needed]
            needed.add(number)
        return sorted(needed)

    def as_dict(self) -> dict[str, Any]:
        """Kind and text."""
        return {"kind": self.kind, "text": self.text}

    def identity(self) -> Any:
        """Its operations."""
        return repr(self.program)

    def __repr__(self) -> str:
        return f"Expression({self.text!r}, {self.domain!r})"
