"""Inclusion: whatever is inside the arguments, the result is inside the answer. Checked against ball arithmetic."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf

from attnfun.arithmetic import Interval, Untraceable
from attnfun.arithmetic.forms import Forms, Frame
from attnfun.arithmetic.interval import UFUNCS
from attnfun.formula.functions import FUNCTIONS

reals = st.floats(allow_nan=False, allow_infinity=False, width=64)
moderate = st.floats(-1e6, 1e6) | st.floats(-1e-300, 1e-300) | st.sampled_from([0.0, -0.0, 5e-324, 1.0, -1.0])


EXTREMES = [0.0, -0.0, 5e-324, 1e-310, 2.0**-1022, 1e-160, 1.0, 2.0**600, 1e300, float(np.finfo(float).max)]
extreme = st.sampled_from(EXTREMES) | st.sampled_from([-x for x in EXTREMES]) | reals


@st.composite
def interval_and_member(draw, numbers=reals):
    ends = sorted([draw(numbers), draw(numbers)])
    share = draw(st.sampled_from([0.0, 1.0]) | st.floats(0, 1))
    member = min(max(ends[0] + share * (ends[1] / 2 - ends[0] / 2) * 2, ends[0]), ends[1])
    return Interval(ends[0], ends[1]), member


def holds(interval: Interval, exact: Fraction) -> bool:
    low, high = float(interval.lo), float(interval.hi)
    return (low == -np.inf or Fraction(low) <= exact) and (high == np.inf or exact <= Fraction(high))


EXACT = {
    "add": (np.add, lambda a, b: a + b),
    "subtract": (np.subtract, lambda a, b: a - b),
    "multiply": (np.multiply, lambda a, b: a * b),
    "divide": (np.divide, lambda a, b: a / b if b else None),
    "minimum": (np.minimum, min),
    "maximum": (np.maximum, max),
}


@pytest.mark.parametrize("name", EXACT)
@given(interval_and_member(), interval_and_member())
def test_arithmetic_contains_the_exact_rational_result(name, left, right):
    ufunc, exact = EXACT[name]
    result = exact(Fraction(left[1]), Fraction(right[1]))
    if result is not None:
        assert holds(ufunc(left[0], right[0]), result)


@given(interval_and_member(moderate), st.integers(-6, 7))
def test_whole_powers_contain_the_exact_result(base, exponent):
    if base[1] != 0 or exponent >= 0:
        assert holds(base[0] ** exponent, Fraction(base[1]) ** exponent)


UNARY = {
    "exp": (np.exp, "exp", (-800, 800)),
    "expm1": (np.expm1, "expm1", (-800, 700)),
    "log": (np.log, "log", (0, 1e308)),
    "log1p": (np.log1p, "log1p", (-1, 1e308)),
    "sqrt": (np.sqrt, "sqrt", (0, 1e308)),
    "sin": (np.sin, "sin", (-1e9, 1e9)),
    "cos": (np.cos, "cos", (-1e9, 1e9)),
    "tan": (np.tan, "tan", (-1e5, 1e5)),
    "arcsin": (np.arcsin, "asin", (-1, 1)),
    "arccos": (np.arccos, "acos", (-1, 1)),
    "arctan": (np.arctan, "atan", (-1e300, 1e300)),
    "sinh": (np.sinh, "sinh", (-700, 700)),
    "cosh": (np.cosh, "cosh", (-700, 700)),
    "tanh": (np.tanh, "tanh", (-1e3, 1e3)),
    "erf": (erf, "erf", (-30, 30)),
    "sinc": (FUNCTIONS["sinc"], "sinc", (-30, 30)),
}


def ball_says_inside(name: str, x: float, interval: Interval, bits: int = 300) -> bool:
    """Does Arb allow the value to be in the interval? (It decides all but exact ties.)"""
    flint.ctx.prec = bits
    value = getattr(flint.arb(x), UNARY[name][1])()
    if not value.is_finite():
        return True
    return not (value < flint.arb(float(interval.lo))) and not (value > flint.arb(float(interval.hi)))


@pytest.mark.parametrize("name", UNARY)
def test_functions_contain_ball_arithmetic_at_many_points(name):
    function, _, (low, high) = UNARY[name]
    rng = np.random.default_rng(0)
    spread = [rng.uniform(low, high, 300), rng.uniform(max(low, -3), min(high, 3), 300)]
    tiny = np.ldexp(rng.uniform(-1, 1, 300), rng.integers(-1070, 3, 300))
    points = np.clip(np.concatenate([*spread, tiny, [low, high, 0.0, 5e-324]]), low, high)
    enclosed = function(Interval(points))
    assert all(ball_says_inside(name, float(x), enclosed[i]) for i, x in enumerate(points))
    bounded = np.isfinite(enclosed.lo) & np.isfinite(enclosed.hi)
    width, size = (enclosed.hi - enclosed.lo)[bounded], np.abs(enclosed.mid[bounded])
    assert (width <= 1e-13 * size + 1e-300).all()


@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
def test_functions_contain_every_member_of_an_interval(name, data):
    function, _, (low, high) = UNARY[name]
    near = st.floats(max(low, -20), min(high, 20)) | st.floats(low, high)
    box, member = data.draw(interval_and_member(near))
    assert ball_says_inside(name, float(member), function(box))


@pytest.mark.parametrize("name", UNARY)
def test_functions_hold_at_any_scale(name):
    """From the smallest float to the largest, and next to multiples of a quarter turn."""
    rng = np.random.default_rng(2)
    wild = np.ldexp(rng.uniform(-1, 1, 300), rng.integers(-1074, 1025, 300))
    turns = np.nextafter(rng.integers(-(10**7), 10**7, 100) * np.pi / 2, rng.choice([-np.inf, np.inf], 100))
    points = np.concatenate([wild, turns, EXTREMES, np.negative(EXTREMES)])
    function = UNARY[name][0]
    enclosed = UFUNCS[getattr(function, "ufunc", None) or function.__name__](Interval(points))
    defined = np.broadcast_to(enclosed.defined, points.shape)
    assert all(ball_says_inside(name, float(points[i]), enclosed[i], bits=1400) for i in np.flatnonzero(defined))


@given(st.floats(0, 50), st.floats(0, 50), st.floats(-5, 5), st.floats(-5, 5), st.floats(0, 1), st.floats(0, 1))
def test_real_powers_contain_every_member(a, b, p, q, s, t):
    base, exponent = sorted([a, b]), sorted([p, q])
    x = min(base[0] + s * (base[1] - base[0]), base[1])
    y = min(exponent[0] + t * (exponent[1] - exponent[0]), exponent[1])
    box = np.power(Interval(*base), Interval(*exponent))
    flint.ctx.prec = 300
    if x > 0:
        value = flint.arb(x) ** flint.arb(y)
        assert not (value < flint.arb(float(box.lo)))
        assert not (value > flint.arb(float(box.hi)))


def test_an_array_of_exponents_treats_whole_ones_as_whole():
    cubes = Interval([-2.0, 4.0, 4.0], [-1.0, 9.0, 9.0]) ** np.array([3.0, 0.5, -1.0])
    assert (cubes.lo <= [-8, 2, 1 / 9]).all()
    assert (cubes.hi >= [-1, 3, 1 / 4]).all()
    assert np.broadcast_to(cubes.defined, (3,)).all()


def test_arguments_that_change_a_ufunc_are_refused():
    with pytest.raises(Untraceable):
        np.add(Interval([0.0, 1.0]), 1.0, where=np.array([True, False]))
    with pytest.raises(Untraceable):
        np.add.reduce(Interval([0.0, 1.0]), initial=5.0)


def test_definedness_is_lost_at_the_edge_of_a_natural_domain():
    assert np.all(np.sqrt(1 - Interval(-1.0, 1.0) ** 2).defined)
    assert not np.all(np.sqrt(Interval(-1.0, 4.0)).defined)
    assert not np.all(np.log(Interval(0.0, 1.0)).defined)
    assert not np.all((1 / Interval(-1.0, 1.0)).defined)
    assert not np.all(np.tan(Interval(1.0, 2.0)).defined)
    nowhere = np.sqrt(Interval(-2.0, -1.0))
    assert nowhere.lo == -np.inf
    assert nowhere.hi == np.inf


def test_exact_operations_are_not_widened():
    assert (Interval(1.0) - Interval(1.0)).hi == 0
    assert (Interval(0.5) * Interval(3.0)).lo == 1.5
    assert np.sqrt(Interval(9.0)).lo == np.sqrt(Interval(9.0)).hi == 3
    third = Interval(1.0) / Interval(3.0)
    assert third.lo < third.hi


@given(st.lists(st.floats(-1e10, 1e10), min_size=1, max_size=40))
def test_sums_and_products_with_matrices_contain_the_exact_result(numbers):
    exact = sum((Fraction(x) for x in numbers), Fraction(0))
    assert holds(Interval(numbers).sum(0), exact)
    ones = np.ones((len(numbers), 1))
    assert holds((Interval([numbers]) @ ones)[0, 0], exact)


@given(st.lists(extreme, min_size=1, max_size=8), st.lists(extreme, min_size=8, max_size=8))
def test_sums_and_products_with_matrices_hold_at_any_scale(numbers, others):
    """Partial sums may overflow though the sum does not, and products may underflow."""
    total = Interval(numbers).sum(0)
    assert holds(total, sum(map(Fraction, numbers), Fraction(0)))
    weights = np.array(others[: len(numbers)])
    exact = sum((Fraction(x) * Fraction(w) for x, w in zip(numbers, weights.tolist(), strict=True)), Fraction(0))
    with np.errstate(all="ignore"):
        assert holds((Interval([numbers]) @ weights[:, None])[0, 0], exact)


def test_no_end_is_nan():
    huge, unknown = Interval([1e308, 1e308, -1e308, -1e308]), Interval(-np.inf, np.inf)
    sum_ = huge.sum(0)
    for result in (sum_, unknown - unknown, unknown * 0.0, unknown / unknown, Interval(np.nan), np.abs(unknown)):
        assert not np.isnan(result.lo)
        assert not np.isnan(result.hi)
    assert sum_.lo <= 0 <= sum_.hi
    assert unknown.mid == 0
    assert unknown.radius == np.inf


def test_a_comparison_with_an_unknown_number_is_undecided():
    """`inf - inf` may be any number: no branch of `where` is certain."""
    for unknown in (Interval([1e308] * 4 + [-1e308] * 4).sum(0), Interval(np.nan, np.nan), Interval(np.inf) - np.inf):
        for truth in (unknown < 0.5, unknown <= 0.5, unknown > 0.5, unknown >= 0.5):
            assert not truth.surely
            assert truth.possibly
        either = np.where(unknown < 0.5, Interval(1.0), Interval(2.0))
        assert (either.lo, either.hi) == (1.0, 2.0)


def test_nan_is_a_number_nowhere():
    chosen = np.where(Interval([0.0, 2.0], [1.0, 3.0]) < 1.5, np.nan, Interval(1.0))
    assert chosen.defined.tolist() == [False, True]


@pytest.mark.parametrize("exponent", [1e15 + 1, -(1e15 + 1), 2.0**53, 1e300, -1e300, np.inf, np.nan])
def test_exponents_of_any_size(exponent):
    """x**p for |x| on both sides of one, with the sign that the exponent's parity says."""
    result = np.power(Interval([-1.0, -2.0, -0.5, 0.5, 2.0]), exponent)
    if not np.isfinite(exponent):
        assert not result.defined[0]
        return
    signs = np.array([-1.0, -1.0, -1.0, 1.0, 1.0]) if exponent % 2 else np.ones(5)
    with np.errstate(all="ignore"):
        values = signs * np.array([1.0, 2.0, 0.5, 0.5, 2.0]) ** np.float64(exponent)
    assert ((result.lo <= values) & (values <= result.hi)).all()


