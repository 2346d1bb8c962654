"""Power series in several variables with balls as coefficients, and formulas evaluated on them.

A jet of order m is the list of coefficients `f_α = ∂^α f / α!`, `|α| <= m`, of a function at a point. Started at a
ball instead of a point, the same operations enclose the coefficients at *every* point of the ball, which is what
Taylor's theorem asks for: on a box with centre c,

    f(c + δ) = Σ_{|α| <= m} f_α(c) δ^α + Σ_{|α| = m+1} f_α(ξ) δ^α      for some ξ between c and c + δ.

A jet of order 0 is a plain ball. Arithmetic is that of the Arb library (python-flint): every operation returns a ball
that holds the exact result, at the precision set by `precision`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import product
from math import comb, factorial, inf, prod
from typing import TYPE_CHECKING

from ..errors import MissingExtra
from ..targets.operations import TRUTHS

try:
    import flint
    from flint import arb, arb_mat, arb_series
except ImportError:
    raise MissingExtra("python-flint", "arb") from None

if TYPE_CHECKING:
    from ..targets.parser import Node, Program

__all__ = [
    "Jet",
    "Jets",
    "Rough",
    "arb",
    "arb_mat",
    "evaluate",
    "hull",
    "jets",
    "largest",
    "precision",
    "series",
    "total",
    "variables",
]

Jet = list[arb]

BITS = 128
LONGEST = 64
"""Most coefficients a univariate series may keep."""


class Rough(Exception):
    """A formula has a kink inside the box, so it has no series there."""


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    """Compute with this many bits, and restore the caller's settings afterwards."""
    before = flint.ctx.prec, flint.ctx.cap
    flint.ctx.prec, flint.ctx.cap = bits, LONGEST
    try:
        yield
    finally:
        flint.ctx.prec, flint.ctx.cap = before


def hull(low: arb, high: arb) -> arb:
    """A ball that holds the interval between two numbers."""
    return low.union(high)


class Jets:
    """The algebra of jets in D variables up to total degree `order`, with coefficients sorted by degree."""

    def __init__(self, variables: int, order: int) -> None:
        indices = [a for a in product(range(order + 1), repeat=variables) if sum(a) <= order]
        self.order, self.indices = order, sorted(indices, key=lambda a: (sum(a), a))
        place = {index: k for k, index in enumerate(self.indices)}
        self.size = len(self.indices)
        self.axes = (
            [place[tuple(int(k == axis) for k in range(variables))] for axis in range(variables)] if order else []
        )
        self.factorials = [prod(map(factorial, index)) for index in self.indices]
        self.pairs = [
            [(place[part], place[_minus(index, part)]) for part in product(*(range(n + 1) for n in index))]
            for index in self.indices
        ]
        self.choices = [
            [prod(map(comb, index, self.indices[part])) for part, _ in pairs]
            for index, pairs in zip(self.indices, self.pairs, strict=True)
        ]
        self.parents = [_parent(index, place) for index in self.indices[1:]]

    def below(self, degree: int) -> int:
        """Number of coefficients of degree less than `degree`; they come first."""
        return sum(sum(index) < degree for index in self.indices)

    def constant(self, value: arb) -> Jet:
        """The jet of a constant."""
        return [value] + [arb(0)] * (self.size - 1)

    def affine(self, value: arb, slopes: Sequence[arb]) -> Jet:
        """The jet of an affine function with this value at the centre."""
        jet = self.constant(value)
        for place, slope in zip(self.axes, slopes, strict=False):
            jet[place] = slope
        return jet

    def monomials(self, at: Sequence[arb]) -> Jet:
        """`at^α` for every index α."""
        powers = [arb(1)]
        for parent, axis in self.parents:
            powers.append(powers[parent] * at[axis])
        return powers

    def add(self, f: Jet, g: Jet) -> Jet:
        """f + g."""
        return [a + b for a, b in zip(f, g, strict=True)]

    def subtract(self, f: Jet, g: Jet) -> Jet:
        """f - g."""
        return [a - b for a, b in zip(f, g, strict=True)]

    def negate(self, f: Jet) -> Jet:
        """-f."""
        return [-a for a in f]

    def multiply(self, f: Jet, g: Jet) -> Jet:
        """f g."""
        return [total([f[i] * g[j] for i, j in pairs]) for pairs in self.pairs]

    def divide(self, f: Jet, g: Jet) -> Jet:
        """f / g, coefficient by coefficient from `q g = f`."""
        quotient: Jet = []
        for k, pairs in enumerate(self.pairs):
            known = total([quotient[i] * g[j] for i, j in pairs if i != k])
            quotient.append((f[k] - known) / g[0])
        return quotient

    def compose(self, outer: Sequence[arb], f: Jet) -> Jet:
        """`Σ_n outer_n (f - f_0)^n`, by Horner's rule."""
        inner, result = [arb(0), *f[1:]], self.constant(outer[-1])
        for coefficient in reversed(outer[:-1]):
            result = self.multiply(result, inner)
            result[0] += coefficient
        return result

    def recentred(self, f: Jet, offset: Jet) -> Jet:
        """The polynomial f expanded at another point: `Σ_{α >= β} (α choose β) f_α offset^(α-β)`."""
        moved = [arb(0)] * self.size
        for k, pairs in enumerate(self.pairs):
            for (part, rest), count in zip(pairs, self.choices[k], strict=True):
                moved[part] += count * f[k] * offset[rest]
        return moved


