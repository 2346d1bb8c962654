"""How large a formula is in L_p on a box on which it is not bounded: majorants by powers of its factors [T 3.7].

Every operation is bounded, wherever it is defined, from above by a sum of products `G Π|u_i|^{e_i}` and from below by
one such product. The *factors* u_i are operations of the formula itself, those that are taken as they are: a variable,
`x - 0.3`, `sin(x)`. The exponents are fractions, the same on all boxes. Products, quotients and powers of bounds are
bounds; in a sum of terms that are not negative, `Σ u_i >= Π (u_i/θ_i)^{θ_i}` for weights θ_i that add up to one; and
`|log u| <= (u^s + u^{-s})/(e s)` for every s > 0.

A factor whose slope along an axis is at least c there has `|u|^{-a}` bounded in L_p by what `|c x|^{-a}` has, if
`a p < 1` [T 3.7]; the axes are integrated one after the other. So `1/sqrt(x**2 + y**2)` is at most
`(2 |x| |y|)**(-1/2)`, which is integrable with every power p below 2.

>>> from attnfun.formula.parser import parse
>>> program, box = parse("1/sqrt(x)", ("x",)), Interval([[0.0]], [[1.0]])
>>> p_means(program, box, box, 1.0)[0].round(3), p_means(program, box, box, 2.0)[0]  # the mean is 2
(array([2.]), array([inf]))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import combinations, permutations
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, directed
from ..arithmetic.functions import absolute, power
from ..arithmetic.jets import variables
from ..arithmetic.norms import together
from .program import Program, ProgramNode

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ROOTS = {"sqrt": Fraction(1, 2), "cbrt": Fraction(1, 3)}
LOGARITHMS = {"log": Fraction(1), "log2": Fraction(14427, 10000), "log10": Fraction(4343, 10000)}
"""What |log u| is multiplied by, rounded up."""
CHOICES = ("min", "max", "where")
OVER_E = Fraction(3679, 10000)
"""1/e, rounded up."""


@dataclass(frozen=True)
class MajorantTuning:
    """How large the products are that are bounded factor by factor."""

    largest_exponent: int = 500
    """Of powers of sums. For time."""
    small_powers: tuple[int, ...] = (8, 64, 1024)
    """Logarithms are bounded by powers 1/8, 1/64 and 1/1024, over p; the smallest bound counts. By trial."""
    most_terms: int = 32
    """A sum of more products has no bound. For time."""
    most_poles: int = 6
    """A product of more factors with negative exponents has no bound. For time: all sets of them are tried."""
    most_ordered: int = 5
    """All orders of so many axes are tried; of more axes only one. For time: the orders grow as the factorial."""


TUNING = MajorantTuning()


@dataclass(frozen=True, eq=False)
class PowerProduct:
    """`G Π|u_i|^{e_i}`, the u_i operations of a program by their numbers."""

    size: Floats  # (B,), G >= 0
    powers: dict[int, Fraction]

    def times(self, other: PowerProduct, up: bool) -> PowerProduct:
        """The product, its number rounded up or down."""
        size = directed.multiply(self.size, other.size)[up]
        powers = {
            number: total
            for number in self.powers | other.powers
            if (total := self.powers.get(number, Fraction(0)) + other.powers.get(number, Fraction(0)))
        }
        return PowerProduct(_number(size, up), powers)

    def inverse(self, up: bool) -> PowerProduct:
        """Its reciprocal: an upper bound from a lower one, and the other way round."""
        with np.errstate(all="ignore"):
            size = directed.divide(np.ones_like(self.size), self.size)[up]
        size = np.where(self.size == 0, inf, np.where(np.isinf(self.size), 0.0, size))
        return PowerProduct(size, {number: -exponent for number, exponent in self.powers.items()})

    def to_the(self, exponent: Fraction, up: bool) -> PowerProduct:
        """A power with an exponent above zero."""
        size = power(Interval(self.size), _enclosed(exponent))
        ends = size.hi if up else np.maximum(size.lo, 0.0)
        return PowerProduct(_number(ends, up), {number: exponent * each for number, each in self.powers.items()})


@dataclass(frozen=True, eq=False)
class OperationSize:
    """What is known of one operation on boxes, wherever it is defined."""

    upper: tuple[PowerProduct, ...]
    """The sum of these is at least its absolute value; none if nothing is known."""
    lower: PowerProduct
    """At most its absolute value."""
    positive: Flags  # (B,), is it surely at least 0?
    defined: Flags  # (B,), is it surely defined but for a set of volume 0, if the upper bound is finite?


def p_means(program: Program, domain: Interval, boxes: Interval, p: float) -> tuple[Floats, Flags]:
    """Bounds on `(∫ max_i |f_i|^p / volume)^{1/p}` over boxes (B, D), inf where there is none, (B,).

    And whether the formula is surely defined on the whole box but for a set of volume zero, (B,). The domain, (1, D),
    says which terms are not negative.
    """
    best, defined = np.full(len(boxes), inf), np.zeros(len(boxes), dtype=bool)
    for sizes in _ways(program, domain, boxes, p):
        means = np.stack([sizes.mean(number, p) for number in program.outputs])  # (m, B)
        mean = together(means, p)  # (B,)
        best = np.minimum(best, mean)
        defined |= np.isfinite(mean) & np.all([sizes[number].defined for number in program.outputs], axis=0)
    return best, defined


def why_not_integrable(program: Program, domain: Interval, box: Interval, p: float) -> str:
    """Which factor, with which exponent, is in the way of a bound on a box (1, D), in words; "" if none is known to."""
    reason = ""
    for sizes in _ways(program, domain, box, p):
        for number in program.outputs:
            for term in sizes[number].upper:
                active = {k: -e for k, e in term.powers.items() if e < 0 and sizes.vanishes(k)[0]}
                if not active:
                    continue
                worst = max(active, key=lambda k: active[k])
                factor, power = repr(program.text(program.nodes[worst])), f"{float(active[worst]):.6g}"
                reason = f"where {factor} is zero it may grow like that to the power -{power}"
                if active[worst] * Fraction(p) >= 1:
                    return f"{reason}, and {power} times p = {p:g} must be below 1"
                reason = f"{reason}, and no slope of {factor} away from zero is known there"
                if len(active) > 1 and active[worst] * Fraction(p) < 1:
                    every = " and ".join(
                        f"{program.text(program.nodes[k])!r} (-{float(active[k]):.6g})" for k in active
                    )
                    reason = f"powers of {every} meet, too many for p = {p:g}"
    return reason


def _ways(program: Program, domain: Interval, boxes: Interval, p: float) -> Iterator[_Sizes]:
    """The bounds with small and with large powers for logarithms, with sums taken apart and as they are.

    A minimum of a pole and a number, say, is bounded: such choices are factors of their own, too, if they are finite.
    """
    steps, whole = program.ranges(boxes), program.ranges(domain)
    has_logarithm = any(node.kind in LOGARITHMS for node in program.nodes)
    apart = any(node.kind in ("+", "max") for node in program.nodes)
    for small in TUNING.small_powers[: None if has_logarithm else 1]:
        for sums in (True, False)[: None if apart else 1]:
            for chosen in (False, True)[: 2 if any(node.kind in CHOICES for node in program.nodes) else 1]:
                yield _Sizes(program, steps, whole, boxes, Fraction(1, small * ceil(p)), sums, chosen)


class _Sizes(list[OperationSize]):
    """Bounds on every operation of a program on boxes (B, D)."""

    def __init__(
        self,
        program: Program,
        steps: list[Interval],
        whole: list[Interval],
        boxes: Interval,
        small: Fraction,
        sums_apart: bool,
        choices_alone: bool,
    ) -> None:
        super().__init__()
        self.program, self.steps, self.whole, self.boxes = program, steps, whole, boxes
        self.small, self.sums_apart, self.choices_alone = small, sums_apart, choices_alone
        self.singular, self.depends = list[bool](), list[frozenset[int]]()
        self._slopes: dict[int, Floats] = {}
        for number, node in enumerate(program.nodes):
            own = frozenset({int(node.value)}) if node.kind == "variable" else frozenset[int]()
            self.depends.append(own.union(*(self.depends[k] for k in node.args)))
            self.singular.append(self._may_be_unbounded(node))
            self.append(self._sized(number, node))

    def _may_be_unbounded(self, node: ProgramNode) -> bool:
        """Is there a pole in it, as far as the kinds of operations tell?"""
        divides = node.kind == "/" and bool(self.depends[node.args[1]])
        raises = node.kind == "**" and not self.steps[node.args[1]].lo.min() >= 0
        poles = divides or raises or node.kind in LOGARITHMS
        return poles or any(self.singular[k] for k in node.args)

    def _sized(self, number: int, node: ProgramNode) -> OperationSize:
        args = node.args
        if node.kind == "constant":
            return self._constant(self.steps[number])
        if node.kind in ("neg", "abs"):
            inner, kept = self[args[0]], self._positive(number)
            return OperationSize(inner.upper, inner.lower, kept | (node.kind == "abs"), inner.defined)
        if node.kind == "*":
            return self._product(*(self[k] for k in args))
        if node.kind == "/":
            return self._product(self[args[0]], self._reciprocal(self[args[1]]))
        if node.kind in ROOTS:
            root = self._power(self[args[0]], ROOTS[node.kind], self._room(args[0]))
            real = node.kind == "cbrt"  # of negative numbers too
            return OperationSize(
                root.upper, root.lower, root.positive | (not real), root.defined | (real & self[args[0]].defined)
            )
        if node.kind == "**" and not self.depends[args[1]]:
            return self._constant_power(number, *args)
        if node.kind in LOGARITHMS:
            return self._logarithm(number, self[args[0]], LOGARITHMS[node.kind])
        if node.kind in ("+", "-") and (self.singular[number] or self._apart(number)):
            return self._sum(number, *(self[k] for k in args))
        if self.choices_alone and node.kind in CHOICES and np.isfinite(self.steps[number].magnitude).all():
            return self._itself(number)
        if node.kind in ("min", "max") and self.singular[number]:
            return self._either(number, *(self[k] for k in args))
        if node.kind == "where" and self.singular[number]:
            either = self._either(number, *(self[k] for k in args[1:]))
            return OperationSize(either.upper, either.lower, either.positive, either.defined & self._flag(args[0]))
        return self._itself(number)

    # ------------------------------------------------------------ operations

    def _itself(self, number: int) -> OperationSize:
        """An operation that is taken as it is: a factor."""
        factor = PowerProduct(np.ones(len(self.boxes)), {number: Fraction(1)})
        return OperationSize((factor,), factor, self._positive(number), self._flag(number))

    def _constant(self, value: Interval) -> OperationSize:
        size = absolute(value)
        upper, lower = (PowerProduct(np.full(len(self.boxes), float(end)), {}) for end in (size.hi, size.lo))
        every = np.ones(len(self.boxes), dtype=bool)
        return OperationSize((upper,), lower, every & bool(value.lo >= 0), every)

    def _product(self, a: OperationSize, b: OperationSize) -> OperationSize:
        upper = _few(tuple(one.times(other, up=True) for one in a.upper for other in b.upper), self.boxes)
        return OperationSize(upper, a.lower.times(b.lower, up=False), a.positive & b.positive, a.defined & b.defined)

    def _reciprocal(self, a: OperationSize) -> OperationSize:
        """From below only what one product is above."""
        lower = a.upper[0].inverse(up=False) if len(a.upper) == 1 else self._nothing
        return OperationSize(
            (a.lower.inverse(up=True),), lower, a.positive, a.defined & self._almost_nowhere_zero(a.lower)
        )

    def _almost_nowhere_zero(self, lower: PowerProduct) -> Flags:
        """Is what is above this product zero on a set of volume 0 only, (B,)? Where each factor has a slope."""
        sure = lower.size > 0
        for number, exponent in lower.powers.items():
            if exponent > 0:
                sure = sure & (~self.vanishes(number) | (self._slope(number) > 0).any(axis=1))
        return sure

    def _power(self, a: OperationSize, exponent: Fraction, room: Flags) -> OperationSize:
        """For an exponent above zero; defined where `room` says so. `(Σ m_i)^q <= n^{max(q-1, 0)} Σ m_i^q`."""
        if len(a.upper) > 1 and exponent > TUNING.largest_exponent:
            unknown = (PowerProduct(np.full(len(self.boxes), inf), {}),)
            return OperationSize(unknown, self._nothing, a.positive, a.defined & room)
        more = Fraction(len(a.upper)) ** max(ceil(exponent) - 1, 0)
        upper = tuple(self._scaled(each.to_the(exponent, up=True), more) for each in a.upper)
        return OperationSize(upper, a.lower.to_the(exponent, up=False), a.positive, a.defined & room)

    def _constant_power(self, number: int, base: int, exponent: int) -> OperationSize:
        """A power with an exponent that is a known fraction other than zero; the operation as it is otherwise."""
        value = _exact(self.program, exponent)
        if not value:
            return self._itself(number)
        whole = value.denominator == 1
        room = np.ones(len(self.boxes), dtype=bool) if whole else self._room(base)
        inner = self[base] if value > 0 else self._reciprocal(self[base])
        powered = self._power(inner, abs(value), room)
        positive = powered.positive | (not whole or value.numerator % 2 == 0)
        return OperationSize(powered.upper, powered.lower, positive, powered.defined)

    def _logarithm(self, number: int, a: OperationSize, scale: Fraction) -> OperationSize:
        """`|log u| <= (u^s + u^{-s})/(e s)`."""
        scale = scale * OVER_E / self.small
        grows = self._power(a, self.small, a.positive).upper
        falls = a.lower.inverse(up=True).to_the(self.small, up=True)
        upper = tuple(self._scaled(each, scale) for each in (*grows, falls))
        lower = PowerProduct(np.ones(len(self.boxes)), {number: Fraction(1)})
        defined = a.defined & a.positive & self._almost_nowhere_zero(a.lower)
        return OperationSize(_few(upper, self.boxes), lower, self._positive(number), defined)

    def _sum(self, number: int, a: OperationSize, b: OperationSize) -> OperationSize:
        itself = self._itself(number)
        upper = _few((*a.upper, *b.upper), self.boxes) if self.singular[number] else itself.upper
        lower = self._mean_below(number) if self._apart(number) else itself.lower
        positive = a.positive & b.positive & (self.program.nodes[number].kind == "+")  # differences may be negative
        return OperationSize(upper, lower, positive | itself.positive, a.defined & b.defined)

    def _either(self, number: int, a: OperationSize, b: OperationSize) -> OperationSize:
        """One of two, at every point."""
        lower = PowerProduct(np.ones(len(self.boxes)), {number: Fraction(1)})
        upper = _few((*a.upper, *b.upper), self.boxes)
        return OperationSize(upper, lower, a.positive & b.positive, a.defined & b.defined)

    def _apart(self, number: int) -> bool:
        """Is it a sum of terms that are not negative, two of which may vanish, to be taken apart?"""
        return self.sums_apart and self.program.nodes[number].kind == "+" and len(self._vanishing(number)) > 1

    def _vanishing(self, number: int) -> list[int]:
        """The terms of a sum that may vanish on the domain; none if a term may be negative."""
        terms = self._terms(number)
        if not all(self.whole[k].lo.min() >= 0 for k in terms):
            return []
        return [k for k in terms if any(each > 0 for each in self[k].lower.powers.values())]

    def _terms(self, number: int) -> list[int]:
        node = self.program.nodes[number]
        return [k for arg in node.args for k in self._terms(arg)] if node.kind == "+" else [number]

    def _mean_below(self, number: int) -> PowerProduct:
        """`Σ u_i >= Π (u_i/θ_i)^{θ_i}`, the weights in inverse proportion to the exponents."""
        terms = self._vanishing(number)
        shares = [1 / max(self[k].lower.powers.values()) for k in terms]
        weights = [share / sum(shares) for share in shares]
        parts = [
            self._scaled(self[k].lower, 1 / weight, up=False).to_the(weight, up=False)
            for k, weight in zip(terms, weights, strict=True)
        ]
        product = reduce(lambda one, other: one.times(other, up=False), parts)
        signs = np.all([self[k].positive for k in self._terms(number)], axis=0)
        return PowerProduct(np.where(signs, product.size, 0.0), product.powers)

    # ------------------------------------------------------------ integrals

    def mean(self, number: int, p: float) -> Floats:
        """The p-mean of an operation over the boxes, at most, (B,)."""
        total = np.zeros(len(self.boxes))
        for term in self[number].upper:
            total = directed.add_up(total, self._mean_of(term, p))
        return np.where(np.isnan(total), inf, total) if self[number].upper else np.full(len(self.boxes), inf)

    def _mean_of(self, term: PowerProduct, p: float) -> Floats:
        """The p-mean of a product, at most: factors that do not vanish on a box count with their largest value."""
        size = term.size
        poles = {number: -exponent for number, exponent in term.powers.items() if exponent < 0}
        for number, exponent in term.powers.items():
            if exponent > 0:
                size = directed.times_up(size, self._sup(number, exponent))
        best = np.full(len(self.boxes), inf)
        if len(poles) > TUNING.most_poles:
            return best
        vanish = {number: self.vanishes(number) for number in poles}
        for count in range(len(poles) + 1):
            for chosen in combinations(poles, count):  # these are integrated
                here = np.all([~vanish[number] for number in poles if number not in chosen], axis=0)
                if not np.any(here):
                    continue
                rest = size
                for number, exponent in poles.items():
                    if number not in chosen:
                        rest = directed.times_up(rest, self._inverse_sup(number, exponent))
                whole = directed.times_up(rest, self._integrated({number: poles[number] for number in chosen}, p))
                best = np.minimum(best, np.where(here & ~np.isnan(whole), whole, inf))
        return best

    def _integrated(self, poles: dict[int, Fraction], p: float) -> Floats:
        """The p-mean of `Π|u_i|^{-a_i}`, at most, axis by axis in the best order [T 3.7]."""
        axes = sorted(frozenset[int]().union(*(self.depends[number] for number in poles)))
        best = np.full(len(self.boxes), inf)
        for order in permutations(axes) if len(axes) <= TUNING.most_ordered else [tuple(axes)]:
            mean, left = np.ones(len(self.boxes)), dict(poles)
            for axis in order:
                here = {number: left.pop(number) for number in list(left) if axis in self.depends[number]}
                mean = directed.times_up(mean, self._along(axis, here, Fraction(p)))
            best = best if left else np.minimum(best, np.where(np.isnan(mean), inf, mean))  # some may be constant
        return best

    def _along(self, axis: int, poles: dict[int, Fraction], p: Fraction) -> Floats:
        """`Π (c_i w/m_i)^{-a_i} (1 - S)^{-1/p}` with `S = p Σ a_i`, m_i one for a factor of one sign and else two."""
        room = 1 - p * sum(poles.values(), Fraction(0))
        if not poles:
            return np.ones(len(self.boxes))
        if room <= 0:
            return np.full(len(self.boxes), inf)
        mean = power(1.0 / _enclosed(room), 1.0 / _enclosed(p)).hi * np.ones(len(self.boxes))
        width = directed.add_down(self.boxes.hi[:, axis], -self.boxes.lo[:, axis])
        for number, exponent in poles.items():
            step = self.steps[number]
            sides = np.where((step.lo >= 0) | (step.hi <= 0), 1.0, 0.5)
            change = directed.below(directed.multiply(self._slope(number)[:, axis], width)[0] * sides)  # (B,)
            with np.errstate(all="ignore"):
                once = power(Interval(np.maximum(change, 0.0)), _enclosed(exponent)).lo
                mean = directed.times_up(mean, np.where(once > 0, directed.quotient_up(1.0, once), inf))
        return mean

    def vanishes(self, number: int) -> Flags:
        """May the factor be zero on the boxes, (B,)?"""
        step = self.steps[number]
        return np.broadcast_to((step.lo <= 0) & (step.hi >= 0), (len(self.boxes),))

    def _slope(self, number: int) -> Floats:
        """The least slope of a factor along each axis, in absolute value, (B, D); 0 where nothing is known."""
        if number not in self._slopes:
            node, shape = self.program.nodes[number], (len(self.boxes), self.boxes.shape[1])
            found = np.zeros(shape)
            if node.kind == "variable":
                found[:, int(node.value)] = 1.0
            else:
                series = _below(self.program, number).jets(variables(self.boxes, 1))  # (B, 1)
                if series is not None:
                    middle, radius = series.mid[:, 0, 1:], series.rad[:, 0, 1:]  # (B, D)
                    with np.errstate(invalid="ignore"):
                        found = directed.add_down(np.abs(middle), -radius)
                    found = np.where(np.isfinite(radius) & np.isfinite(middle), np.maximum(found, 0.0), 0.0)
            self._slopes[number] = found
        return self._slopes[number]

    def _sup(self, number: int, exponent: Fraction) -> Floats:
        """The largest `|u|^e` on the boxes, e > 0, (B,)."""
        return self._spread(power(Interval(self.steps[number].magnitude), _enclosed(exponent)).hi)

    def _inverse_sup(self, number: int, exponent: Fraction) -> Floats:
        """The largest `|u|^{-e}` on the boxes, (B,)."""
        least = power(Interval(absolute(self.steps[number]).lo), _enclosed(exponent)).lo
        with np.errstate(all="ignore"):
            return self._spread(np.where(least > 0, directed.quotient_up(1.0, np.maximum(least, 0.0)), inf))

    # ------------------------------------------------------------ what is known of one operation

    @property
    def _nothing(self) -> PowerProduct:
        return PowerProduct(np.zeros(len(self.boxes)), {})

    def _scaled(self, product: PowerProduct, factor: Fraction, up: bool = True) -> PowerProduct:
        ends = _enclosed(factor)
        size = directed.multiply(product.size, np.broadcast_to(ends.hi if up else ends.lo, product.size.shape))[up]
        return PowerProduct(_number(size, up), product.powers)

    def _spread(self, values: Floats) -> Floats:
        return np.broadcast_to(values, (len(self.boxes),))

    def _flag(self, number: int) -> Flags:
        return np.broadcast_to(self.steps[number].defined, (len(self.boxes),))

    def _positive(self, number: int) -> Flags:
        return np.broadcast_to(self.steps[number].lo >= 0, (len(self.boxes),))

    def _room(self, number: int) -> Flags:
        """Where powers that are not whole are defined: the base is surely not negative."""
        return self[number].positive | self._positive(number)


def _few(terms: tuple[PowerProduct, ...], boxes: Interval) -> tuple[PowerProduct, ...]:
    """As many terms as are looked at; too many are no bound."""
    return terms if len(terms) <= TUNING.most_terms else (PowerProduct(np.full(len(boxes), inf), {}),)


def _number(size: Floats, up: bool) -> Floats:
    """What is no number is the weakest bound."""
    return np.where(np.isnan(size), inf if up else 0.0, size if up else np.maximum(size, 0.0))


def _enclosed(number: Fraction) -> Interval:
    """An interval around a fraction, exact where that is a float."""
    if abs(number) > directed.LARGEST:
        return Interval(directed.LARGEST, inf) if number > 0 else Interval(-inf, -directed.LARGEST)
    nearest = np.float64(number.numerator / number.denominator)
    if Fraction(float(nearest)) == number:
        return Interval(nearest)
    return Interval(directed.below(nearest), directed.above(nearest))  # type: ignore[arg-type]


def _exact(program: Program, number: int) -> Fraction | None:
    """A constant operation as a fraction, where it is one by sums, products and quotients of numbers as written."""
    node = program.nodes[number]
    if node.kind == "constant":
        return _written(program.text(node), node)
    parts = [_exact(program, k) for k in node.args]
    match node.kind, parts:
        case "neg", [Fraction() as a]:
            return -a
        case "+", [Fraction() as a, Fraction() as b]:
            return a + b
        case "-", [Fraction() as a, Fraction() as b]:
            return a - b
        case "*", [Fraction() as a, Fraction() as b]:
            return a * b
        case "/", [Fraction() as a, Fraction() as b] if b != 0:
            return a / b
    return None


def _written(text: str, node: ProgramNode) -> Fraction | None:
    """A constant as a fraction: its float, or the decimal number in the text."""
    if node.exact:
        return Fraction(node.value) if np.isfinite(node.value) else None
    try:
        number = Fraction(text)
    except ValueError:
        return None
    return number if float(number) == node.value else None  # of pi there is a name in the text


def _below(program: Program, number: int) -> Program:
    """One operation as a program, with those that it needs only."""
    needed, stack = {number}, [number]
    while stack:
        more = [k for k in program.nodes[stack.pop()].args if k not in needed]
        needed.update(more)
        stack += more
    order = {old: new for new, old in enumerate(sorted(needed))}
    nodes = (program.nodes[old] for old in order)
    moved = tuple(replace(node, args=tuple(order[k] for k in node.args)) for node in nodes)
    return Program(program.source, moved, (order[number],), is_vector=False)
