"""Taylor series and the bounds made of them: what is not known, a kink or a tail, must never be taken for zero."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf

import attnfun as af
from attnfun.arithmetic import Interval, Jet, Untraceable
from attnfun.arithmetic.basis import basis
from attnfun.arithmetic.jet_functions import UFUNCS, divide, multiply
from attnfun.arithmetic.jets import variables
from attnfun.arithmetic.series import SERIES, power, whole
from attnfun.constructions import REGISTRY, PlanRequest
from attnfun.domains.box import Box, as_box
from attnfun.formula.functions import FUNCTIONS
from attnfun.judge import values_at
from attnfun.network import Affine, Attention, Network
from attnfun.network.reference import run
from attnfun.proofs import heads
from attnfun.proofs.enclosure import Encloser
from attnfun.proofs.polynomials import reaches
from attnfun.proofs.provers.boxes import bound_error
from attnfun.proofs.taylor import TaylorBounds
from attnfun.targets import Expression, as_target
from clocks import readings

KINKS = ["abs(x)", "sign(x)", "min(x, 0)", "max(0, x)", "where(x <= 0, 1, cos(x))"]
AFTERWARDS = ["{}", "2*{}", "{}*2", "x*{}", "{}*{}", "-3*(1 - 2*{})", "sin(2*{})", "(2*{})**2", "exp({}*0.5)/(3 + x)"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("after", AFTERWARDS)
@pytest.mark.parametrize("kink", KINKS)
def test_no_remainder_is_claimed_across_a_kink(kink, after, count):
    """Over a box that straddles the kink the coefficients of top degree are unknown; beside it, all are known."""
    domain = as_box(dict.fromkeys(("x", "y")[:count], (-1, 1)))
    target = as_target(after.replace("{}", kink), domain)
    low, high = np.full((2, count), -0.1), np.full((2, count), 0.3)
    low[1] = 0.1  # the second box lies beside the kink, in the same batch
    with np.errstate(invalid="ignore"):  # unbounded intervals have no midpoint
        series = target.jets(variables(Interval(low, high), degree=4))
    top = series.basis.degrees == series.basis.degree
    assert np.isinf(series.rad[0][:, top]).all()
    assert np.isfinite(series.rad[1]).all()


def test_a_choice_between_two_that_are_one_has_its_series_where_the_condition_is_defined():
    at = variables(Interval([[-0.1], [0.1]], [[0.3], [0.3]]), degree=3)
    series = {
        text: as_target(text, as_box({"x": (-1, 1)})).jets(at)
        for text in ("sin(x)", "where(x <= 0, sin(x), sin(x))", "where(sqrt(x) <= 1, sin(x), sin(x))")
    }
    plain, chosen, doubtful = series.values()
    assert np.array_equal(chosen.mid, plain.mid)
    assert np.array_equal(chosen.rad, plain.rad)
    assert np.isinf(doubtful.rad[0]).all()
    assert np.array_equal(doubtful.rad[1], plain.rad[1])


@pytest.mark.parametrize("text", ["2**(x**0)", "sin(2**(x**0)) + x", "(2 + y)**(x**0)"])
def test_a_power_whose_exponent_is_the_same_number_everywhere(text):
    """It is known up to rounding at every point, and the base may be one number."""
    net = af.compile(text, dict.fromkeys("xy"[: 1 + ("y" in text)], (0, 4.9)), 0.02)
    assert net.certificate.proved


@pytest.mark.parametrize("construction", ["grid", "cross", "spectral"])
@pytest.mark.parametrize("text", ["3*min(x, 0.1)", "2*abs(x - 0.1)", "x*max(x, 0.1)"])
def test_series_bounds_hold_across_a_kink(text, construction):
    """The centre of the box sees one side of the kink only; the bound must cover the other too."""
    domain = as_box({"x": (-1, 0.7)})
    target, theorem = as_target(text, domain), REGISTRY[construction]
    network = theorem.build(target, theorem.plan(target, PlanRequest(None, 100, {"tokens": 30})), "float64")
    encloser = Encloser(network)
    for low, high in [(0.096, 0.11), (0.05, 0.2), (0.08, 0.102)]:
        box = Interval([[low]], [[high]])
        _, focus = encloser(box.reshape(1, *network.shape_in), encloser.start())
        bound = TaylorBounds(target, network, encloser.banks)(box, focus).bound
        points = np.linspace(low, high, 501)[:, None]
        error = np.abs(run(network, points[:, None]).reshape(-1, 1) - target.values(points))
        assert error.max() <= bound[0]


def test_series_bounds_cover_a_tail_far_from_the_data_token(monkeypatch):
    """Dropped tokens pull away from the data token's value, even if all memory values are equal."""
    monkeypatch.setattr(heads, "NEGLIGIBLE", 1.0)  # a tail large enough to see
    target = as_target("0.5 + 0*x", as_box({"x": (-1, 1)}))
    select = np.eye(4)  # a token is (x, query, key, value); the data token has key 0 and value 1
    memory = np.array([[0.0, 0.0, -3.0, 0.0]] * 5 + [[0.0, 0.0, 0.0, 0.0]])
    head = Attention(
        query=select[None, :, 1:2],
        query_bias=np.zeros((1, 1)),
        key=select[None, :, 2:3],
        key_bias=np.zeros((1, 1)),
        value=select[None, :, 3:4],
        value_bias=np.zeros((1, 1)),
        output=np.ones((1, 1, 1)),
        output_bias=np.zeros(1),
        memory=memory,
        attends_data=True,
    )
    network = Network((Affine.tokenwise(select[:1], np.array([0.0, 1.0, 0.0, 1.0])), head), 1, "float64")
    encloser, box = Encloser(network), Interval([[-0.1]], [[0.1]])
    _, focus = encloser(box.reshape(1, 1, 1), encloser.start())
    assert focus[0].active.lengths.tolist() == [1]
    bound = TaylorBounds(target, network, encloser.banks)(box, focus).bound
    error = abs(run(network, np.zeros((1, 1, 1))).item() - 0.5)
    assert 0.05 < error <= bound[0]