@lru_cache
def jets(variables: int, order: int) -> Jets:
    """The algebra, made once."""
    return Jets(variables, order)


def total(terms: Sequence[arb]) -> arb:
    """Sum of balls."""
    return sum(terms, arb(0))


def largest(coefficients: Sequence[arb], radii: Sequence[arb]) -> arb:
    """Upper bound on `|Σ f_α δ^α|`, given the monomials of the largest |δ_k|."""
    return total([a.abs_upper() * r for a, r in zip(coefficients, radii, strict=True)]).upper()


def _minus(index: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(index, part, strict=True))


def _parent(index: tuple[int, ...], place: dict[tuple[int, ...], int]) -> tuple[int, int]:
    """A monomial as an earlier one times one variable: (its place, the variable)."""
    axis = next(k for k, power in enumerate(index) if power)
    return place[tuple(power - (k == axis) for k, power in enumerate(index))], axis


def variables(algebra: Jets, at: Sequence[arb]) -> list[Jet]:
    """The jets of the coordinates at a point or a ball."""
    return [algebra.affine(value, [arb(int(k == axis)) for k in range(len(at))]) for axis, value in enumerate(at)]


def evaluate(program: Program, algebra: Jets, variables: Sequence[Jet]) -> list[Jet]:
    """The outputs of a formula on jets; Rough where a kink stands in the way of a series."""
    steps: list[Jet] = []
    for node in program.nodes:
        if node.kind == "constant":
            steps.append(algebra.constant(_constant(node, program.text(node))))
        elif node.kind == "variable":
            steps.append(variables[int(node.value)])
        else:
            steps.append(_operate(algebra, node.kind, [steps[k] for k in node.args]))
    outputs = [(program.nodes[k].kind, steps[k]) for k in program.outputs]
    if algebra.order and any(kind in TRUTHS and not jet[0].is_exact() for kind, jet in outputs):
        raise Rough  # a formula that is a condition jumps where it is undecided
    return [jet for _, jet in outputs]


def _constant(node: Node, text: str) -> arb:
    """A constant exactly as written."""
    if node.exact:
        return arb(node.value)
    if text == "pi":
        return arb.pi()
    if text == "e":
        return arb(1).exp()
    digits = text.replace("_", "")
    return arb(str(int(digits, 0))) if digits[:2].lower() in ("0x", "0o", "0b") else arb(digits)


