"""Taylor models: a function on a box as a polynomial with a bound on what it leaves, and its range [T 11.12].

On a box with centre c and half-widths r, with `x = c + r t`, `|t_k| <= 1`, a model says

    f(x) = Σ_{|α| <= m} p_α t^α + δ(x),    |δ(x)| <= rest,    f(x) in range,

p_α being balls that do not depend on x. Sums and products act on all three. A function φ of a model with `p_0 = c`
and `|f - c| <= g` is, by Taylor's theorem with ξ between c and f,

    φ(f) = Σ_{n <= m} φ_n(c) (f - c)^n + φ_{m+1}(ξ) (f - c)^{m+1},

and a quotient N/Z is close to any polynomial q: `|N/Z - q| = |N - q Z| / |Z|`. Where there is no series (a kink, an
edge), a model is the middle of its range with half of its width as the rest. So every function has a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import factorial, prod

from flint import arb

from .functions import function_of
from .ranges import INFINITE, ONE, ZERO, Range, down, larger, size, up

Coefficients = list[arb]


class Space:
    """Polynomials in D variables of degree up to m; coefficients are sorted by degree, then by exponents."""

    def __init__(self, variables: int, order: int) -> None:
        exponents = _exponents(variables, order)
        self.variables, self.order, self.exponents = variables, order, exponents
        place = {each: k for k, each in enumerate(exponents)}
        self.count = len(exponents)
        self.degrees = [sum(each) for each in exponents]
        self.axes = [place[_unit(variables, axis)] for axis in range(variables)] if order else []
        self.factorials = [prod(map(factorial, each)) for each in exponents]
        self.pairs = [
            [(place[part], place[_minus(each, part)]) for part in product(*(range(n + 1) for n in each))]
            for each in exponents
        ]
        self.parents = [_parent(each, place) for each in exponents[1:]]

    def constant(self, value: arb) -> Coefficients:
        """The polynomial with one value."""
        return [value] + [ZERO] * (self.count - 1)

    def affine(self, value: arb, slopes: Sequence[arb]) -> Coefficients:
        """The polynomial with this value and these slopes at the centre; a constant where there is no degree 1."""
        polynomial = self.constant(value)
        for place, slope in zip(self.axes, slopes, strict=False):
            polynomial[place] = slope
        return polynomial

    def exponential(self, slopes: Sequence[arb]) -> Coefficients:
        """Coefficients of `e^{a·t}`: `a^α / α!`."""
        powers = [ONE]
        for parent, axis in self.parents:
            powers.append(powers[parent] * slopes[axis])
        return [power / number for power, number in zip(powers, self.factorials, strict=True)]

    def multiply(self, f: Coefficients, g: Coefficients) -> Coefficients:
        """Coefficients of the product up to degree m."""
        return [total([f[i] * g[j] for i, j in pairs]) for pairs in self.pairs]

    def divide(self, f: Coefficients, g: Coefficients) -> Coefficients:
        """Coefficients of the quotient, one after the other, from `q g = f`."""
        quotient: Coefficients = []
        for k, pairs in enumerate(self.pairs):
            known = total([quotient[i] * g[j] for i, j in pairs if i != k])
            quotient.append((f[k] - known) / g[0])
        return quotient

    def by_degree(self, polynomial: Coefficients) -> list[arb]:
        """The sum of absolute coefficients of each degree."""
        sums = [ZERO] * (self.order + 1)
        for degree, coefficient in zip(self.degrees, polynomial, strict=True):
            sums[degree] = up(sums[degree] + size(coefficient))
        return sums


@lru_cache
def space(variables: int, order: int) -> Space:
    """The polynomials, made once."""
    return Space(variables, order)


@dataclass(frozen=True, eq=False)
class Model:
    """A function on a box."""

    space: Space
    polynomial: Coefficients
    rest: arb
    natural: Range
    """Its range as found from the ranges of what it is made of."""

    @classmethod
    def ranging(cls, space: Space, range_: Range) -> Model:
        """Any function with this range."""
        if not range_.bounded:
            return cls(space, space.constant(ZERO), INFINITE, range_)
        centre = range_.centre
        return cls(space, space.constant(centre), larger(up(range_.high - centre), up(centre - range_.low)), range_)

    @classmethod
    def constant(cls, space: Space, value: arb) -> Model:
        """A number."""
        return cls(space, space.constant(value), ZERO, Range.point(value))

    @cached_property
    def by_degree(self) -> list[arb]:
        """The sum of absolute coefficients of each degree."""
        return self.space.by_degree(self.polynomial)

    @cached_property
    def reach(self) -> arb:
        """How far values may be from the value of the polynomial at the centre."""
        return up(total(self.by_degree[1:]) + self.rest)

    @cached_property
    def range(self) -> Range:
        """Its range, from both."""
        centre = self.polynomial[0]
        return self.natural.meet(down(centre - self.reach), up(centre + self.reach))

    def __neg__(self) -> Model:
        return Model(self.space, [-a for a in self.polynomial], self.rest, -self.natural)

    def __add__(self, other: Model) -> Model:
        polynomial = [a + b for a, b in zip(self.polynomial, other.polynomial, strict=True)]
        return Model(self.space, polynomial, up(self.rest + other.rest), self.range + other.range)

    def __sub__(self, other: Model) -> Model:
        polynomial = [a - b for a, b in zip(self.polynomial, other.polynomial, strict=True)]
        return Model(self.space, polynomial, up(self.rest + other.rest), self.range - other.range)

    def shifted(self, number: arb) -> Model:
        """The function plus a number."""
        polynomial = [self.polynomial[0] + number, *self.polynomial[1:]]
        return Model(self.space, polynomial, self.rest, self.natural + Range.point(number))

    def scaled(self, factor: arb) -> Model:
        """The function times a number."""
        polynomial = [factor * a for a in self.polynomial]
        return Model(self.space, polynomial, _times(size(factor), self.rest), self.natural * Range.point(factor))

    def __mul__(self, other: Model) -> Model:
        polynomial = self.space.multiply(self.polynomial, other.polynomial)
        order, mine, theirs = self.space.order, self.by_degree, other.by_degree
        beyond = total([_times(mine[i], theirs[j]) for i in range(order + 1) for j in range(order + 1 - i, order + 1)])
        rest = beyond + _times(up(total(mine)), other.rest) + _times(up(total(theirs) + other.rest), self.rest)
        return self._within(polynomial, up(rest), self.range * other.range)

    def __truediv__(self, other: Model) -> Model:
        range_ = self.range / other.range
        if not range_.bounded:
            return Model.ranging(self.space, range_)
        near = Range(-INFINITE, INFINITE)  # the polynomial q takes values that N/Z does not
        quotient = Model(self.space, self.space.divide(self.polynomial, other.polynomial), ZERO, near)
        left = self - quotient * other
        rest = up((size(left.polynomial[0]) + left.reach) / other.range.least)
        return self._within(quotient.polynomial, rest, range_)

    def after(self, name: str) -> Model:
        """An elementary function of this one."""
        function, order, centre = function_of(name), self.space.order, self.polynomial[0]
        range_ = function.range_(self.range)
        if not (range_.bounded and self.reach.is_finite()):
            return Model.ranging(self.space, range_)
        beyond = size(function.series(self.range.ball.union(centre), order + 1)[-1])
        outer = function.series(centre, order)
        if not (beyond.is_finite() and all(each.is_finite() for each in outer)):
            return Model.ranging(self.space, range_)
        inner = Model(self.space, [ZERO, *self.polynomial[1:]], self.rest, Range.of(-self.reach, self.reach))
        result = Model.constant(self.space, outer[-1])
        for coefficient in reversed(outer[:-1]):
            result = (result * inner).shifted(coefficient)
        return self._within(result.polynomial, up(result.rest + beyond * self.reach ** (order + 1)), range_)

    def extreme(self, other: Model, *, largest: bool) -> Model:
        """The larger or the smaller of two functions: one of them where the order is certain, else known by its range.

        With `d = f - g`, the larger one is `g + max(d, 0)`, and max(d, 0) is known to lie in a range.
        """
        difference = self - other
        if difference.range.low >= 0 or difference.range.high <= 0:
            first = bool(difference.range.low >= 0) == largest
            chosen = self if first else other
            return Model(self.space, chosen.polynomial, chosen.rest, chosen.range.known(self.range, other.range))
        nothing = Range(ZERO, ZERO, difference.range.defined)
        part = Model.ranging(self.space, difference.range.extreme(nothing, largest=largest))
        range_ = self.range.extreme(other.range, largest=largest)
        result = other + part
        return Model(self.space, result.polynomial, result.rest, range_)

    def power(self, exponent: int) -> Model:
        """A whole power."""
        if exponent < 0:
            return Model.constant(self.space, ONE) / self.power(-exponent)
        result, square, left = Model.constant(self.space, ONE), self, exponent
        while left:
            if left & 1:
                result = result * square
            left >>= 1
            if left:
                square = square * square
        range_ = self.range.power(exponent)
        return self._within(result.polynomial, result.rest, range_.meet(result.range.low, result.range.high))

    def _within(self, polynomial: Coefficients, rest: arb, range_: Range) -> Model:
        """A model, or that of its range alone where that is closer."""
        result = Model(self.space, polynomial, rest, range_)
        if not (rest.is_finite() and all(a.is_finite() for a in polynomial)):
            return Model.ranging(self.space, range_)
        return result if rest <= up(range_.high - range_.low) else Model.ranging(self.space, result.range)


def total(terms: Sequence[arb]) -> arb:
    """Sum of balls."""
    return sum(terms, ZERO)


def weighted(numbers: Sequence[arb], models: Sequence[Model], constant: arb, space_: Space) -> Model:
    """`Σ_k a_k f_k + constant`."""
    pairs = [(a, f) for a, f in zip(numbers, models, strict=True) if not a.is_zero()]
    polynomial = space_.constant(constant)
    rest, range_ = ZERO, Range.point(constant)
    for a, f in pairs:
        polynomial = [p + (ZERO if c.is_zero() else a * c) for p, c in zip(polynomial, f.polynomial, strict=True)]
        rest = up(rest + _times(size(a), f.rest))
        range_ = range_ + f.range * Range.point(a)
    return Model(space_, polynomial, rest, range_)


def _times(a: arb, b: arb) -> arb:
    """A product of sizes; nothing times infinity is nothing."""
    return ZERO if a.is_zero() or b.is_zero() else up(a * b)


def _exponents(variables: int, order: int) -> list[tuple[int, ...]]:
    """All exponents of degree up to `order`, sorted by degree."""
    found: list[tuple[int, ...]] = [(0,) * variables]
    level = found
    for _ in range(order):
        level = sorted(
            {tuple(n + (k == axis) for k, n in enumerate(each)) for each in level for axis in range(variables)}
        )
        found = found + level
    return found


def _unit(variables: int, axis: int) -> tuple[int, ...]:
    return tuple(int(k == axis) for k in range(variables))


def _minus(exponents: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(exponents, part, strict=True))


def _parent(exponents: tuple[int, ...], place: dict[tuple[int, ...], int]) -> tuple[int, int]:
    """A monomial as an earlier one times one variable: (its place, the variable)."""
    axis = next(k for k, power in enumerate(exponents) if power)
    return place[tuple(power - (k == axis) for k, power in enumerate(exponents))], axis
