"""The elementary functions that the judge knows: range and Taylor coefficients of each, from python-flint [T 9.1, 9.3].

One record a function. `range_` maps the ends of an argument to the ends of the result; `series` returns the Taylor
coefficients 0..order at every point of a ball. An argument that leaves the domain of a function in part counts where
the function is defined, and the result says that it is not defined everywhere [T 9.2].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import factorial

import flint
from flint import arb, arb_series, fmpq

from .ranges import INFINITE, ONE, ZERO, Range, down, larger, smaller, up
from .special import BESSEL, SPECIAL, Special, bessel, coefficients, range_of


@dataclass(frozen=True)
class Function:
    """An elementary function of one variable."""

    range_: Callable[[Range], Range]
    series: Callable[[arb, int], list[arb]]


def _monotone(function: Callable[[arb], arb], low: arb = -INFINITE, high: arb = INFINITE) -> Callable[[Range], Range]:
    """The range of a function that grows from `low` to `high`, the ends of its closed domain."""

    def range_(x: Range) -> Range:
        inside = bool(x.low >= low and x.high <= high)
        first, last = larger(x.low, low), smaller(x.high, high)
        if not first <= last:
            return Range(-INFINITE, INFINITE, False)
        return Range(down(function(first)), up(function(last)), x.defined and inside)

    return range_


def _logarithm(x: Range) -> Range:
    if not x.high > 0:
        return Range(-INFINITE, INFINITE, False)
    positive = bool(x.low > 0)
    return Range(down(x.low.log()) if positive else -INFINITE, up(x.high.log()), x.defined and positive)


def _within_one(function: Callable[[arb], arb]) -> Callable[[Range], Range]:
    """The range of sin and cos."""

    def range_(x: Range) -> Range:
        return Range.point(function(x.ball)).meet(-ONE, ONE).known(x) if x.bounded else Range(-ONE, ONE, x.defined)

    return range_


def _tangent(x: Range) -> Range:
    value = x.ball.tan()
    return Range.point(value).known(x, defined=value.is_finite())


def _hyperbolic_cosine(x: Range) -> Range:
    return Range(down(x.least.cosh()), up(x.most.cosh()), x.defined)


def _sinc_range(x: Range) -> Range:
    return Range.point(x.ball.sinc()).meet(-ONE, ONE).known(x) if x.bounded else Range(-ONE, ONE, x.defined)


def _by_flint(build: Callable[[arb_series], arb_series]) -> Callable[[arb, int], list[arb]]:
    """Coefficients from the power series of python-flint; unknown where it has none (a divisor may be zero)."""

    def series(x: arb, order: int) -> list[arb]:
        before, flint.ctx.cap = flint.ctx.cap, order + 1
        try:
            known = build(arb_series([x, 1], prec=order + 1)).coeffs()[: order + 1]
        except ValueError:
            return [arb.nan()] * (order + 1)
        finally:
            flint.ctx.cap = before
        return known + [ZERO] * (order + 1 - len(known))

    return series


def _where_positive(series: Callable[[arb, int], list[arb]], least: int = 0) -> Callable[[arb, int], list[arb]]:
    """Coefficients of a function that is smooth above `least` only."""

    def checked(x: arb, order: int) -> list[arb]:
        return series(x, order) if x > least else [arb.nan()] * (order + 1)

    return checked


def _sinc_series(x: arb, order: int) -> list[arb]:
    """Coefficients of sin(x)/x.

    Up to |x| = 1 they are those of `Σ_j (-1)^j t^{2j} / (2j+1)!`; the terms from j = n on add at most
    `Σ_{j >= n} 2^{2j} / (2j+1)! <= 2^{2n+1} / (2n+1)!` to each. Beyond, a ball that holds 0 has those of
    `sinc(x) = ∫_0^1 cos(x u) du`, the k-th of which is at most `∫_0^1 u^k du / k! = 1 / (k+1)!`.
    """
    if abs(x) <= 1:
        beyond = up(arb(2) ** (2 * SINC_TERMS + 1) / factorial(2 * SINC_TERMS + 1))

        def truncated(t: arb_series) -> arb_series:
            square, result = t * t, arb_series([0], prec=order + 1)
            for j in reversed(range(SINC_TERMS)):
                result = result * square + (-1) ** j / arb(factorial(2 * j + 1))
            return result

        return [known + arb(0, beyond) for known in _by_flint(truncated)(x, order)]
    if x.contains(0):
        return [arb(0, up(1 / arb(factorial(k + 1)))) for k in range(order + 1)]
    return _by_flint(lambda t: t.sin() / t)(x, order)


SINC_TERMS = 24


def _tanh(t: arb_series) -> arb_series:
    """From e^{-2t} or e^{2t}, whichever does not overflow."""
    positive = bool(t.coeffs()[0] > 0) if t.coeffs() else True
    return 1 - 2 * (-2 * t).exp() / (1 + (-2 * t).exp()) if positive else 2 * (2 * t).exp() / (1 + (2 * t).exp()) - 1


def _sigmoid(t: arb | arb_series, positive: bool) -> arb | arb_series:
    """1/(1 + e^-t), from the exponential that does not overflow."""
    return 1 / (1 + (-t).exp()) if positive else t.exp() / (1 + t.exp())


def _softplus(t: arb | arb_series, positive: bool) -> arb | arb_series:
    """log(1 + e^t), from the exponential that does not overflow."""
    return t + (1 + (-t).exp()).log() if positive else (1 + t.exp()).log()


def _cube_root(t: arb | arb_series, positive: bool) -> arb | arb_series:
    """Odd; a series only where t is not zero, which has no root in python-flint."""
    if isinstance(t, arb):
        if t.is_zero():
            return t
        return t.root(3) if positive else -(-t).root(3)
    third = ONE / 3
    return (third * t.log()).exp() if positive else -(third * (-t).log()).exp()


def _by_sign(function: Callable[[arb | arb_series, bool], arb | arb_series]) -> Function:
    """A growing function that is computed in one way for positive and in another for negative arguments."""

    def at(x: arb) -> arb:
        return function(x, bool(x >= 0))  # type: ignore[return-value]

    def series(t: arb_series) -> arb_series:
        return function(t, bool(t.coeffs()[0] > 0) if t.coeffs() else True)  # type: ignore[return-value]

    return Function(_monotone(at), _by_flint(series))


def _logarithm_to(base: int) -> Function:
    """The logarithm to a base above 1."""

    def range_(x: Range) -> Range:
        natural, scale = _logarithm(x), arb(base).log()
        return Range(down(natural.low / scale), up(natural.high / scale), natural.defined)

    return Function(range_, _where_positive(_by_flint(lambda t: t.log() / arb(base).log())))


def _arsinh_series(x: arb, order: int) -> list[arb]:
    """The derivative is (1 + x²)^(-1/2)."""
    slopes = _by_flint(lambda t: (-(1 + t * t).log() / 2).exp())(x, max(order - 1, 0))
    return [x.asinh(), *(slopes[k] / (k + 1) for k in range(order))]


def _of_special(function: Special) -> Function:
    """A special function, enclosed as in `special.py`."""
    return Function(partial(range_of, function), partial(coefficients, function))


FUNCTIONS: dict[str, Function] = {
    "exp": Function(_monotone(arb.exp), _by_flint(arb_series.exp)),
    "expm1": Function(_monotone(arb.expm1), _by_flint(lambda t: t.exp() - 1)),
    "log": Function(_logarithm, _where_positive(_by_flint(arb_series.log))),
    "log1p": Function(
        lambda x: _logarithm(x + Range(ONE, ONE)), _where_positive(_by_flint(lambda t: (1 + t).log()), -1)
    ),
    "log2": _logarithm_to(2),
    "log10": _logarithm_to(10),
    "cbrt": _by_sign(_cube_root),
    "sigmoid": _by_sign(_sigmoid),
    "softplus": _by_sign(_softplus),
    "asinh": Function(_monotone(arb.asinh), _arsinh_series),
    "sqrt": Function(_monotone(arb.sqrt, ZERO), _where_positive(_by_flint(arb_series.sqrt))),
    "sin": Function(_within_one(arb.sin), _by_flint(arb_series.sin)),
    "cos": Function(_within_one(arb.cos), _by_flint(arb_series.cos)),
    "tan": Function(_tangent, _by_flint(arb_series.tan)),
    "sinc": Function(_sinc_range, _sinc_series),
    "asin": Function(_monotone(arb.asin, -ONE, ONE), _by_flint(arb_series.asin)),
    "acos": Function(lambda x: -_monotone(lambda end: -end.acos(), -ONE, ONE)(x), _by_flint(arb_series.acos)),
    "atan": Function(_monotone(arb.atan), _by_flint(arb_series.atan)),
    "sinh": Function(_monotone(arb.sinh), _by_flint(lambda t: (t.exp() - (-t).exp()) / 2)),
    "cosh": Function(_hyperbolic_cosine, _by_flint(lambda t: (t.exp() + (-t).exp()) / 2)),
    "tanh": Function(_monotone(arb.tanh), _by_flint(_tanh)),
    "erf": Function(_monotone(arb.erf), _by_flint(arb_series.erf)),
    **{name: _of_special(function) for name, function in SPECIAL.items()},
}
"""Functions of one variable."""


def is_function(kind: str) -> bool:
    """Whether a step of a formula is a function of one variable, such as `sin` or `besselj(1/2)`."""
    return kind in FUNCTIONS or kind.partition("(")[0] in BESSEL


@lru_cache(maxsize=128)
def function_of(kind: str) -> Function:
    """The function that such a step applies."""
    if kind in FUNCTIONS:
        return FUNCTIONS[kind]
    name, _, order = kind.removesuffix(")").partition("(")
    return _of_special(bessel(name, fmpq(*Fraction(order).as_integer_ratio())))