def _operate(algebra: Jets, kind: str, args: list[Jet]) -> Jet:
    """One operation of a formula."""
    match kind:
        case "+":
            return algebra.add(*args)
        case "-":
            return algebra.subtract(*args)
        case "*":
            return algebra.multiply(*args)
        case "/":
            return algebra.divide(*args)
        case "**":
            return _power(algebra, *args)
        case "neg":
            return algebra.negate(*args)
        case "abs":
            return _absolute(algebra, *args)
        case "sign":
            return algebra.constant(_sign(algebra, args[0][0]))
        case "min" | "max":
            return _extreme(algebra, *args, largest=kind == "max")
        case "<" | "<=" | ">" | ">=":
            return _truth(algebra, *COMPARE[kind](args[0][0], args[1][0]))
        case "and" | "or":
            low, high = ([float(f[0].lower()) for f in args], [float(f[0].upper()) for f in args])
            choose = min if kind == "and" else max
            return _truth(algebra, choose(low) > 0.5, choose(high) < 0.5)
        case "not":
            return algebra.subtract(algebra.constant(arb(1)), args[0])
        case "where":
            return _where(algebra, *args)
        case _:
            return algebra.compose(series(kind, args[0][0], algebra.order), args[0])


COMPARE: dict[str, Callable[[arb, arb], tuple[bool, bool]]] = {
    "<": lambda a, b: (a < b, a >= b),
    "<=": lambda a, b: (a <= b, a > b),
    ">": lambda a, b: (a > b, a <= b),
    ">=": lambda a, b: (a >= b, a < b),
}
"""Is a comparison of balls certainly true, certainly false?"""


def _truth(algebra: Jets, surely: bool, never: bool) -> Jet:
    """1 for true, 0 for false, a ball that holds both for undecided."""
    return algebra.constant(arb(1) if surely else arb(0) if never else hull(arb(0), arb(1)))


def _where(algebra: Jets, condition: Jet, f: Jet, g: Jet) -> Jet:
    """The branch that is certain, or the range of both."""
    if condition[0] > 0.5:
        return f
    if condition[0] < 0.5:
        return g
    if algebra.order:
        raise Rough
    return [hull(f[0], g[0])]


def _absolute(algebra: Jets, f: Jet) -> Jet:
    if f[0] >= 0 and not _meet(algebra, f[0]):
        return f
    if f[0] <= 0 and not _meet(algebra, f[0]):
        return algebra.negate(f)
    if algebra.order:
        raise Rough
    return [hull(f[0].abs_lower(), f[0].abs_upper())]


def _meet(algebra: Jets, difference: arb) -> bool:
    """Are two functions equal here, so that their order says nothing of their series?"""
    return algebra.order > 0 and difference.is_zero()


def _sign(algebra: Jets, value: arb) -> arb:
    if value > 0 or value < 0:
        return arb(1 if value > 0 else -1)
    if value.is_zero():
        return arb(0)
    if algebra.order:
        raise Rough
    return arb(0, 1)


def _extreme(algebra: Jets, f: Jet, g: Jet, largest: bool) -> Jet:
    """The larger (or the smaller) of two."""
    meet = _meet(algebra, f[0] - g[0])
    if f[0] >= g[0] and not meet:
        return f if largest else g
    if f[0] <= g[0] and not meet:
        return g if largest else f
    if algebra.order:
        raise Rough
    return [f[0].max(g[0]) if largest else f[0].min(g[0])]


