"""Quadratic polynomials of one form as one square: `p(z) = p(m) + p'(m) (z - m) + a (z - m)²`.

A formula such as `exp(-(9*x - 2)**2 - (9*y - 7)**2) + exp(-(9*x - 4)**2)` squares one variable in several ways. All of
these units are affine in `t²` and z with `z = m + r t`, m the middle of the range of z and r a power of two with
|t| <= 2. So each form takes one unit, and all of them are the square on [-2, 2], which the products of a formula also
are (`products.py`): they share one bank.

No digits are lost by this: on an interval of half width h, a polynomial `a z² + ..` reaches `|a| h²/2` somewhere
(Chebyshev), so `a (z - m)²` is never more than twice as large as the polynomial itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arithmetic import Interval
from .circuits import ONE, ZERO, Circuit, Linear, Unit
from .composites import Composite, Identity
from .products import SQUARE, is_number

Coefficients = tuple[Interval, Interval, Interval]
"""Of 1, z and z²."""
WIDEST = 2.0
"""Squares are taken on [-2, 2]."""
NARROWEST, SMALLEST = 2.0**-20, 2.0**-500
"""Half widths of ranges are taken to be at least this fraction of their middles, and at least so large."""


def with_one_square(circuit: Circuit) -> Circuit:
    """The same function where quadratic units become affine forms of squares, one for each argument.

    The circuit itself where all of them are one function on one range already.
    """
    found = {k: known for k, unit in enumerate(circuit.units) if (known := coefficients(unit.function)) is not None}
    kinds = {(circuit.units[k].function, circuit.units[k].low, circuit.units[k].high) for k in found}
    return _Rewriting(circuit, found).circuit() if len(kinds) > 1 else circuit


def coefficients(function: Composite) -> Coefficients | None:
    """Of a quadratic polynomial; None for any other function.

    >>> u = Composite.variable()
    >>> shifted = Composite.of("-", u, Composite.number(Interval(3.0)))
    >>> [float(each.mid) for each in coefficients(Composite.of("*", shifted, shifted))]
    [9.0, -6.0, 1.0]
    """
    done: list[Coefficients] = []
    for step in function.steps:
        args = [done[k] for k in step.args]
        if step.kind == "variable":
            made = (ZERO, ONE, ZERO)
        elif step.kind == "constant":
            number = step.value.interval if isinstance(step.value, Identity) else Interval(step.value)
            made = (number, ZERO, ZERO)
        elif step.kind in ("+", "-"):
            sign = ONE if step.kind == "+" else -ONE
            made = tuple(a + sign * b for a, b in zip(*args, strict=True))
        elif step.kind == "neg":
            made = tuple(-a for a in args[0])
        elif step.kind == "*":
            made = _product(*args)
        elif step.kind == "**" and _degree(args[1]) == 0 and is_number(args[1][0], 2.0):
            made = _product(args[0], args[0])
        else:
            return None
        if made is None:
            return None
        done.append(made)  # type: ignore[arg-type]
    last = done[-1]
    return last if _degree(last) == 2 and last[2].lo * last[2].hi > 0 else None


def _degree(polynomial: Coefficients) -> int:
    return max((k for k in range(3) if not is_number(polynomial[k], 0.0)), default=0)


def _product(p: Coefficients, q: Coefficients) -> Coefficients | None:
    """None beyond degree two."""
    if _degree(p) + _degree(q) > 2:
        return None
    return p[0] * q[0], p[0] * q[1] + p[1] * q[0], p[0] * q[2] + p[1] * q[1] + p[2] * q[0]


class _Rewriting:
    """Walks through the units of a circuit and says what stands for each of them."""

    def __init__(self, circuit: Circuit, found: dict[int, Coefficients]) -> None:
        self.old, self.found = circuit, found
        self.units = list[Unit]()
        self.forms = {k: Linear.atom(k) for k in range(circuit.inputs)}
        self.squares = dict[object, tuple[Linear, float, float]]()

    def circuit(self) -> Circuit:
        """The new one."""
        for number, unit in enumerate(self.old.units):
            argument = self.rewritten(unit.argument)
            if number in self.found:
                self.forms[self.old.inputs + number] = self.quadratic(self.found[number], argument, unit)
            else:
                self.forms[self.old.inputs + number] = self.added(replace(unit, argument=argument))
        outputs = tuple(self.rewritten(output) for output in self.old.outputs)
        parts = tuple((text, self.rewritten(form)) for text, form in self.old.parts)
        return replace(self.old, units=tuple(self.units), outputs=outputs, parts=parts)

    def added(self, unit: Unit) -> Linear:
        """A unit, as an atom."""
        self.units.append(unit)
        return Linear.atom(self.old.inputs + len(self.units) - 1)

    def rewritten(self, form: Linear) -> Linear:
        """A form of the old atoms in terms of the new ones."""
        total = Linear(form.constant, {})
        if all(self.forms[atom].alone is not None for atom in form.terms):
            terms = {self.forms[atom].alone: coefficient for atom, coefficient in form.terms.items()}
            return Linear(form.constant, {k: c for k, c in terms.items() if k is not None})
        for atom, coefficient in form.terms.items():
            total = total.plus(self.forms[atom], coefficient)
        return total

    def quadratic(self, polynomial: Coefficients, argument: Linear, unit: Unit) -> Linear:
        """`a r² t² + (2 a m + b) z + c - a m²`."""
        square, middle, radius = self.square(argument, unit)
        c, b, a = polynomial
        m, r = Interval(middle), Interval(radius)
        result = Linear(c - a * m * m, {}).plus(square, a * r * r)
        slope = a * m * Interval(2.0) + b
        return result if is_number(slope, 0.0) else result.plus(argument, slope)

    def square(self, argument: Linear, unit: Unit) -> tuple[Linear, float, float]:
        """t² with t = (z - m)/r for an argument z, m and r; the first unit that needs it says what the range is."""
        key = argument.key
        if key not in self.squares:
            middle = unit.low / 2 + unit.high / 2
            half = float(np.nextafter(max(unit.high - middle, middle - unit.low), np.inf))
            half = max(half, NARROWEST * abs(middle), SMALLEST)  # of an argument that hardly varies
            radius = float(2.0 ** (int(np.frexp(half)[1]) - 1))  # half < 2 radius
            inner = argument.plus(Linear(Interval(middle), {}), -ONE).scaled(Interval(1 / radius))
            made = self.added(Unit(SQUARE, inner, -WIDEST, WIDEST, unit.text))
            self.squares[key] = made, middle, radius
        return self.squares[key]
