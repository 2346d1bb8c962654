"""A formula as a target."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import LIBRARY_ULPS
from ..domains.box import Box, name_axes
from ..errors import InputError
from ..formula.functions import BY_FLINT
from ..formula.majorants import p_means, why_not_integrable
from ..formula.parser import formula_line, parse
from ..formula.program import Program
from ..resources.deadline import in_force
from .base import Floats, Status, describe, refuse_nonfinite
from .programs import OfProgram

LIBRARY_ASSUMPTION = (
    f"NumPy's and SciPy's elementary functions are accurate to {LIBRARY_ULPS} units in the last place "
    "(tested against ball arithmetic, not proved)"
)


def library_assumptions(program: Program) -> tuple[str, ...]:
    """What is taken for granted of the functions in a program.

    >>> library_assumptions(parse("gamma(x)", ("x",)))[1]
    'python-flint encloses gamma; prover and judge share it (tested against mpmath, not proved)'
    """
    names = sorted({node.kind for node in program.nodes} & BY_FLINT)
    shared = f"python-flint encloses {', '.join(names)}; prover and judge share it (tested against mpmath, not proved)"
    return (LIBRARY_ASSUMPTION, shared) if names else (LIBRARY_ASSUMPTION,)


TAIL_SAMPLES, TAIL_ROOM = 4096, 1e-9
"""Points at which a declared tail is compared with the formula, and the fraction by which it may be less."""


class Expression(OfProgram):
    """A formula in the named variables of its domain.

    Written constants stand for the exact decimal number: where no float equals it, both neighbours are
    enclosed, so a certificate holds for the formula as typed.

    A declared `tail` is another formula that bounds this one almost everywhere; in L_p its powers count where no factor
    of the formula itself is known to be integrable. Whatever is proved then is conditional.

    >>> f = Expression("sin(3*x)*y", Box([-1, -1], [1, 1], ("x", "y")))
    >>> f.values(np.array([[0.0, 1.0]])), f.enclose(Interval([[0.0, 0.0]], [[0.1, 1.0]])).hi.round(3)
    (array([[0.]]), array([[0.296]]))
    """

    text: str
    status = Status.PROVED
    kind = "expression"

    tail: Program | None = None

    def __init__(self, text: str, domain: Box, tail: str | None = None) -> None:
        text = formula_line(text) if isinstance(text, str) else text
        domain = name_axes(text, domain)
        program = parse(text, domain.axes)
        shape = (len(program.outputs),) if program.is_vector else ()
        vars(self).update(text=text, domain=domain, program=program, output_shape=shape)
        if tail is not None:
            vars(self).update(tail=parse(formula_line(tail), domain.axes), status=Status.CONDITIONAL)
            self._refuse_contradicted_tail()

    def _refuse_contradicted_tail(self) -> None:
        """Refuse a declared bound that a sample exceeds."""
        rows = self.domain.sample(TAIL_SAMPLES, np.random.default_rng(0))
        if self.tail is None or self.tail.is_vector:
            raise InputError("tail must be one formula, which bounds every output", got="several")
        with np.errstate(all="ignore"):
            size, most = np.abs(self.program.values(rows)).max(axis=1), self.tail.values(rows)[:, 0]
        for row in np.flatnonzero(size - most > TAIL_ROOM * most)[:1]:
            raise InputError(
                f"tail must be at least the absolute value of {self.text!r}",
                got=f"{most[row]:.6g} at {rows[row].tolist()}, where that is {size[row]:.6g}",
            )

    def p_means(self, boxes: Interval, p: float) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """By powers of its factors, or of those of the declared tail."""
        means, defined = super().p_means(boxes, p)
        if self.tail is None:
            return means, defined
        declared, _ = p_means(self.tail, self.hull, boxes, p)
        return np.minimum(means, declared), defined | np.isfinite(declared)

    def not_integrable(self, box: Interval, p: float) -> str:
        """The factor, and its exponent; of the tail if one is declared."""
        return why_not_integrable(self.program if self.tail is None else self.tail, self.hull, box, p)

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """As its functions say, and what is declared."""
        known = library_assumptions(self.program)
        if self.tail is None:
            return known
        bound = f"its absolute value is at most {self.tail.source!r} there"
        return (f"{self.text!r} is defined almost everywhere on the domain, and {bound}", *known)

    def values(self, rows: Floats) -> Floats:
        """The formula in float64; a value that is not finite is refused, with the part that has none named."""
        return refuse_nonfinite(self, rows, self.program.values(rows, in_force()))

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
        """Kind and text, and what is declared."""
        return {"kind": self.kind, "text": self.text, **({} if self.tail is None else {"tail": self.tail.source})}

    def identity(self) -> Any:
        """Its operations, and those of a declared tail."""
        return repr(self.program) if self.tail is None else [repr(self.program), repr(self.tail)]

    def __repr__(self) -> str:
        return f"Expression({self.text!r}, {self.domain!r})"