ARB = {
    "exp": ("exp", -2.0, 2.0),
    "expm1": (lambda t: t.exp() - 1, -2.0, 2.0),
    "log": ("log", 0.2, 3.0),
    "log1p": (lambda t: (t + 1).log(), -0.5, 3.0),
    "sqrt": ("sqrt", 0.2, 3.0),
    "sin": ("sin", -9.0, 9.0),
    "cos": ("cos", -9.0, 9.0),
    "tan": ("tan", -1.2, 1.2),
    "arctan": ("atan", -4.0, 4.0),
    "arcsin": ("asin", -0.8, 0.8),
    "arccos": ("acos", -0.8, 0.8),
    "sinh": (lambda t: (t.exp() - (-t).exp()) / 2, -2.0, 2.0),
    "cosh": (lambda t: (t.exp() + (-t).exp()) / 2, -2.0, 2.0),
    "tanh": (lambda t: (t.exp() - (-t).exp()) / (t.exp() + (-t).exp()), -2.0, 2.0),
    "erf": ("erf", -2.0, 2.0),
    "sinc": (lambda t: t.sin() / t, 0.01, 9.0),
    "reciprocal": (lambda t: 1 / t, 0.3, 2.0),
    "square": (lambda t: t * t, -2.0, 2.0),
}
DEGREE = 12


def arb_coefficients(name: str, x: float) -> list[flint.arb]:
    """Taylor coefficients at a point in ball arithmetic."""
    flint.ctx.prec, flint.ctx.cap = 300, DEGREE + 1
    t = flint.arb_series([flint.arb(x), 1])
    rule = ARB[name][0]
    result = getattr(t, rule)() if isinstance(rule, str) else rule(t)
    return [result[k] for k in range(DEGREE + 1)]