def _power(algebra: Jets, base: Jet, exponent: Jet) -> Jet:
    """Integer exponents by repeated squaring, others as `e^(exponent log base)`."""
    number = exponent[0]
    if all(a.is_zero() for a in exponent[1:]) and number.is_exact() and number.is_integer():
        return _integer_power(algebra, base, int(number.fmpz()))
    if algebra.order == 0 and number > 0 and not base[0] > 0:
        return [hull(arb(0), base[0].upper() ** number)] if base[0].contains(0) else [arb.nan()]
    logarithm = algebra.compose(series("log", base[0], algebra.order), base)
    product_ = algebra.multiply(exponent, logarithm)
    return algebra.compose(series("exp", product_[0], algebra.order), product_)


def _integer_power(algebra: Jets, base: Jet, exponent: int) -> Jet:
    result, square, left = algebra.constant(arb(1)), base, abs(exponent)
    while left:
        if left & 1:
            result = algebra.multiply(result, square)
        left >>= 1
        if left:
            square = algebra.multiply(square, square)
    return algebra.divide(algebra.constant(arb(1)), result) if exponent < 0 else result


def series(name: str, x: arb, order: int) -> Jet:
    """Taylor coefficients 0..order of an elementary function at a ball.

    A ball that sticks out of the domain of sqrt, asin or acos only in part stands for its part inside: a formula is
    enclosed where it is defined.
    """
    if order == 0:
        return [_value(name, x)]
    t = arb_series([x, 1], prec=order + 1)
    match name:
        case "expm1":
            result = t.exp() - 1
        case "log1p":
            result = (t + 1).log()
        case "sinc":
            return _sinc(x, t)
        case "sinh":
            result = (t.exp() - (-t).exp()) / 2
        case "cosh":
            result = (t.exp() + (-t).exp()) / 2
        case "tanh":
            result = 1 - 2 / ((2 * t).exp() + 1)
        case _:
            result = getattr(t, LONG_NAMES.get(name, name))()
    known = result.coeffs()[: order + 1]
    return known + [arb(0)] * (order + 1 - len(known))


def _sinc(x: arb, t: arb_series) -> Jet:
    """Taylor coefficients of sin(x)/x, for `t = x + s` as a series in s.

    Up to |x| = 1 they are those of `Σ_j (-1)^j t^{2j} / (2j+1)!`; the terms from j = n on add at most
    `Σ_{j >= n} 2^{2j} / (2j+1)! <= 2^{2n+1} / (2n+1)!` to each. Beyond, a ball that holds 0 has those of
    `sinc(x) = ∫_0^1 cos(x u) du`, the k-th of which is at most `∫_0^1 u^k du / k! = 1 / (k+1)!`.
    """
    orders = range(t.prec)
    if abs(x) <= 1:
        square, result = t * t, arb_series([0], prec=t.prec)
        for j in reversed(range(SINC_TERMS)):
            result = result * square + (-1) ** j / arb(factorial(2 * j + 1))
        known, beyond = result.coeffs(), arb(2) ** (2 * SINC_TERMS + 1) / factorial(2 * SINC_TERMS + 1)
        return [(known[k] if k < len(known) else arb(0)) + arb(0, beyond.upper()) for k in orders]
    if x.contains(0):
        return [arb(0, (1 / arb(factorial(k + 1))).upper()) for k in orders]
    known = (t.sin() / t).coeffs()
    return [known[k] if k < len(known) else arb(0) for k in orders]


SINC_TERMS = 24
LONG_NAMES = {"ln": "log"}
INSIDE = {"sqrt": (0.0, inf), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0)}
"""Closed domains of functions that are continuous up to their ends."""
MONOTONE = {"exp", "expm1", "log", "log1p", "sqrt", "asin", "acos", "atan", "sinh", "tanh", "erf"}


def _value(name: str, x: arb) -> arb:
    """The range of an elementary function over a ball."""
    name = LONG_NAMES.get(name, name)
    function = getattr(arb, name)
    if name not in MONOTONE:
        return function(x)
    least, most = INSIDE.get(name, (-inf, inf))
    low, high = x.lower().max(arb(least)), x.upper().min(arb(most))
    return hull(function(low), function(high)) if low <= high else arb.nan()
