"""Ranges: intervals whose ends are balls of radius zero, rounded outwards [T 9.1].

A ball of python-flint has a radius of 30 bits, so it cannot say that `x` lies in [0, 1] and is not negative. A range
keeps both ends at the precision of the computation. It holds every value that a function takes on a box where it is
defined; `defined` says that it is defined on the whole box [T 9.2].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import flint
from flint import arb

BITS = 128
INFINITE = arb.pos_inf()
ZERO, ONE = arb(0), arb(1)


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    """Compute with so many bits, and restore the caller's precision afterwards."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def up(ball: arb) -> arb:
    """The upper end of a ball; infinite for a ball about which nothing is known."""
    return INFINITE if ball.is_nan() else ball.upper()


def down(ball: arb) -> arb:
    """The lower end of a ball; minus infinity for a ball about which nothing is known."""
    return -INFINITE if ball.is_nan() else ball.lower()


def size(ball: arb) -> arb:
    """The largest absolute value in a ball."""
    return INFINITE if ball.is_nan() else ball.abs_upper()


def larger(a: arb, b: arb) -> arb:
    """The larger of two numbers of radius zero."""
    return a if a >= b else b


def smaller(a: arb, b: arb) -> arb:
    """The smaller of two numbers of radius zero."""
    return a if a <= b else b


def largest(numbers: Sequence[arb]) -> arb:
    """The largest of numbers of radius zero, 0 if there are none."""
    result = numbers[0] if numbers else ZERO
    for number in numbers[1:]:
        result = larger(result, number)
    return result


def smallest(numbers: Sequence[arb]) -> arb:
    """The smallest of numbers of radius zero."""
    result = numbers[0]
    for number in numbers[1:]:
        result = smaller(result, number)
    return result


@dataclass(frozen=True, eq=False, slots=True)
class Range:
    """All numbers from `low` to `high`.

    >>> (Range.of(arb(-1), arb(2)) * Range.of(arb(3), arb(4))).high
    8.00000000000000
    """

    low: arb
    high: arb
    defined: bool = True

    @classmethod
    def of(cls, low: arb, high: arb, *, defined: bool = True) -> Range:
        """From the lower end of one ball to the upper end of another."""
        return cls(down(low), up(high), defined)

    @classmethod
    def point(cls, ball: arb) -> Range:
        """All numbers of a ball."""
        return cls(down(ball), up(ball))

    @property
    def ball(self) -> arb:
        """A ball that holds the range."""
        return self.low.union(self.high) if self.bounded else arb.nan()

    @property
    def bounded(self) -> bool:
        """Are both ends finite?"""
        return self.low.is_finite() and self.high.is_finite()

    @property
    def most(self) -> arb:
        """The largest absolute value."""
        return larger(abs(self.low), abs(self.high))

    @property
    def least(self) -> arb:
        """The smallest absolute value."""
        return larger(larger(self.low, -self.high), ZERO)

    @property
    def centre(self) -> arb:
        """About the middle."""
        return ((self.low + self.high) / 2).mid()

    def known(self, *others: Range, defined: bool = True) -> Range:
        """The same numbers, defined where this and the others are."""
        return Range(self.low, self.high, self.defined and defined and all(other.defined for other in others))

    def meet(self, low: arb, high: arb) -> Range:
        """What lies in another range too; both hold all values, so either may be dropped if rounding parts them."""
        low, high = larger(self.low, low), smaller(self.high, high)
        return Range(low, high, self.defined) if low <= high else self

    def join(self, other: Range) -> Range:
        """All numbers of both."""
        return Range(smaller(self.low, other.low), larger(self.high, other.high), self.defined and other.defined)

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low, self.defined)

    def __add__(self, other: Range) -> Range:
        return Range(down(self.low + other.low), up(self.high + other.high), self.defined and other.defined)

    def __sub__(self, other: Range) -> Range:
        return self + -other

    def __mul__(self, other: Range) -> Range:
        products = [_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        low, high = down(products[0]), up(products[0])
        for product in products[1:]:
            low, high = smaller(low, down(product)), larger(high, up(product))
        return Range(low, high, self.defined and other.defined)

    def __truediv__(self, other: Range) -> Range:
        if not (other.low > 0 or other.high < 0):
            return Range(-INFINITE, INFINITE, False)
        return self * Range(down(1 / other.high), up(1 / other.low), other.defined)

    def absolute(self) -> Range:
        """|x|."""
        return Range(self.least, self.most, self.defined)

    def extreme(self, other: Range, *, largest: bool) -> Range:
        """The larger or the smaller of two."""
        choose = larger if largest else smaller
        defined = self.defined and other.defined
        return Range(choose(self.low, other.low), choose(self.high, other.high), defined)

    def power(self, exponent: int) -> Range:
        """x^n for a whole n."""
        if exponent < 0:
            return Range(ONE, ONE) / self.power(-exponent)
        base = self.absolute() if exponent % 2 == 0 else self
        return Range(down(base.low**exponent), up(base.high**exponent), self.defined)


def _product(a: arb, b: arb) -> arb:
    """A product of ends; zero times infinity is zero, because the other factor is a number."""
    return ZERO if a.is_zero() or b.is_zero() else a * b