def jet_of(name: str, x: Interval) -> Jet:
    function = {"erf": erf, "sinc": FUNCTIONS["sinc"]}.get(name) or getattr(np, name)
    return function(variables(x.reshape(-1, 1), DEGREE)[:, 0])


def test_every_series_is_checked():
    assert set(ARB) == set(SERIES)


@pytest.mark.parametrize("name", ARB)
def test_series_at_points_contain_ball_arithmetic(name):
    low, high = ARB[name][1:]
    points = np.random.default_rng(0).uniform(low, high, 20)
    jet = jet_of(name, Interval(points))
    for row, x in enumerate(points):
        for k, exact in enumerate(arb_coefficients(name, float(x))):
            mid, rad = flint.arb(float(jet.mid[row, k])), flint.arb(float(jet.rad[row, k]))
            assert abs(exact - mid) <= rad
    assert (jet.rad <= 1e-8 * (np.abs(jet.mid) + np.abs(jet.mid).max(axis=1, keepdims=True))).all()


@pytest.mark.parametrize("name", ARB)
def test_series_over_boxes_contain_those_of_their_points(name):
    low, high = ARB[name][1:]
    rng = np.random.default_rng(1)
    for width in (1e-6, 1e-2, 0.2):
        start = rng.uniform(low, high - width)
        jet = jet_of(name, Interval([start], [start + width]))
        for x in (start, start + 0.37 * width, start + width):
            for k, exact in enumerate(arb_coefficients(name, float(min(x, start + width)))):
                assert abs(exact - flint.arb(float(jet.mid[0, k]))) <= flint.arb(float(min(jet.rad[0, k], 1e300)))


WILD_DEGREE, WILD_BITS = 6, 2400


def wild(rng: np.random.Generator, shape: tuple[int, ...], least: int = -1074, most: int = 1000) -> np.ndarray:
    """Numbers of all sizes from 2^least to 2^most, some of them zero."""
    numbers = np.ldexp(rng.uniform(-1, 1, shape), rng.integers(least, most, shape))
    return np.where(rng.random(shape) < 0.15, 0.0, numbers)


def wild_jets(rng: np.random.Generator, count: int, degree: int) -> tuple[Jet, list[flint.arb_series]]:
    """Series (count,) of one variable with coefficients of all sizes, and a member of each."""
    base = basis(1, WILD_DEGREE)
    scales = [(-1074, 1000), (-1074, -900), (-8, 2), (300, 1000)]
    mid = wild(rng, (count, base.size), *scales[rng.integers(len(scales))])
    mid[:, 0] = wild(rng, (count,), *scales[rng.integers(len(scales))])
    rad = np.abs(mid) * rng.choice([0, 1e-16, 1e-3], mid.shape) + rng.choice([0, 5e-324, 1e-310, 1e-200], mid.shape)
    rad *= rng.integers(0, 2)
    mid[:, degree + 1 :] = rad[:, degree + 1 :] = 0.0
    rows = zip(mid.tolist(), rad.tolist(), rng.integers(-1, 2, mid.shape).tolist(), strict=True)
    members = [[flint.arb(m) + e * flint.arb(r) for m, r, e in zip(*row, strict=True)] for row in rows]
    return Jet(base, mid, rad, degree), [flint.arb_series(member) for member in members]


def beaten(jet: Jet, members: list[flint.arb_series | None]) -> list[tuple[int, int]]:
    """Rows and coefficients of series (B,) that their exact members lie outside of."""
    found = []
    for row, member in enumerate(members):
        for k in range(jet.basis.size):
            exact = flint.arb(0) if member is None else member[k]
            if member is None or not exact.is_finite() or not np.isfinite(jet.rad[row, k]):
                continue
            if abs(exact - flint.arb(float(jet.mid[row, k]))) > flint.arb(float(jet.rad[row, k])):
                found.append((row, k))
    return found