def test_a_branch_on_a_value_is_refused():
    with pytest.raises(Untraceable, match="branch"):
        bool(Interval(0.0, 1.0))
    with pytest.raises(Untraceable, match="rint"):
        np.rint(Interval(0.0, 1.0))
    with pytest.raises(Untraceable, match="array"):
        np.asarray(Interval(0.0, 1.0))


def test_every_formula_function_has_an_interval_version():
    from attnfun.formula.functions import OPERATORS, TABLE

    for function in TABLE:
        if not function.means:
            assert isinstance(function(*[Interval(0.25, 0.5)] * function.arity), Interval)
    assert {operator.__name__ for operator in OPERATORS.values()} <= set(UFUNCS)


def test_affine_forms_count_products_with_powers_of_two_that_underflow():
    frame = Frame.of(np.array([-1.0]), np.array([1.0]))
    form = Forms.exact(np.array([[0.0, 3 * 2.0**-1040]]), frame)
    assert (form.scaled(2.0**-35).slack > 0).all()
    assert (form.mapped(np.array([[2.0**-35]]), np.zeros(1)).slack > 0).all()
    normal = Forms.exact(np.array([[0.0, 3.0]]), frame)
    assert (normal.scaled(2.0**-35).slack == 0).all()
    assert (normal.mapped(np.array([[2.0**-35]]), np.zeros(1)).slack == 0).all()
