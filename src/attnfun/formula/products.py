"""Products out of functions of one variable [T 7.1].

Factors that do not change sign may go through logarithms, `Π u_i^{k_i} = exp(Σ k_i log u_i)`: one unit a factor and one
for exp, which a function around the product swallows. Other products are quarter squares of centred and scaled factors:
with `u = u_0 + r a`, `v = v_0 + s b`, |a|, |b| <= 1, r and s powers of two,

    u v = u_0 v + v_0 u - u_0 v_0 + (r s/4) ((a + b)² - (a - b)²),

two units that are the square on [-2, 2] in every product of every formula, so they share one bank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from ..arithmetic import Interval
from .atoms import Atoms
from .circuits import ONE, ZERO, Linear
from .composites import Composite, CompositeStep

EXP, LOG, SQUARE = (
    Composite.of("exp", Composite.variable()),
    Composite.of("log", Composite.variable()),
    Composite.of("*", Composite.variable(), Composite.variable()),
)


@dataclass(frozen=True)
class ProductTuning:
    """Which factors go through logarithms."""

    wide: float = 1e6
    """Factors that vary by more than this do not go through logarithms. A round number."""


TUNING = ProductTuning()


@dataclass
class Factor:
    """A base and its exponent in a product."""

    base: Linear
    exponent: Interval
    range: Interval
    """Of the base."""

    @property
    def sign(self) -> int:
        """1 or -1 where the base has one sign, else 0."""
        return int(self.range.lo > 0) - int(self.range.hi < 0)

    @property
    def plain(self) -> bool:
        """Is the exponent 1?"""
        return is_number(self.exponent, 1.0)

    @property
    def narrow(self) -> bool:
        """May it go through logarithms?"""
        ends = np.abs([self.range.lo, self.range.hi])
        return bool(ends.min() > 0 and ends.max() < TUNING.wide * ends.min())


class Products:
    """Products of the atoms of one circuit. `text` says which part of the formula a unit belongs to."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms

    def units_for(self, factors: list[Factor]) -> int:
        """Units that a product by quarter squares needs."""
        raised = (not f.plain or len(self.atoms.support(f.base)[1].steps) > 1 for f in factors)
        return sum(raised) + 2 * (len(factors) - 1)

    def units_by_logarithms(self, factors: list[Factor]) -> int:
        """Units that it needs through logarithms, the one for exp included."""
        return sum(self.atoms.support(f.base)[1] != EXP for f in factors) + 1

    def by_logarithms(self, factors: list[Factor], text: str, size: Interval | None) -> Linear:
        """The product of the absolute values, which lies within `size` if that is known."""
        total = Linear(ZERO, {})
        for factor in factors:
            total = total.plus(self.log(factor.base, text), factor.exponent)
        if size is not None and size.lo > 0 and size.hi < inf:
            self.atoms.learn(total, logarithm(size))
        return self.atoms.unit(EXP, total, text)

    def log(self, base: Linear, text: str) -> Linear:
        """log of a positive base, of a negative one's opposite."""
        if self.atoms.range(base).hi < 0:
            base = base.scaled(-ONE)
        form, function = self.atoms.support(base)
        if function.steps[-1] == CompositeStep("exp", (len(function.steps) - 2,)):
            inner = Composite(function.steps[:-1])
            return form if inner == Composite.variable() else self.atoms.unit(inner, form, text)
        return self.atoms.unit(LOG.after(function), form, text)

    def raised(self, factor: Factor, text: str) -> Linear:
        """base ** exponent."""
        if factor.plain:
            return factor.base
        form, function = self.atoms.support(factor.base)
        return self.atoms.unit(_power(function, factor.exponent), form, text)

    def of(self, parts: list[Linear], text: str) -> Linear:
        """A product, pairs of the shallowest first."""
        if not parts:
            return Linear(ONE, {})
        parts = sorted(parts, key=self.atoms.depth)
        while len(parts) > 1:
            parts = sorted([self._quarter_squares(parts[0], parts[1], text), *parts[2:]], key=self.atoms.depth)
        return parts[0]

    def _quarter_squares(self, u: Linear, v: Linear, text: str) -> Linear:
        """u v by two squares on [-2, 2]."""
        (form, f), (other, g) = self.atoms.support(u), self.atoms.support(v)
        if form.key == other.key:
            return self.atoms.unit(Composite.of("*", f, g), form, text)
        (a, u0, r), (b, v0, s) = self._unit_range(u), self._unit_range(v)
        product = u.scaled(v0).plus(v, u0).plus(Linear(u0 * v0, {}), -ONE)
        for sign in (ONE, -ONE):
            total = a.plus(b, sign)
            self.atoms.learn(total, Interval(-2.0, 2.0))
            square = self.atoms.unit(SQUARE, total, text, Interval(-2.0, 2.0))
            product = product.plus(square, sign * r * s * Interval(0.25))
        self.atoms.learn(product, self.atoms.range(u) * self.atoms.range(v))
        return product

    def _unit_range(self, linear: Linear) -> tuple[Linear, Interval, Interval]:
        """(u - u_0)/r within [-1, 1], u_0, r, the latter a power of two."""
        range_ = self.atoms.range(linear)
        middle = Interval(float(range_.mid))
        radius = float((range_ - middle).magnitude)
        power = int(np.frexp(max(radius, 1e-300))[1])  # radius < 2**power
        return linear.plus(Linear(middle, {}), -ONE).scaled(Interval(2.0**-power)), middle, Interval(2.0**power)


def is_number(range_: Interval, number: float) -> bool:
    """Is it this number and no other?"""
    return bool(range_.lo == number == range_.hi)


def is_whole(range_: Interval) -> bool:
    """Is it one whole number?"""
    return is_number(range_, float(np.round(range_.lo)))


def logarithm(range_: Interval) -> Interval:
    """Of a positive range."""
    return np.log(range_)  # type: ignore[call-overload, return-value]


def _power(function: Composite, exponent: Interval) -> Composite:
    """function ** exponent, squares as products."""
    if is_number(exponent, 2.0):
        return Composite.of("*", function, function)
    if is_number(exponent, -1.0):
        return Composite.of("/", Composite.number(ONE), function)
    return Composite.of("**", function, Composite.number(exponent))