def exact_of(name: str, member: flint.arb_series) -> flint.arb_series | None:
    """A function of a series in ball arithmetic; None where it is not defined, or a quotient by zero."""
    rule = ARB[name][0]
    if name in ("sinc", "reciprocal") and not abs(member[0]) > 0:
        return None
    try:
        return getattr(member, rule)() if isinstance(rule, str) else rule(member)
    except (ValueError, ZeroDivisionError):
        return None


@given(st.integers(0, 2**31), st.sampled_from([0, 1, 2, WILD_DEGREE]), st.sampled_from([0, 1, WILD_DEGREE]))
def test_arithmetic_of_series_holds_at_any_scale(seed, degree_a, degree_b):
    rng = np.random.default_rng(seed)
    flint.ctx.prec, flint.ctx.cap = WILD_BITS, WILD_DEGREE + 1
    (a, some), (b, others) = wild_jets(rng, 6, degree_a), wild_jets(rng, 6, degree_b)
    pairs = list(zip(some, others, strict=True))
    with np.errstate(all="ignore"):
        assert not beaten(a + b, [x + y for x, y in pairs])
        assert not beaten(multiply(a, b), [x * y for x, y in pairs])
        assert not beaten(divide(a, b), [x / y if abs(y[0]) > 0 else None for x, y in pairs])
        assert not beaten(a.reshape(1, 6).sum(1), [sum(some, flint.arb_series([0]))])
        weight, bias = wild(rng, (6, 1), -1074, int(rng.choice([-1030, 1000]))), wild(rng, (1,))
        total = sum((x * flint.arb(w) for x, w in zip(some, weight[:, 0].tolist(), strict=True)), flint.arb_series([0]))
        assert not beaten(a.reshape(1, 6).linear(weight, bias)[0], [total + flint.arb(float(bias[0]))])


@pytest.mark.parametrize("name", ARB)
def test_functions_of_series_hold_at_any_scale(name):
    flint.ctx.prec, flint.ctx.cap = WILD_BITS, WILD_DEGREE + 1
    rng, function = np.random.default_rng(3), UFUNCS[name]
    for degree in (1, 2, WILD_DEGREE):
        for _ in range(4):
            inner, members = wild_jets(rng, 12, degree)
            with np.errstate(all="ignore"):
                assert not beaten(function(inner), [exact_of(name, member) for member in members])


@pytest.mark.parametrize("name", ARB)
def test_coefficients_of_high_degree_hold_at_any_scale(name):
    """Up to degree 30: factorials beyond 22! are no floats."""
    rng, degree = np.random.default_rng(4), 30
    flint.ctx.prec, flint.ctx.cap = WILD_BITS, degree + 1
    points = np.concatenate([wild(rng, (12,)), wild(rng, (12,), -4, 3), wild(rng, (6,), 0, 10)])
    coefficients = SERIES[name](Interval(points), degree)
    for row, x in enumerate(points.tolist()):
        exact = exact_of(name, flint.arb_series([flint.arb(x), 1]))
        for k, coefficient in enumerate(coefficients if exact is not None else []):
            low, high = (float(np.broadcast_to(end, points.shape)[row]) for end in (coefficient.lo, coefficient.hi))
            assert not exact[k].is_finite() or not (exact[k] < flint.arb(low) or exact[k] > flint.arb(high))


def test_whole_numbers_are_enclosed():
    for number in (1, 6, math.factorial(22), math.factorial(23), math.comb(70, 35), math.factorial(200)):
        for signed in (number, -number):
            enclosed = whole(signed)
            assert enclosed.lo == -np.inf or int(enclosed.lo) <= signed
            assert enclosed.hi == np.inf or signed <= int(enclosed.hi)
    assert whole(math.factorial(22)).lo == whole(math.factorial(22)).hi


def test_a_power_whose_parity_is_lost_is_unknown():
    """(-1)^(p-1) for p = 1e17: the exponent is no float, so the sign is unknown."""
    slope = power(Interval([-1.0, 0.5]), Interval(1e17), 1)[1]
    assert np.isinf(slope.lo[0])
    assert np.isfinite(slope.hi[1])


