"""The functions a formula may use: one record each, which every reader of formulas goes by.

A record says how users write a function, what it is on floats, how it is enclosed on intervals, which Taylor series it
has, and what a circuit needs to know. The parser, enclosures, series, circuits and the tracing of Python functions read
this table; the judge has one of its own (`judge/functions.py`), and a test compares them.

To add a function, add a record. One that other functions say is only a name for them: `hypot(a, b)` is read as
`sqrt(a**2 + b**2)`, in formulas and in traced functions alike.

>>> FUNCTIONS["sigmoid"](np.array([0.0])), FUNCTIONS["sigmoid"](Interval(0.0, 1.0)), FUNCTIONS["hypot"].means
(array([0.5]), Interval[0.5, 0.731059], 'sqrt(a**2 + b**2)')
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..arithmetic import Interval, Jet, TruthValues
from ..arithmetic import interval as intervals
from ..arithmetic import jets as series_of_arrays
from ..arithmetic.directed import above, below, widen
from ..arithmetic.functions import monotone
from ..arithmetic.jet_functions import compose
from ..arithmetic.jets import pick
from ..arithmetic.series import SERIES, Coefficients, power, stacked, tanh
from . import special

Ends = tuple[float, float]
LINE: Ends = (-np.inf, np.inf)
PARAMETERS = ("a", "b", "c")
"""The arguments of a function in what it stands for."""


@dataclass(frozen=True)
class ElementaryFunction:
    """An elementary function."""

    names: tuple[str, ...]
    """What users write; the first name is the one in programs."""
    arity: int
    """Number of arguments."""
    values: Callable[..., Any]
    """On floats."""
    enclosure: Callable[..., Any] | None = None
    """On intervals; None where `values` is a NumPy function that knows intervals."""
    jets: Callable[..., Any] | None = None
    """On Taylor series; None where `values` is a NumPy function that knows them."""
    natural: Ends = LINE
    """Where it is defined, as far as its first argument goes."""
    ufunc: str = ""
    """The name of NumPy's or SciPy's function for it, if that is another one."""
    many: bool = False
    """Does it take two or more arguments, two at a time from the left?"""
    jumps: bool = False
    """May it jump where it is defined?"""
    means: str = ""
    """A formula in a, b, c that stands for it: it has no operation of its own in programs."""
    numbers: int = 0
    """How many arguments, the first ones, must be numbers."""
    by_flint: bool = False
    """Is it enclosed by python-flint, in proofs as by the judge?"""
    on_ranges: Callable[..., str | None] | None = None
    """Such a formula for arguments in given ranges, None where there is none: what a circuit puts in its place."""

    @property
    def name(self) -> str:
        """The name in programs."""
        return self.names[0]

    def __call__(self, *args: Any) -> Any:
        """On floats, intervals or Taylor series."""
        if self.jets is not None and any(isinstance(arg, Jet) for arg in args):
            return self.jets(*args)
        if self.enclosure is not None and any(isinstance(arg, Interval | TruthValues) for arg in args):
            return self.enclosure(*args)
        return self.values(*args)


def _smooth(
    name: str,
    values: Callable[..., Any],
    *other_names: str,
    enclosure: Callable[[Interval], Interval] | None = None,
    series: Callable[[Interval, int], Coefficients] | None = None,
    natural: Ends = LINE,
    ufunc: str = "",
) -> ElementaryFunction:
    """A function of one variable with Taylor series; what arithmetic knows already it has by the name of the ufunc."""
    ufunc = ufunc or getattr(values, "__name__", name)
    jets = series_of_arrays.UFUNCS.get(ufunc) if series is None else partial(_by_series, series)
    return ElementaryFunction(
        (name, *other_names), 1, values, enclosure or intervals.UFUNCS[ufunc], jets, natural=natural, ufunc=ufunc
    )


def _by_series(series: Callable[[Interval, int], Coefficients], a: Jet) -> Jet:
    return compose(a, series(a.value, a.basis.degree))


def _special(name: str, scipy_name: str, *other_names: str, natural: Ends = LINE) -> ElementaryFunction:
    """A special function of one variable."""
    jets = partial(_by_series, special.series(name))
    values = partial(_scipy, scipy_name)
    return ElementaryFunction(
        (name, *other_names), 1, values, special.enclosure(name), jets, natural=natural, by_flint=True
    )


def _of_order(name: str, scipy_name: str) -> ElementaryFunction:
    """A special function of an order and a variable."""
    values, enclosure = partial(_scipy, scipy_name), special.enclosure_of_order(name)
    return ElementaryFunction((name,), 2, values, enclosure, special.jets_of_order(name), numbers=1, by_flint=True)


def _named(name: str, arity: int, means: str, values: Callable[..., Any], ufunc: str = "") -> ElementaryFunction:
    """A name for what other functions say."""
    return ElementaryFunction((name,), arity, values, ufunc=ufunc, means=means)


# ---------------------------------------------------------------- values that NumPy has no one function for


def sinc(x: Any) -> Any:
    """sin(x)/x, and 1 at 0."""
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, np.sin(safe) / safe)


def _scipy(name: str, *args: Any) -> Any:
    """A function of SciPy by its name; of those with several values the one that is meant."""
    from scipy import special as functions

    name, _, place = name.partition(".")
    values = getattr(functions, name)(*args)
    return values[int(place)] if place else values


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return erf(x)


def _expit(x: Any) -> Any:
    from scipy.special import expit

    return expit(x)


# ---------------------------------------------------------------- Taylor coefficients


def _sigmoid_series(x: Interval, n: int) -> Coefficients:
    """`s(x) = (1 + tanh(x/2))/2`: those of tanh at x/2, the k-th over 2^(k+1)."""
    halved = tanh(x * 0.5, n)
    return stacked([SIGMOID(x), *(halved[k] * 0.5 ** (k + 1) for k in range(1, n + 1))])


def _softplus_series(x: Interval, n: int) -> Coefficients:
    """The derivative of log(1 + e^x) is the sigmoid."""
    slopes = _sigmoid_series(x, max(n - 1, 0))
    return stacked([SOFTPLUS(x), *(slopes[k] / float(k + 1) for k in range(n))])


def _logarithm_series(ufunc: str, base: float) -> Callable[[Interval, int], Coefficients]:
    """log(x)/log(base)."""
    number = np.float64(math.log(base))
    scale = Interval(below(below(number)), above(above(number)))  # type: ignore[arg-type]

    def series(x: Interval, n: int) -> Coefficients:
        natural = SERIES["log"](x, n)  # (K, *S)
        return stacked([intervals.UFUNCS[ufunc](x), *(natural[k] / scale for k in range(1, len(natural)))])

    return series


THIRD = Interval(below(np.float64(1 / 3)), above(np.float64(1 / 3)))  # type: ignore[arg-type]


def _cbrt_series(x: Interval, n: int) -> Coefficients:
    """Those of |x|^(1/3), for negative x with the sign (-1)^(k+1); nothing is known of slopes where x may be zero."""
    negative, unknown = x.hi < 0, (x.lo <= 0) & (x.hi >= 0)
    low, high = np.where(negative, -x.hi, x.lo), np.where(negative, -x.lo, x.hi)
    size = Interval(np.where(unknown, 1.0, low), np.where(unknown, 1.0, high), x.defined)
    found = [intervals.UFUNCS["cbrt"](x)]
    powers = power(size, THIRD, n)  # (K, *S)
    for k in range(1, len(powers)):
        each = powers[k]
        turned = negative & (k % 2 == 0)
        ends = np.where(turned, -each.hi, each.lo), np.where(turned, -each.lo, each.hi)
        found.append(Interval(np.where(unknown, -np.inf, ends[0]), np.where(unknown, np.inf, ends[1]), x.defined))
    return stacked(found)


def _arcsinh_series(x: Interval, n: int) -> Coefficients:
    """The derivative w = (1 + x²)^(-1/2) solves (1 + x²) w' = -x w.

    So `(1 + x²)(k+1) w_{k+1} = -(2k+1) x w_k - k w_{k-1}`.
    """
    room = 1.0 + x**2
    w = [1.0 / intervals.UFUNCS["sqrt"](room)]
    for k in range(n - 1):
        rest = -(x * float(2 * k + 1) * w[k])
        w.append((rest - float(k) * w[k - 1] if k else rest) / (room * float(k + 1)))
    return stacked([intervals.UFUNCS["arcsinh"](x), *(w[k] / float(k + 1) for k in range(n))])


# ---------------------------------------------------------------- the angle of a point


def _angle_enclosure(y: Interval, x: Interval) -> Interval:
    """On a box off the cut `y = 0, x <= 0` the angle is monotone along every edge, so its extremes are at corners.

    There x > 0, and the angle rises in y and is monotone in x for each y; or y has one sign, and it is the other way
    round. On boxes that meet the cut the angle has any value; at the origin it has none.
    """
    cut = (x.lo <= 0) & (y.lo <= 0) & (y.hi >= 0)
    origin = cut & (x.hi >= 0)
    with np.errstate(all="ignore"):
        corners = [np.arctan2(b, a) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    low, high = widen(np.minimum.reduce(corners), np.maximum.reduce(corners))
    top = float(np.nextafter(np.pi, 4.0))
    low, high = np.where(cut, -top, np.maximum(low, -top)), np.where(cut, top, np.minimum(high, top))
    return Interval(low, high, y.defined & x.defined & ~origin)


def _angle_jets(y: Any, x: Any) -> Jet:
    """By one of the three quotients; nothing is known of series on boxes that meet the cut."""
    base = y.basis if isinstance(y, Jet) else x.basis
    y, x = series_of_arrays.as_jet(base, y), series_of_arrays.as_jet(base, x)
    arctan, quarter = series_of_arrays.UFUNCS["arctan"], Jet.constant(base, HALF_PI)
    right, over, under = x.value.lo > 0, y.value.lo > 0, y.value.hi < 0
    upright = arctan(x / y)
    sideways = pick(over, under, quarter - upright, -(quarter + upright))
    return pick(right, (over | under) & ~right, arctan(y / x), sideways)


def _angle_on_ranges(y: Interval, x: Interval) -> str | None:
    """Off the cut."""
    if x.lo > 0:
        return "atan(a/b)"
    if y.lo > 0:
        return "pi/2 - atan(b/a)"
    return "-pi/2 - atan(b/a)" if y.hi < 0 else None


HALF_PI = Interval(below(np.float64(np.pi / 2)), above(np.float64(np.pi / 2)))  # type: ignore[arg-type]
SIGMOID = monotone(_expit, within=(0.0, 1.0))
SOFTPLUS = monotone(partial(np.logaddexp, 0.0), within=(0.0, np.inf))

TABLE = (
    _smooth("exp", np.exp),
    _smooth("expm1", np.expm1),
    _smooth("log", np.log, "ln", natural=(0.0, np.inf)),
    _smooth("log1p", np.log1p, natural=(-1.0, np.inf)),
    _smooth("log2", np.log2, series=_logarithm_series("log2", 2.0), natural=(0.0, np.inf)),
    _smooth("log10", np.log10, series=_logarithm_series("log10", 10.0), natural=(0.0, np.inf)),
    _smooth("sqrt", np.sqrt, natural=(0.0, np.inf)),
    _smooth("cbrt", np.cbrt, series=_cbrt_series),
    _smooth("sin", np.sin),
    _smooth("cos", np.cos),
    _smooth("tan", np.tan),
    _smooth("sinc", sinc),
    _smooth("asin", np.arcsin, natural=(-1.0, 1.0)),
    _smooth("acos", np.arccos, natural=(-1.0, 1.0)),
    _smooth("atan", np.arctan),
    _smooth("sinh", np.sinh),
    _smooth("cosh", np.cosh),
    _smooth("tanh", np.tanh),
    _smooth("asinh", np.arcsinh, series=_arcsinh_series),
    _smooth("erf", _erf, ufunc="erf"),
    _smooth("sigmoid", _expit, enclosure=SIGMOID, series=_sigmoid_series, ufunc="expit"),
    _smooth("softplus", partial(np.logaddexp, 0.0), enclosure=SOFTPLUS, series=_softplus_series, ufunc="softplus"),
    _special("gamma", "gamma"),
    _special("lgamma", "gammaln", "loggamma", natural=(0.0, np.inf)),
    _special("digamma", "psi", natural=(0.0, np.inf)),
    _of_order("besselj", "jv"),
    _of_order("bessely", "yv"),
    _of_order("besseli", "iv"),
    _of_order("besselk", "kv"),
    _special("airyai", "airy.0"),
    _special("airybi", "airy.2"),
    _special("si", "sici.0", "Si"),
    _special("ci", "sici.1", "Ci", natural=(0.0, np.inf)),
    _special("ei", "expi", "Ei"),
    _special("erfc", "erfc"),
    _special("erfinv", "erfinv", natural=(-1.0, 1.0)),
    _special("zeta", "zeta", natural=(1.0, np.inf)),
    _special("ellipk", "ellipk", "elliptic_k", natural=(-np.inf, 1.0)),
    _special("ellipe", "ellipe", "elliptic_e", natural=(-np.inf, 1.0)),
    ElementaryFunction(("abs",), 1, np.abs, ufunc="absolute"),
    ElementaryFunction(("sign",), 1, np.sign, ufunc="sign", jumps=True),
    ElementaryFunction(("min",), 2, np.minimum, ufunc="minimum", many=True),
    ElementaryFunction(("max",), 2, np.maximum, ufunc="maximum", many=True),
    ElementaryFunction(("where",), 3, np.where, jumps=True),
    ElementaryFunction(
        ("atan2",),
        2,
        np.arctan2,
        _angle_enclosure,
        _angle_jets,
        ufunc="arctan2",
        jumps=True,
        on_ranges=_angle_on_ranges,
    ),
    _named("sech", 1, "1/cosh(a)", lambda x: 1 / np.cosh(x)),
    _named("relu", 1, "max(a, 0)", lambda x: np.maximum(x, 0.0)),
    _named("clip", 3, "min(max(a, b), c)", np.clip),
    _named("hypot", 2, "sqrt(a**2 + b**2)", np.hypot, ufunc="hypot"),
)

FUNCTIONS: dict[str, ElementaryFunction] = {name: function for function in TABLE for name in function.names}
"""Functions by every name that users write."""

OPERATORS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "**": np.power,
    "neg": np.negative,
}

COMPARISONS: dict[str, Callable[..., Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

LOGIC: dict[str, Callable[..., Any]] = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}

OPERATIONS: dict[str, Callable[..., Any]] = {
    **OPERATORS,
    **COMPARISONS,
    **LOGIC,
    **{function.name: function for function in TABLE if not function.means},
}
"""Everything a program's nodes may name."""
TRUTHS = frozenset({*COMPARISONS, *LOGIC})
"""Operations whose result is a truth value."""
BY_FLINT = frozenset(function.name for function in TABLE if function.by_flint)
"""Functions that prover and judge enclose alike."""
JUMPS = frozenset({*TRUTHS, *(function.name for function in TABLE if function.jumps)})
"""Operations that need not be continuous where they are defined; all others are."""

CONSTANTS: dict[str, float] = {"pi": float(np.pi), "e": float(np.e)}
