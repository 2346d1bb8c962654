"""A formula as a target: one program, evaluated on floats and on intervals alike."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arithmetic import Interval, Jet, Untraceable, as_interval, join
from ..arithmetic.basis import Basis
from ..arithmetic.directed import LIBRARY_ULPS, above, below
from ..arithmetic.jets import join as join_jets
from ..domain import Box
from ..errors import InputError
from .base import Floats, Status, Target, Unanswerable, describe, refuse_nonfinite
from .operations import JUMPS, OPERATIONS
from .parser import Node, Program, formula_line, names_in, parse

if TYPE_CHECKING:
    from .circuits import Circuit

LIBRARY_ASSUMPTION = (
    f"NumPy's and SciPy's elementary functions are accurate to {LIBRARY_ULPS} units in the last place "
    "(tested against ball arithmetic, not proved)"
)

NUMBERS = 2**24
"""Numbers of all operations together that are held at a time."""


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
        self.domain = _name_axes(self.text, domain)
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
        """The formula in float64; a value that is not finite is refused, with the guilty part named."""
        return np.concatenate([self._values(rows[part]) for part in self._blocks(len(rows), 1)])  # (B, m)

    def _values(self, rows: Floats) -> Floats:
        with np.errstate(all="ignore"):
            steps = self.run([rows[:, k] for k in range(rows.shape[1])], float_constant)
        columns = [np.broadcast_to(steps[k], rows.shape[:1]) for k in self.program.outputs]
        return refuse_nonfinite(self, rows, np.stack(columns, axis=1).astype(np.float64))  # (b, m)

    def _blocks(self, count: int, each: int) -> list[slice]:
        """Rows evaluated at a time, `each` numbers for an operation at one of them: all operations are kept."""
        step = max(1, NUMBERS // (each * len(self.program.nodes)))
        return [slice(start, start + step) for start in range(0, max(count, 1), step)]

    def enclose(self, boxes: Interval) -> Interval:
        """The formula in interval arithmetic."""
        steps = self.run([boxes[:, k] for k in range(boxes.shape[1])], enclosed_constant)
        columns = [_as_column(as_interval(steps[k]), len(boxes)) for k in self.program.outputs]
        return join(columns, axis=1, function=np.stack)  # (B, m)

    def jets(self, variables: Jet) -> Jet:
        """The formula in Taylor arithmetic."""
        parts = [self._jets(variables[part]) for part in self._blocks(len(variables), 2 * variables.basis.size)]
        return parts[0] if len(parts) == 1 else join_jets(parts)  # (B, m)

    def _jets(self, variables: Jet) -> Jet:
        constant = partial(_constant_series, variables.basis)
        try:
            steps = self.run([variables[:, k] for k in range(variables.shape[1])], constant)
        except Untraceable:
            raise Unanswerable from None
        zero = variables[:, 0] * 0.0
        return join_jets([zero + steps[k] for k in self.program.outputs], axis=1, function=np.stack)  # (B, m)

    def circuit(self) -> Circuit:
        """The formula as affine maps and functions of one variable."""
        return self._circuit

    @property
    def may_jump(self) -> bool:
        """Formulas without comparisons, `where` and `sign` do not."""
        return any(node.kind in JUMPS for node in self.program.nodes)

    @property
    def continuous(self) -> bool:
        """Formulas that are bounded and made of continuous operations are."""
        try:
            return bool(self.circuit())
        except Unanswerable:
            return False

    @cached_property
    def _circuit(self) -> Circuit:
        from .lowering import circuit_of

        return circuit_of(self)

    def explain(self, box: Interval) -> str:
        """Name the first operation that is undefined or unbounded on the box although its operands are not."""
        steps = [as_interval(step) for step in self.run([box[:, k] for k in range(box.shape[1])], enclosed_constant)]
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

    def run(self, variables: list[Any], constant: Any) -> list[Any]:
        """Every operation of the program, in order, until the deadline."""
        steps: list[Any] = []
        for node in self.program.nodes:
            self.deadline.check("evaluating the formula")
            if node.kind == "constant":
                steps.append(constant(node))
            elif node.kind == "variable":
                steps.append(variables[int(node.value)])
            else:
                steps.append(OPERATIONS[node.kind](*(steps[k] for k in node.args)))
        return steps

    def __repr__(self) -> str:
        return f"Expression({self.text!r}, {self.domain!r})"


def float_constant(node: Node) -> Any:
    """A constant as the nearest float."""
    return np.float64(node.value)


def enclosed_constant(node: Node) -> Interval:
    """A constant as an interval that holds the number as written."""
    value = np.float64(node.value)
    return Interval(value) if node.exact else Interval(below(value), above(value))  # type: ignore[arg-type]


def _constant_series(base: Basis, node: Node) -> Jet:
    """A constant as a series."""
    return Jet.constant(base, enclosed_constant(node))


def _as_column(step: Interval, count: int) -> Interval:
    if step.shape == (count,):
        return step
    return Interval(np.broadcast_to(step.lo, (count,)), np.broadcast_to(step.hi, (count,)), step.defined)


def _name_axes(text: str, domain: Box) -> Box:
    """A single unnamed axis takes the name of the formula's single variable; otherwise names are required."""
    if domain.names is not None:
        return domain
    free = names_in(text)
    if domain.size == 1 and len(free) <= 1:
        return domain.renamed(free or ("x",))
    raise InputError(
        "the domain of a formula must name its variables",
        got=f"{domain!r} for {text!r}",
        remedy=f"Write domain={{{', '.join(f'{name!r}: (lo, hi)' for name in free)}}}.",
    )