def test_half_widths_of_all_sizes_give_their_powers():
    """A power of one axis underflows, its product with that of another axis does not."""
    base = basis(2, 12)
    radius = np.array([[1e-60, 1e60], [1e-12, 1e-12], [1e100, 1e-100]])
    for row, reach in zip(radius.tolist(), reaches(base, radius), strict=True):
        for (first, second), size in zip(base.exponents.tolist(), reach.tolist(), strict=True):
            exact = Fraction(row[0]) ** first * Fraction(row[1]) ** second
            assert size == np.inf or exact <= Fraction(size)


def test_an_error_that_was_met_is_a_lower_bound():
    """The formula is 1, but at every point its enclosure has a width of 2 or more: no error has been met."""
    target = as_target("(1e16*x + 1) - 1e16*x", as_box({"x": (0.5, 1)}))
    outcome = bound_error(target, bank_of([[0.0, 0.0]], [1.0]), 0.5, most=100)
    assert outcome.found == 0
    assert outcome.bound > 0.5


def test_a_goal_below_an_error_that_was_met_is_given_up():
    target = as_target("x", as_box({"x": (0.5, 1)}))
    outcome = bound_error(target, bank_of([[0.0, 0.0]], [0.0]), 0.25)
    assert 0.25 < outcome.found <= 1 <= outcome.bound


@pytest.mark.parametrize("norm", [np.inf, 1.0])
def test_a_search_among_neighbouring_floats_ends(norm):
    """Few floats, and a wave that none of them can follow: neighbours are settled, the other axis is still cut."""
    domain = as_box({"x": (1e6, np.nextafter(1e6, np.inf) + 2.0**-31), "y": (0, 1)})
    target = as_target("sin(1e20*x)*0.001 + y", domain)
    outcome = bound_error(target, bank_of([[0.0, 0.0]], [0.0], variables=2), None, norm=norm, most=20_000)
    assert np.isfinite(outcome.bound)
    assert outcome.boxes < 20_000


def test_a_pole_between_neighbouring_floats_is_refused():
    with pytest.raises(af.errors.InputError, match="exp"):
        af.compile("exp(x) - 1", {"x": (1e6, 1e6 + 1e-3)}, 0.1)


@pytest.mark.parametrize(("variables_", "degree"), [(1, 8), (2, 5), (3, 4), (5, 2)])
def test_polynomial_plus_remainder_encloses_the_target(variables_, degree):
    names = ["a", "b", "c", "d", "e"][:variables_]
    total = " + ".join(f"{k + 1}*{name}" for k, name in enumerate(names))
    text = f"sin({total})/(3 + {names[0]}**2) + exp(-{names[-1]})*log(4 + {total}) + sqrt(5 + {total})"
    target = as_target(text, as_box(dict.fromkeys(names, (-0.2, 0.3))))
    rng = np.random.default_rng(2)
    for width in (0.01, 0.1):
        low = rng.uniform(-0.2, 0.3 - width, (8, variables_))
        boxes = Interval(low, low + width)
        at, over = (target.jets(variables(where, degree)) for where in (Interval(boxes.mid), boxes))
        base = at.basis
        last = base.degrees == degree
        mid, rad = np.where(last, over.mid, at.mid)[:, 0], np.where(last, over.rad, at.rad)[:, 0]  # (8, C)
        points = rng.uniform(low[:, None], low[:, None] + width, (8, 200, variables_))
        steps = points - boxes.mid[:, None]
        powers = np.prod(steps[:, :, None, :] ** base.exponents, axis=3)  # (8, 200, C)
        centre, reach = (powers @ mid[..., None])[..., 0], (np.abs(powers) @ rad[..., None])[..., 0]
        values = target.values(points.reshape(-1, variables_)).reshape(8, 200)
        assert (np.abs(values - centre) <= reach + 1e-14).all()


