"""The rule `tails`: how large a formula is in L_p on a box on which it is not bounded [T 3.7, 11.14].

Every step of the formula is, wherever it is defined, at most a sum of products `G Π|u_i|^{e_i}` and at least one such
product; the *factors* u_i are steps themselves, those that are taken as they are. Products, quotients and powers of
bounds are bounds, in a sum of terms that are not negative `Σ u_i >= Π (u_i/θ_i)^{θ_i}`, and
`|log u| <= (u^s + u^{-s})/(e s)`. Where a factor has a slope along an axis, the p-mean of `|u|^{-a}` is bounded if
`ap < 1`.

>>> import numpy as np
>>> from attnfun.judge.ranges import precision
>>> steps, outputs = formula.read("1/sqrt(x)", ("x",))
>>> with precision():
...     print(p_mean(steps, outputs, Box(np.zeros(1), np.ones(1)), 1.0)[0].str(5, radius=False))
2.0000
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from math import ceil

from flint import arb, fmpq

from . import formula
from .covers import Box
from .formula import Step
from .models import space, total
from .ranges import INFINITE, ONE, ZERO, Range, down, smaller, smallest, up
from .slopes import slopes_along

ROOTS = {"sqrt": Fraction(1, 2), "cbrt": Fraction(1, 3)}
LOGARITHMS = {"log": None, "log2": 2, "log10": 10}
"""Their bases, e where there is none."""


@dataclass(frozen=True)
class TailLimits:
    """How large products are, and where they are cut."""

    small_powers: tuple[int, ...] = (8, 64, 1024)
    """Logarithms are bounded by powers 1/8, 1/64 and 1/1024, over p; the smallest bound counts. By trial."""
    most_terms: int = 32
    """A sum of more products has no bound. For time."""
    most_poles: int = 6
    """A product of more factors with negative exponents has no bound. For time: all sets of them are tried."""
    near: tuple[float, ...] = (0.0, 1 / 64, 1.0)
    """A factor is integrated along an axis where it is as small as this share of its largest value; the best one
    counts. By trial."""
    most_ordered: int = 4
    """All orders of so many axes are tried; of more axes only one. For time: the orders grow as the factorial."""
    most_exponent: int = 500
    """Of powers of sums. For time."""


TUNING = TailLimits()


@dataclass(frozen=True)
class Product:
    """`G Π|u_i|^{e_i}`, the u_i steps by their numbers: a bound from above or from below."""

    size: arb
    """G >= 0; infinite if nothing is known from above, zero if nothing is known from below."""
    powers: dict[int, Fraction]
    above: bool = True

    def __mul__(self, other: Product) -> Product:
        """The product of two bounds of one kind."""
        powers = {k: self.powers.get(k, Fraction(0)) + e for k, e in other.powers.items()}
        powers = {k: e for k, e in {**self.powers, **powers}.items() if e}
        return Product(_rounded(self.size * other.size, self.above), powers, self.above)

    def inverse(self) -> Product:
        """A bound on the reciprocal: from above if this is one from below, and the other way round."""
        size = _rounded(1 / self.size, not self.above) if self.size > 0 else INFINITE if not self.above else ZERO
        return Product(size, {k: -e for k, e in self.powers.items()}, not self.above)

    def to_the(self, exponent: Fraction) -> Product:
        """A power with an exponent above zero."""
        size = _rounded(_power(self.size, exponent), self.above)
        return Product(size, {k: exponent * e for k, e in self.powers.items()}, self.above)

    def scaled(self, factor: arb) -> Product:
        """The product times a number above zero."""
        return Product(_rounded(self.size * factor, self.above), self.powers, self.above)


def _rounded(ball: arb, above: bool) -> arb:
    """An end of a ball of a number that is not negative; nothing is known of what is no number."""
    if above:
        return up(ball) if ball.is_finite() else INFINITE
    return down(ball) if ball.is_finite() and ball > 0 else ZERO


def _power(base: arb, exponent: Fraction) -> arb:
    """`base^exponent` of a number that is not negative, for an exponent above zero."""
    if base.is_zero() or not base.is_finite():
        return base
    return base ** arb(fmpq(exponent.numerator, exponent.denominator))


@dataclass(frozen=True)
class Size:
    """What is known of one step on a box, wherever it is defined."""

    upper: list[Product]
    """Their sum is at least its absolute value."""
    lower: Product
    """At most its absolute value."""
    positive: bool
    """Is it surely at least 0?"""
    defined: bool
    """Is it surely defined but for a set of volume 0, if the upper bound is finite?"""


UNKNOWN, NOTHING = Product(INFINITE, {}), Product(ZERO, {}, above=False)


def p_mean(steps: Sequence[Step], outputs: Sequence[int], box: Box, p: float) -> tuple[arb, bool]:
    """At most `(∫ Σ_i |f_i|^p / volume)^{1/p}` over a box, and whether f is defined there but for a set of volume 0."""
    best, defined, power = INFINITE, False, Fraction(p)
    for sizes in _ways(steps, box, power):
        means = [sizes.mean(number) for number in outputs]
        if len(means) == 1 or not all(mean.is_finite() for mean in means):
            whole = up(total(means))
        else:
            whole = up(_power(up(total([_power(mean, power) for mean in means])), 1 / power))
        best, defined = smaller(best, whole), defined or all(sizes.known[number].defined for number in outputs)
    return best, defined


def _ways(steps: Sequence[Step], box: Box, p: Fraction) -> Iterator[_Sizes]:
    """The bounds with small and with large powers for logarithms, with sums taken apart and as they are."""
    variables = box.variables(space(len(box.low), 1))
    ranges = [model.range for model in formula.evaluate(steps, range(len(steps)), variables)]
    slopes = [slopes_along(axis, steps, ranges) for axis in range(len(box.low))]
    logarithms = any(kind in LOGARITHMS for kind, _, _ in steps)
    for small in TUNING.small_powers if logarithms else TUNING.small_powers[:1]:
        for apart in (True, False) if any(kind == "+" for kind, _, _ in steps) else (True,):
            yield _Sizes(steps, ranges, slopes, box, p, Fraction(1, small * ceil(p)), apart)


class _Sizes:
    """Bounds on every step of a formula on a box."""

    def __init__(
        self, steps: Sequence[Step], ranges: list[Range], slopes: list[list[Range]], box: Box, p: Fraction,
        small: Fraction, apart: bool,
    ) -> None:  # fmt: skip
        self.steps, self.ranges, self.slopes, self.box, self.p = steps, ranges, slopes, box, p
        self.small, self.apart = small, apart
        self.known, self.singular = list[Size](), list[bool]()
        self.depends, self.exact = list[frozenset[int]](), list[Fraction | None]()
        for number, (kind, args, value) in enumerate(steps):
            own = frozenset({value}) if kind == "variable" and isinstance(value, int) else frozenset[int]()
            self.depends.append(own.union(*(self.depends[k] for k in args)))
            self.exact.append(formula.exact(kind, [self.exact[k] for k in args], value))
            self.singular.append(self._may_be_unbounded(kind, args))
            size = self._sized(number, kind, args)
            self.known.append(replace(size, positive=size.positive or bool(self.ranges[number].low >= 0)))

    def _may_be_unbounded(self, kind: str, args: tuple[int, ...]) -> bool:
        """Is there a pole in it, as far as the kinds of operations tell?"""
        divides = kind == "/" and bool(self.depends[args[1]])
        raises = kind == "**" and not self.ranges[args[1]].low >= 0
        return divides or raises or kind in LOGARITHMS or any(self.singular[k] for k in args)

    def _sized(self, number: int, kind: str, args: tuple[int, ...]) -> Size:
        of, range_ = [self.known[k] for k in args], self.ranges[number]
        if not self.depends[number] and range_.bounded:
            return Size([Product(range_.most, {})], Product(range_.least, {}, above=False), False, range_.defined)
        match kind, of:
            case "neg", [a]:
                return Size(a.upper, a.lower, False, a.defined)
            case "abs", [a]:
                return Size(a.upper, a.lower, True, a.defined)
            case "*", [a, b]:
                return _product(a, b)
            case "/", [a, b]:
                return _product(a, self._reciprocal(b))
            case "sqrt" | "cbrt", [a]:
                real = kind == "cbrt"  # of negative numbers too
                root = _powered(a, ROOTS[kind], real or a.positive)
                return Size(root.upper, root.lower, a.positive or not real, root.defined)
            case "**", [a, _] if self.exact[args[1]]:
                return self._constant_power(a, self.exact[args[1]] or Fraction(0))
            case "log" | "log2" | "log10", [a]:
                return self._logarithm(kind, a)
            case "+" | "-", [a, b] if self.singular[number] or (kind == "+" and self.apart):
                return self._sum(number, kind, a, b)
            case ("min" | "max", [a, b]) | ("where", [_, a, b]) if self.singular[number]:
                sure = kind != "where" or self.ranges[args[0]].defined
                upper = _few([*a.upper, *b.upper])
                return Size(upper, NOTHING, a.positive and b.positive, a.defined and b.defined and sure)
        return self._itself(number)

    def _itself(self, number: int) -> Size:
        """A step that is taken as it is: a factor."""
        factor = {number: Fraction(1)}
        return Size([Product(ONE, factor)], Product(ONE, factor, above=False), False, self.ranges[number].defined)

    def _reciprocal(self, a: Size) -> Size:
        """From below only what one product is above."""
        lower = a.upper[0].inverse() if len(a.upper) == 1 else NOTHING
        return Size([a.lower.inverse()], lower, a.positive, a.defined and self._almost_nowhere_zero(a.lower))

    def _almost_nowhere_zero(self, lower: Product) -> bool:
        """Is what is above this product zero on a set of volume 0 only? Where each factor has a slope."""
        factors = [k for k, e in lower.powers.items() if e > 0]
        return bool(lower.size > 0) and all(
            not self._vanishes(k) or any(self._slope(k, axis) > 0 for axis in range(len(self.slopes))) for k in factors
        )

    def _constant_power(self, a: Size, exponent: Fraction) -> Size:
        """A power with a known exponent other than zero."""
        whole = exponent.denominator == 1
        inner = a if exponent > 0 else self._reciprocal(a)
        powered = _powered(inner, abs(exponent), whole or a.positive)
        even = not whole or exponent.numerator % 2 == 0
        return Size(powered.upper, powered.lower, powered.positive or even, powered.defined)

    def _logarithm(self, kind: str, a: Size) -> Size:
        """`|log u| <= (u^s + u^{-s})/(e s)`."""
        base = LOGARITHMS[kind]
        scale = self.small.denominator / (ONE.exp() * (arb(base).log() if base else ONE))
        grows, falls = _powered(a, self.small, True).upper, a.lower.inverse().to_the(self.small)
        upper = _few([each.scaled(scale) for each in (*grows, falls)])
        defined = a.defined and a.positive and self._almost_nowhere_zero(a.lower)
        return Size(upper, NOTHING, False, defined)

    def _sum(self, number: int, kind: str, a: Size, b: Size) -> Size:
        """The sum of both bounds, or as it is where it has no pole; from below the mean of terms that may vanish."""
        itself = self._itself(number)
        upper = _few([*a.upper, *b.upper]) if self.singular[number] else itself.upper
        terms = self._terms(number) if kind == "+" and self.apart else []
        vanishing = [k for k in terms if any(e > 0 for e in self.known[k].lower.powers.values())]
        apart = len(vanishing) > 1 and all(self.known[k].positive for k in terms)
        lower = self._mean_below(vanishing) if apart else itself.lower
        positive = kind == "+" and a.positive and b.positive  # differences may be negative
        return Size(upper, lower, positive, a.defined and b.defined)

    def _terms(self, number: int) -> list[int]:
        kind, args, _ = self.steps[number]
        return [k for arg in args for k in self._terms(arg)] if kind == "+" else [number]

    def _mean_below(self, terms: list[int]) -> Product:
        """`Σ u_i >= Π (u_i/θ_i)^{θ_i}`, the weights in inverse proportion to the exponents."""
        shares = [1 / max(self.known[k].lower.powers.values()) for k in terms]
        product = Product(ONE, {}, above=False)
        for k, share in zip(terms, shares, strict=True):
            weight = share / sum(shares)
            inverse = arb(fmpq(weight.denominator, weight.numerator))
            product = product * self.known[k].lower.scaled(inverse).to_the(weight)
        return product

    def mean(self, number: int) -> arb:
        """The p-mean of a step over the box, at most."""
        return up(total([self._mean_of(term) for term in self.known[number].upper]))

    def _mean_of(self, term: Product) -> arb:
        """The p-mean of a product: factors that are far from zero on the box may count with their largest value.

        What is far is a choice that the bound does not rest on: all of `NEAR` are tried.
        """
        size, poles = up(term.size), {k: -e for k, e in term.powers.items() if e < 0}
        for k, e in term.powers.items():
            size = _times(size, up(_power(self.ranges[k].most, e))) if e > 0 else size
        if len(poles) > TUNING.most_poles:
            return INFINITE
        return smallest(
            [self._with_near(size, poles, {k for k in poles if self._near(k, share)}) for share in TUNING.near]
        )

    def _with_near(self, size: arb, poles: dict[int, Fraction], near: set[int]) -> arb:
        """The p-mean of `G Π|u_i|^{-a_i}`: factors that are near zero are integrated, others have their least value."""
        for k in poles.keys() - near:
            size = _times(size, up(1 / _power(self.ranges[k].least, poles[k])))
        return _times(size, self._integrated({k: poles[k] for k in near}))

    def _near(self, number: int, share: float) -> bool:
        """Is a factor zero somewhere on the box, or as small as this share of its largest value?"""
        range_ = self.ranges[number]
        return self._vanishes(number) or bool(range_.least <= share * range_.most)

    def _integrated(self, poles: dict[int, Fraction]) -> arb:
        """The p-mean of `Π|u_i|^{-a_i}`, axis by axis in the best order [T 3.7]."""
        if not poles:
            return ONE
        axes = sorted(frozenset[int]().union(*(self.depends[k] for k in poles)))
        if any(not self.depends[k] for k in poles):
            return INFINITE
        means = list[arb]()
        for order in permutations(axes) if len(axes) <= TUNING.most_ordered else [tuple(axes)]:
            mean, left = ONE, dict(poles)
            for axis in order:
                here = {k: left.pop(k) for k in list(left) if axis in self.depends[k]}
                mean = _times(mean, self._along(axis, here))
            means.append(mean)
        return smallest(means)

    def _along(self, axis: int, poles: dict[int, Fraction]) -> arb:
        """`Π (c_i w/m_i)^{-a_i} (1 - S)^{-1/p}` with `S = p Σ a_i`, m_i one for a factor of one sign and else two."""
        room = 1 - self.p * sum(poles.values(), Fraction(0))
        if not poles or room <= 0:
            return ONE if not poles else INFINITE
        mean = up(1 / _power(arb(fmpq(room.numerator, room.denominator)), 1 / self.p))
        width = arb(float(self.box.high[axis])) - arb(float(self.box.low[axis]))
        for k, exponent in poles.items():
            range_ = self.ranges[k]
            sides = 1 if range_.low >= 0 or range_.high <= 0 else 2
            change = down(self._slope(k, axis) * width / sides)
            mean = _times(mean, up(1 / _power(change, exponent))) if change > 0 else INFINITE
        return mean

    def _vanishes(self, number: int) -> bool:
        """May a factor be zero on the box?"""
        return not (self.ranges[number].low > 0 or self.ranges[number].high < 0)

    def _slope(self, number: int, axis: int) -> arb:
        """The least slope of a factor along an axis; 0 where nothing is known."""
        return self.slopes[axis][number].least if self.ranges[number].defined else ZERO


def _times(a: arb, b: arb) -> arb:
    """A product of upper bounds; what is unknown stays unknown."""
    return up(a * b) if a.is_finite() and b.is_finite() else INFINITE


def _product(a: Size, b: Size) -> Size:
    upper = _few([one * other for one in a.upper for other in b.upper])
    return Size(upper, a.lower * b.lower, a.positive and b.positive, a.defined and b.defined)


def _powered(a: Size, exponent: Fraction, room: bool) -> Size:
    """A power with an exponent above zero, defined where there is room; `(Σ m_i)^q <= n^{max(⌈q⌉-1, 0)} Σ m_i^q`."""
    if len(a.upper) > 1 and exponent > TUNING.most_exponent:
        return Size([UNKNOWN], NOTHING, a.positive, a.defined and room)
    more = arb(len(a.upper)) ** max(ceil(exponent) - 1, 0)
    upper = [each.to_the(exponent).scaled(more) for each in a.upper]
    return Size(upper, a.lower.to_the(exponent), a.positive, a.defined and room)


def _few(terms: list[Product]) -> list[Product]:
    """As many terms as are looked at; too many are no bound."""
    return terms if len(terms) <= TUNING.most_terms else [UNKNOWN]
