"""A formula as a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arithmetic import Interval
from ..arithmetic.directed import LIBRARY_ULPS
from ..domains.box import Box, name_axes
from ..formula.parser import formula_line, parse
from ..formula.program import Program
from .base import Floats, Status, describe, refuse_nonfinite
from .programs import OfProgram

LIBRARY_ASSUMPTION = (
    f"NumPy's and SciPy's elementary functions are accurate to {LIBRARY_ULPS} units in the last place "
    "(tested against ball arithmetic, not proved)"
)


class Expression(OfProgram):
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