def bank_of(keys: list[list[float]], values: list[float], variables: int = 1) -> Network:
    """One head on (x, 1), x the first variable, with these keys and values."""
    select = np.eye(3)
    head = Attention(
        query=np.eye(2)[None],
        query_bias=np.zeros((1, 2)),
        key=select[None, :, :2],
        key_bias=np.zeros((1, 2)),
        value=select[None, :, 2:],
        value_bias=np.zeros((1, 1)),
        output=np.ones((1, 1, 1)),
        output_bias=np.zeros(1),
        memory=np.hstack([np.array(keys), np.array(values)[:, None]]),
    )
    return Network((Affine.tokenwise(np.eye(variables, 1) @ np.eye(1, 2), np.array([0.0, 1.0])), head), 1, "float64")


def test_a_weight_that_underflows_at_the_centre_counts_at_the_corner():
    """e^-745 is no float, but on the far side of the box the same token has weight e^-36 and value 1e16."""
    network, target = bank_of([[0.0, 0.0], [709.0, -745.2]], [0.0, 1e16]), as_target("0*x", as_box({"x": (-1, 1)}))
    at_corner = abs(run(network, np.ones((1, 1, 1))).item())
    outcome = bound_error(target, network, None)
    assert 1 < at_corner <= outcome.bound
    assert at_corner <= outcome.parts["construction"] * (1 + 1e-9)


@pytest.mark.parametrize(
    "text", ["(1e-200*x)*(1e-200*x)*1e300*1e300", "exp(-500*(2 + x))*exp(-500*(2 + x))*1e300*1e300"]
)
def test_a_product_too_small_for_a_float_is_not_zero(text):
    target = as_target(text, as_box({"x": (-1, 1)}))
    exact = float(values_at(text, ("x",), np.array([[-0.9]]))[0][0, 0])
    assert exact > 1e100
    assert exact <= bound_error(target, bank_of([[0.0, 0.0]], [0.0]), None, readings(100)).bound


@pytest.mark.parametrize("p", [1, 2, 10, 1e6])
@pytest.mark.parametrize("widths", [(1,), (1e60,), (1e60, 1e-60), (1e-90,) * 4])
@pytest.mark.parametrize("size", [1e-307, 1e-164, 1e-33, 1e300])
def test_an_lp_bound_holds_at_any_scale(size, widths, p):
    """A constant error on a box: neither its p-th power nor the volume need be floats."""
    domain = as_box({name: (0, width) for name, width in zip("abcd", widths, strict=False)})
    target, network = as_target(f"{size} + 0*a", domain), bank_of([[0.0, 0.0]], [0.0], variables=len(widths))
    bound = bound_error(target, network, None, norm=p, most=1).bound
    flint.ctx.prec = 300
    exact = flint.arb(size)
    for width in widths:
        exact *= flint.arb(width) ** (1 / flint.arb(p))
    assert not (flint.arb(bound) < exact)
    ordinary = size > 1e-200 and flint.arb(1e-300) < exact < flint.arb(1e307)
    assert not ordinary or flint.arb(bound) <= exact * flint.arb(1 + 1e-12)


def test_an_lp_bound_of_a_formula_holds_at_any_scale():
    options = {"construction": "grid", "options": {"tokens": 5}, "proof": False}
    net = af.compile("1e-33*sin(3*x/1e60)", {"x": (0, 1e60)}, norm=10, **options)
    points = np.linspace(0, 1, 2001)[1::2]
    errors = np.abs(net(points * 1e60) - 1e-33 * np.sin(3 * points)) / 1e-33
    sampled = np.mean(errors**10) ** 0.1 * 1e-27
    assert 0.5 * sampled <= net.certificate.found <= 2 * sampled
    bound = bound_error(net.certificate.claim.target, net.network, None, norm=10, most=100).bound
    assert sampled <= bound * 1.01  # the midpoint rule's own error


def test_weights_and_values_whose_products_underflow_count():
    """On the whole box a token's weight may be e^-600 and its value is 1e-70, yet at one end it is the average."""
    network, target = bank_of([[0.0, 0.0], [600.0, 0.0]], [1e-70, 0.0]), as_target("0*x", as_box({"x": (-1, 1)}))
    assert run(network, -np.ones((1, 1, 1))).item() == 1e-70
    assert bound_error(target, network, None, most=1).bound >= 1e-70


@pytest.mark.parametrize("text", ["abs(y)", "min(y, 0)", "max(0, y)", "min(0, y)", "max(y, 0)"])
def test_functions_that_only_touch_say_nothing_of_each_other(text):
    """Where both orders hold, at a single point, the series of either function may be wrong: nothing is known."""
    target = as_target(text, as_box({"y": (-1, 1)}))
    at = variables(Interval([[0.0], [0.5]]), 4)
    square = multiply(at, at)
    assert not square.value.magnitude[0].any()
    series = target.jets(-square)
    assert np.isinf(series.rad[0]).all()
    assert np.isfinite(series.rad[1]).all()


def test_self_attention_without_memory_is_bounded():
    """Two tokens that look at each other only: close to the identity at no point, yet bounded."""
    one, none = np.ones((1, 1, 1)), np.zeros((1, 1))
    head = Attention(one, none, one, none, one, none, one, np.zeros(1), np.zeros((0, 1)), attends_data=True)
    network = Network((head,), 2, "float64")
    domain = Box([[-1.0], [-1.0]], [[1.0], [1.0]])
    target = as_target(lambda X: X, domain)
    points = domain.sample(2000, np.random.default_rng(0)).reshape(-1, 2, 1)
    largest = np.abs(run(network, points) - points).max()
    bound = bound_error(target, network, None).bound
    assert largest <= bound <= 1.1 * largest


def test_a_traced_function_may_ask_for_axes():
    target = as_target(lambda p: np.sum(p * p, axis=p.ndim - 1), as_box([(-1, 1)] * 2))
    series = target.jets(variables(Interval([[0.25, -0.5]]), 2))
    np.testing.assert_allclose(series.mid[0, 0], [0.3125, 0.5, -1.0, 1.0, 0.0, 1.0])


# ---------------------------------------------------------------- what is not differentiable is never a constant

C = 0.500013
BUMP = "(1-(1e5*(x-0.500013))**2)"
WINDOW = "0.500003<x<0.500023"
HIDDEN = [
    f"sin(3*x)+{BUMP}*where({WINDOW},1,0)",
    f"sin(3*x)+{BUMP}*where(not ({WINDOW}),0,1)",
    f"sin(3*x)+{BUMP}*where(x<=0.500003 or x>=0.500023,0,1)",
    f"sin(3*x)+{BUMP}*where(x>0.500003,where(x<0.500023,1,0),0)",
    f"sin(3*x)+{BUMP}*(1-where({WINDOW},0,1))",
    f"sin(3*x)+{BUMP}*where({WINDOW},1,0)**2",
    f"sin(3*x)+{BUMP}*(sqrt(1+3*where({WINDOW},1,0))-1)",
    f"sin(3*x)+{BUMP}*exp(where({WINDOW},0,-40))",
    f"sin(3*x)+{BUMP}*(1+sign(x-0.500003))*(1-sign(x-0.500023))/4",
    f"sin(3*x)+max({BUMP},0)",
    f"sin(3*x)+({BUMP}+abs({BUMP}))/2",
    f"sin(3*x)+{BUMP}*2**where({WINDOW},0,-60)",
]
"""Functions, continuous or nearly, that differ from sin(3x) in a window narrower than the boxes of a search."""


def traced_windows() -> list[Any]:
    low, high = 0.500003, 0.500023

    def bump(x: Any) -> Any:
        return 1 - (1e5 * (x - C)) ** 2

    return [
        lambda p: np.sin(3 * p) + np.where((p > low) & (p < high), 1.0, 0.0) * bump(p),
        lambda p: np.sin(3 * p) + (1.0 * ((p > low) & (p < high))) * bump(p),
        lambda p: np.sin(3 * p) + np.where(~((p <= low) | (p >= high)), 1.0, 0.0) * bump(p),
        lambda p: np.sin(3 * p) + (p > low) * (1.0 * (p < high)) * bump(p),
        lambda p: np.sin(3 * p) + np.where(np.logical_and(p > low, p < high), bump(p), 0.0),
        lambda p: np.sin(3 * p) + np.where(1.0 * (p > low) - 1.0 * (p >= high), bump(p), 0.0),
    ]


def assert_not_smooth(jet: Jet) -> None:
    """The series of sin(3x) plus a bump inside [0.5, 0.5001] must not be known over that box."""
    assert not np.isfinite(jet.rad).all()


@pytest.mark.parametrize("text", HIDDEN)
def test_a_hidden_window_is_unknown_over_the_box_that_holds_it(text: str) -> None:
    target = Expression(text, Box([-1], [1], ("x",)))
    for degree in (1, 2, 5):
        with np.errstate(invalid="ignore"):  # unbounded intervals have no midpoint
            assert_not_smooth(target.jets(variables(Interval([[0.5]], [[0.5001]]), degree)))
        beside = target.jets(variables(Interval([[0.4]], [[0.4001]]), degree))
        assert np.isfinite(beside.rad).all()


@pytest.mark.parametrize("text", HIDDEN[::5])
def test_a_hidden_window_is_never_proved_away(text: str) -> None:
    try:
        net = af.compile(text, {"x": (-1, 1)}, options={"tokens": 8}, construction="spectral", time_limit=readings(900))
    except af.errors.AttnfunError:
        return
    assert net.certificate.bound >= abs(net(C) - np.sin(3 * C) - 1) - 1e-9


@pytest.mark.parametrize("number", range(6))
def test_a_hidden_window_of_a_traced_function_is_never_proved_away(number: int) -> None:
    function = traced_windows()[number]
    try:
        net = af.compile(function, (-1, 1), options={"tokens": 8}, construction="spectral", time_limit=readings(900))
    except af.errors.AttnfunError:
        return
    if net.certificate.status is af.types.Status.PROVED:
        assert net.certificate.bound >= abs(net(C) - np.sin(3 * C) - 1) - 1e-9


@pytest.mark.parametrize("text", ["where(0.30001<x<0.30011,1000,0)", "where(sin(30*x)<0.9,0,1)"])
def test_a_hidden_window_counts_in_the_mean(text: str) -> None:
    net = af.compile(text, {"x": (0, 3)}, norm=1, options={"tokens": 4}, construction="grid", time_limit=readings(900))
    points = np.linspace(0, 3, 200_001)
    values = Expression(text, Box([0], [3], ("x",))).values(points[:, None])[:, 0]
    assert net.certificate.bound >= 0.9 * 3 * float(np.abs(values - net(points)).mean())


def test_an_interval_is_not_taken_for_a_constant_series() -> None:
    x = variables(Interval([[0.0]], [[1.0]]), 2)[:, 0]
    with pytest.raises(Untraceable, match="derivatives"):
        _ = x * Interval(0.0, 1.0)


def test_a_function_outside_its_domain_has_no_series() -> None:
    """x**2.5 has two bounded derivatives, but no value left of zero."""
    x = variables(Interval([[-1e-9]], [[1.0]]), 2)[:, 0]
    assert np.isinf((x**2.5).rad[:, 0]).all()


def test_conditions_keep_their_kind() -> None:
    x = variables(Interval([[0.0, 0.0]], [[0.4, 0.6]]), 1)  # (1, 2)
    both = (x < 0.5)[..., 0] & ~(x > 0.7).reshape(1, 2)[..., 1]
    assert both.surely.all()
    assert np.all(x < 0.7, axis=1).surely.all()
    assert not (x < 0.5).all(1).surely.any()
    with pytest.raises(Untraceable, match="truth values alone"):
        _ = (x < 0.5) + (x > 0.7)
