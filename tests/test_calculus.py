"""Integrals, extreme values, roots, derivatives: every answer holds what ball arithmetic or a closed form says."""

from __future__ import annotations

import json
from functools import lru_cache
from math import atan, cos, erf, exp, inf, log, pi, sin, sqrt

import numpy as np
import pytest
from flint import arb
from matplotlib.figure import Figure

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.arithmetic.models import TaylorModels
from attnfun.calculus.answers import Enclosure
from attnfun.calculus.derivatives import derivative_network
from attnfun.calculus.extrema import maximum
from attnfun.calculus.functions import Function
from attnfun.calculus.integrals import enclosed_integral
from attnfun.calculus.roots import isolated
from attnfun.domains.box import Box
from attnfun.resources.deadline import NEVER
from attnfun.targets import Antiderivative, Expression, Status
from attnfun.targets.derivatives import derivative
from balls import Formula, ball, exact, precision
from clocks import readings
from grammar import Draw
from test_cli import attnfun

LINE = {"x": (-1.0, 1.0)}


@lru_cache
def net(text: str, low: float = -1.0, high: float = 1.0, eps: float = 1e-3) -> af.types.Compiled:
    return af.compile(text, {"x": (low, high)}, eps)


def function(text: str, sign: float = 1.0, **ranges: tuple[float, float]) -> Function:
    low, high = zip(*ranges.values(), strict=True)
    return Function(Expression(text, Box(list(low), list(high), tuple(ranges))), 0, sign)


def at(truth: Formula, *point: float) -> arb:
    return ball(truth([exact(float(x)) for x in point])[0])


def over(truth: Formula, *ends: tuple[float, float]) -> arb:
    return ball(truth([arb(exact(low)).union(arb(exact(high))) for low, high in ends])[0])


# random formulas against ball arithmetic


@lru_cache
def drawn(seed: int, variables: int) -> tuple[str, dict[str, tuple[float, float]]]:
    draw = Draw(np.random.default_rng(seed), variables)
    while True:
        _, text = draw.target()
        if not text.startswith("["):
            return text, draw.domain


def asked(seed: int, variables: int) -> tuple[Function, Formula, np.ndarray]:
    """A random formula as a function, as balls, and points at which it is defined."""
    text, domain = drawn(seed, variables)
    subject = function(text, **domain)
    rows = subject.domain.sample(200, np.random.default_rng(seed))
    ends = np.array(list(domain.values())).T
    truth, rows = Formula(text, tuple(domain)), np.vstack([rows, ends, ends.mean(axis=0)])
    return subject, truth, np.array([row for row in rows if at(truth, *row).is_finite()])


@pytest.mark.parametrize("seed", range(5))
def test_no_value_is_beyond_an_extreme_value(seed):
    subject, truth, rows = asked(seed, 1 + seed % 3)
    found = maximum(subject, 1e-9, 0.0, readings(8))
    cells = [over(truth, (a, b)) for a, b in cut(subject)] if subject.domain.size == 1 else []
    assert not any(at(truth, *row) > arb(found.high) for row in rows)
    assert not cells or any(not cell < arb(found.low) for cell in cells)
    best = rows[np.argmax([float(at(truth, *row).mid()) for row in rows])]
    near = maximum(subject, 1e-3, 0.5, readings(8))
    values = np.array([float(at(truth, *row).mid()) for row in rows])
    for row in rows[values > near.high - 0.5 + 1e-9]:  # within the slack of the maximum: in a box that was kept
        assert ((near.near.lo <= row) & (near.near.hi >= row)).all(axis=1).any()
    if at(truth, *best) >= arb(found.low):
        assert ((found.boxes.lo <= best) & (found.boxes.hi >= best)).all(axis=1).any() or found.high > found.low


def cut(subject: Function, count: int = 256) -> list[tuple[float, float]]:
    low, high = (float(end[0, 0]) for end in subject.domain.starts())
    ends = np.linspace(low, high, count + 1)
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_integrals_agree_with_sums_of_balls(seed):
    subject, truth, _ = asked(seed, 1)
    found, _ = enclosed_integral(subject, 1e-9, readings(8))
    cells = [over(truth, (a, b)) * (arb(exact(b)) - arb(exact(a))) for a, b in cut(subject)]
    total = sum(cells, arb(0))
    assert not total.is_finite() or total.overlaps(arb(exact(float(found.lo))).union(arb(exact(float(found.hi)))))


@pytest.mark.parametrize("seed", range(5))
def test_every_change_of_sign_is_in_an_interval_of_roots(seed):
    text, domain = drawn(seed, 1)
    middle = Formula(text, ("x",))
    [(low, high)] = domain.values()
    shift = float(at(middle, low / 2 + high / 2 * 0.9).mid())
    text = f"({text}) - ({shift if np.isfinite(shift) else 0.0!r})"
    truth, subject = Formula(text, ("x",)), function(text, x=(low, high))
    single, undecided, _ = isolated(subject, readings(20))
    points = np.linspace(low, high, 300)
    signs = [1 if at(truth, p) > 0 else -1 if at(truth, p) < 0 else 0 for p in points]
    both = [*zip(single.lo, single.hi, strict=True), *zip(undecided.lo, undecided.hi, strict=True)]
    for k in range(len(points) - 1):
        if signs[k] * signs[k + 1] == -1:
            assert any(a <= points[k + 1] and b >= points[k] for a, b in both)
    for p, sign in zip(points, signs, strict=True):
        assert sign != 0 or not at(truth, p).is_finite() or any(a <= p <= b for a, b in both)
    with precision(256):
        for a, b in zip(single.lo, single.hi, strict=True):
            ends = [at(truth, max(np.nextafter(a, -np.inf), low)), at(truth, min(np.nextafter(b, np.inf), high))]
            assert not (ends[0] * ends[1] > 0)


SMOOTH = [4, 5, 11, 12, 29, 31, 35, 37, 49, 57, 59]
"""Random formulas that have a bounded derivative on the whole domain."""


@pytest.mark.parametrize("seed", SMOOTH)
def test_derivatives_of_formulas_are_limits_of_quotients(seed):
    subject, truth, rows = asked(seed, 1 + seed % 2)
    slope = derivative(subject.target, 0)
    own, step = Formula(slope.text, subject.domain.axes), exact(2.0**-200)
    with precision(1200):
        for row in rows[:20]:
            point = [exact(float(x)) for x in row]
            wide, narrow = (
                (ball(truth([point[0] + h, *point[1:]])[0]) - ball(truth([point[0] - h, *point[1:]])[0])) / ball(2 * h)
                for h in (step, step / 2)
            )
            gap = abs(ball(own(point)[0]) - narrow)
            assert not gap > abs(wide - narrow) * 2 + abs(narrow) * arb(2) ** -60 + arb(2) ** -150


# closed forms

INTEGRALS = [
    ("sin(3*x)", (-1.0, 2.0), (cos(3) - cos(6)) / 3),
    ("exp(-x*x)", (-3.0, 3.0), sqrt(pi) * erf(3)),
    ("abs(x - 0.3)", (-1.0, 1.0), (1.3**2 + 0.7**2) / 2),
    ("x*sqrt(x)", (0.0, 1.0), 0.4),
    ("1/(1 + 25*x**2)", (-1.0, 1.0), 2 * atan(5) / 5),
    ("sign(x - 0.25)", (0.0, 1.0), 0.5),
    ("max(x, 0)**2", (-1.0, 1.0), 1 / 3),
]


@pytest.mark.parametrize(("text", "ends", "true"), INTEGRALS)
def test_integrals_in_closed_form(text, ends, true):
    found, defined = enclosed_integral(function(text, x=ends), 1e-12, NEVER)
    assert found.lo - 4e-16 <= true <= found.hi + 4e-16
    assert found.hi - found.lo < 1e-9
    assert defined


def test_an_integral_over_three_variables():
    found, _ = enclosed_integral(function("exp(x)*sin(y)*z", x=(0, 1), y=(0, 2), z=(0, 3)), 1e-5, NEVER)
    true = (exp(1) - 1) * (1 - cos(2)) * 4.5
    assert found.lo <= true <= found.hi
    assert found.hi - found.lo < 1e-3


EXTREMES = [
    ("-abs(x)", (-1.0, 1.0), 0.0, 0.0),  # the first cut is at the kink
    ("x*(1 - x)", (0.0, 1.0), 0.25, 0.5),
    ("x", (-1.0, 3.0), 3.0, 3.0),
    ("exp(-(x - 0.3)**2)", (-1.0, 1.0), 1.0, 0.3),
    ("sin(x)", (0.0, 3.0), 1.0, pi / 2),
    ("where(x < 0.5, x, -x)", (0.0, 1.0), 0.5, 0.5),  # approached, not taken
]


@pytest.mark.parametrize(("text", "ends", "value", "place"), EXTREMES)
def test_maxima_in_closed_form(text, ends, value, place):
    found = maximum(function(text, x=ends), 1e-12, 0.0, NEVER)
    assert found.low - 1e-11 <= value <= found.high
    assert found.high - found.low < 1e-10
    assert (found.boxes.lo - 1e-11 <= place).any()
    assert (found.boxes.hi + 1e-11 >= place).any()
    assert found.boxes.hi.max() - found.boxes.lo.min() < 1e-4


def test_a_maximum_in_two_variables_and_both_ends_of_a_saddle():
    found = maximum(function("x*y", x=(-1, 1), y=(-1, 1)), 1e-12, 0.0, NEVER)
    assert found.low == found.high == 1.0
    assert sorted(map(tuple, found.boxes.mid.tolist())) == [(-1.0, -1.0), (1.0, 1.0)]


def test_the_network_takes_its_extreme_value_where_it_is_said_to():
    made = net("sin(3*x)", eps=0.02)
    points = np.linspace(-1, 1, 20001)
    values = made(points)
    for found, best in ((made.max(), np.argmax(values)), (made.min(), np.argmin(values))):
        assert values[best] in found.network
        assert any(low <= points[best] <= high for low, high in (place["x"] for place in found.network_where))
        assert found.target.status is found.network.status is Status.PROVED


def test_roots_in_closed_form():
    single, undecided, defined = isolated(function("sin(20*x)", x=(-1, 1)), NEVER)
    true = np.arange(-6, 7) * pi / 20
    assert len(single) == 13
    assert not len(undecided)
    assert defined
    assert (single.lo - 2e-16 <= true).all()
    assert (true <= single.hi + 2e-16).all()
    assert (single.hi - single.lo).max() < 2e-15


def test_what_cannot_be_decided_is_not_called_a_root():
    for text, low, high, room in (
        ("(x - 0.3)**2", 0.3, 0.3, 1e-6),
        ("where(x < 0.1, -1, 1)", 0.1, 0.1, 1e-6),
        ("max(x, 0.5) - 0.5", -1.0, 0.5, 1e-3),  # zero on many intervals, which are not cut finely
    ):
        single, undecided, _ = isolated(function(text, x=(-1, 1)), readings(40))
        assert not len(single)
        assert len(undecided) == 1
        assert undecided.lo[0] <= low <= high <= undecided.hi[0] < high + room
    assert str(net("2 + cos(x)").roots()) == "no root, proved\nfor x in [-1, 1]"
    words = str(net("abs(x - 0.1)", -1.0, 0.3).roots()).splitlines()
    assert words[0].startswith("undecided: [0.0999")
    assert words[1:] == ["none elsewhere, proved", "for x in [-1, 0.3]"]


def test_numbers_of_which_no_digit_is_known_are_shown_as_zero():
    for low, high, text in (
        (-5e-324, 1e-323, "0 ± 2.0e-323, proved"),
        (-3e-13, 3.1e-13, "0 ± 3.2e-13, proved"),
        (-1e-13, 3e-13, "1e-13 ± 2.1e-13, proved"),
    ):
        assert str(Enclosure(low, high, Status.PROVED)) == text


def test_answers_name_the_interval_that_they_are_about():
    """A formula whose domain is open is known on a bounded one, and an integral over that is not the whole integral."""
    settling = af.compile("exp(-x)", {"x": (0, inf)}, 1e-2)
    last = float(settling.domain.hi[0])
    for found in (settling.integrate(), settling.max(), settling.roots()):
        assert found.domain == {"x": (0.0, last)}
        assert str(found).splitlines()[-1].startswith("for x in [0, ")


def test_time_that_runs_out_leaves_wide_answers_that_hold():
    subject = function("sin(20*x)*exp(x)", x=(-1, 1))
    wide, _ = enclosed_integral(subject, 1e-15, readings(1))
    close, _ = enclosed_integral(subject, 1e-12, NEVER)
    assert wide.lo <= close.lo <= close.hi <= wide.hi
    assert wide.hi - wide.lo > 1.0
    single, undecided, _ = isolated(subject, readings(1))
    assert len(single) + len(undecided) > 0
    assert undecided.lo[0] == -1.0


def test_what_may_not_be_defined_everywhere_is_not_called_defined():
    subject = function("sqrt(x - sin(x))", x=(0, 1))  # no enclosure tells that x - sin(x) >= 0 near 0
    assert not enclosed_integral(subject, 1e-9, readings(4))[1]
    assert not maximum(subject, 1e-9, 0.0, readings(4)).defined
    assert not isolated(subject, readings(4))[2]


def test_models_know_nothing_across_a_kink():
    models = TaylorModels.of(lambda x: np.abs(x[:, 0]), Interval([[-1.0], [0.5]], [[1.0], [1.0]]), 3)
    assert np.isinf(models.slopes().hi[0, 0])
    assert models.slopes().lo[1, 0] > 0.9


# statuses


def test_black_boxes_have_estimates_and_say_so():
    made = af.compile(np.vectorize(lambda x: float(np.sin(3 * x))), LINE, 0.05)
    assert made.certificate.status is Status.ESTIMATED
    found = made.max()
    assert found.target.status is found.network.status is Status.ESTIMATED
    assert abs(found.target.mid - 1) < 1e-3
    assert "estimated" in str(found)
    assert abs(made.integrate().target.mid) < 1e-3
    assert made.integrate().network.status is Status.ESTIMATED
    assert made.roots().status is Status.ESTIMATED
    assert abs(made.roots().single[0].mid) < 1e-6
    with pytest.raises(af.errors.InputError, match="must be a formula"):
        made.diff()


def test_a_declared_constant_makes_answers_conditional():
    made = af.compile(np.vectorize(lambda x: float(np.sin(3 * x))), LINE, 0.05, lipschitz=3.0)
    found = made.max()
    assert found.target.status is found.network.status is Status.CONDITIONAL
    assert 1.0 in found.target
    assert found.target.hi < 1.2
    assert 0.0 in made.integrate().target
    assert made.integrate().target.status is Status.CONDITIONAL


def test_without_a_proof_the_target_is_enclosed_and_the_network_estimated():
    found = af.compile("sin(3*x)", LINE, 0.01, proof=False).integrate()
    assert found.target.status is Status.PROVED
    assert found.network.status is Status.ESTIMATED


# derivatives and antiderivatives


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_derivative_of_one_layer_is_one_layer(dtype):
    made = af.compile("exp(-x*x)*cos(5*x)", LINE, 1e-3, dtype=dtype)
    slope = made.diff()
    points = np.linspace(-1, 1, 501)
    room = 1e-12 if dtype == "float64" else 1e-4
    assert slope.construction == "derivative"
    assert len(slope.network.attention) == 1
    assert np.abs(slope(points) - made.grad(points)).max() <= room
    true = -np.exp(-(points**2)) * (2 * points * np.cos(5 * points) + 5 * np.sin(5 * points))
    assert slope.certificate.proved
    assert np.abs(slope(points) - true).max() <= slope.certificate.bound


def test_heads_of_vectors_and_of_several_variables_have_derivatives_too():
    made = af.compile(
        "[x*y, sin(x + y)]", {"x": (0, 1), "y": (0, 1)}, None, construction="spectral", options={"tokens": 36}
    )
    exact_slope = derivative_network(made.network, made.domain, 1, (2,))
    rows = np.random.default_rng(0).uniform(0, 1, (50, 2))
    from attnfun.runtime.backends.numpy import run

    values = run(exact_slope, rows[:, None]).reshape(50, 2)
    assert np.abs(values - made.grad(rows)[..., 1]).max() < 1e-9


def test_a_derivative_is_saved_with_its_proof_and_judged(tmp_path):
    slope = net("sin(3*x)").diff()
    slope.save(tmp_path / "slope.safetensors")
    again = af.load(tmp_path / "slope.safetensors")
    assert again.construction == "derivative"
    assert again.name == "cos(3*x)*3"
    assert again.certificate.recheck(engine="arb").proved


def test_deep_networks_have_the_derivative_of_their_target():
    made = af.compile("sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-2, construction="circuit")
    slope = made.diff("x")
    rows = made.domain.sample(200, np.random.default_rng(0))
    assert slope.construction != "derivative"
    assert slope.certificate.proved
    assert np.abs(slope(rows) - 3 * np.cos(3 * rows[:, 0]) * rows[:, 1]).max() <= slope.certificate.bound


def test_derivatives_of_sums_and_of_python_functions():
    total = (net("sin(3*x)") * 2 + net("x**2")).diff()
    points = np.linspace(-1, 1, 101)
    assert np.abs(total(points) - 6 * np.cos(3 * points) - 2 * points).max() <= total.certificate.bound
    traced = af.compile(lambda x: np.sin(3 * x), (-1, 1), 1e-2).diff()
    assert np.abs(traced(points) - 3 * np.cos(3 * points)).max() <= traced.certificate.bound


@pytest.mark.parametrize("text", ["abs(x)", "max(x, 0)", "sqrt(x + 1)", "where(x < 0.25, x, x*x)"])
def test_kinks_are_named(text):
    with pytest.raises(af.errors.InputError, match=r"kink, a jump or an unbounded slope near x = "):
        derivative(Expression(text, Box([-1], [1], ("x",))), 0)


def test_derivatives_are_written_without_factors_of_one_and_double_signs() -> None:
    for text, slope in [
        ("exp(-x*x)", "exp(-x*x)*(-x - x)"),
        ("3 - cos(x)", "sin(x)"),
        ("cos(x) - sin(x)", "-sin(x) - cos(x)"),
    ]:
        assert derivative(Expression(text, Box([0], [0.5], ("x",))), 0).text == slope


def test_antiderivatives(tmp_path):
    made = net("exp(x)*cos(3*x)", eps=1e-2).antiderivative(eps=1e-3)
    points = np.linspace(-1, 1, 201)
    true = np.exp(points) * (np.cos(3 * points) + 3 * np.sin(3 * points)) / 10
    assert made.certificate.proved
    assert np.abs(made(points) - true + true[0]).max() <= made.certificate.bound <= 1e-3
    made.save(tmp_path / "F.safetensors")
    again = af.load(tmp_path / "F.safetensors")
    assert again.name == "integral of exp(x)*cos(3*x)"
    assert again.certificate.recheck().proved


def test_an_antiderivative_is_enclosed():
    target = Antiderivative(Expression("cosh(x)*sign(x - 0.5)", Box([0], [2], ("x",))))
    boxes = Interval([[0.0], [0.7], [0.2]], [[0.1], [0.7], [1.9]])
    found = target.enclose(boxes)

    def true(x: float) -> float:
        return -np.sinh(x) if x < 0.5 else np.sinh(x) - 2 * np.sinh(0.5)

    for low, high, a, b in zip(boxes.lo[:, 0], boxes.hi[:, 0], found.lo[:, 0], found.hi[:, 0], strict=True):
        values = [true(x) for x in np.linspace(low, high, 50)]
        assert a <= min(values) + 1e-15
        assert max(values) <= b + 1e-15
    assert found.hi[1, 0] - found.lo[1, 0] < 0.005  # two panels hold the jump


# the arithmetic of networks, calls by name, pictures, the command line


@pytest.mark.parametrize(
    ("make", "true"),
    [
        (lambda f, g: f / 4, lambda f, g: f / 4),
        (lambda f, g: f / g, lambda f, g: f / g),
        (lambda f, g: 1 / g, lambda f, g: 1 / g),
        (lambda f, g: f**2, lambda f, g: f**2),
        (lambda f, g: g**-1.5, lambda f, g: g**-1.5),
        (lambda f, g: 2**f, lambda f, g: 2**f),
        (lambda f, g: abs(f), lambda f, g: abs(f)),
        (lambda f, g: f.maximum(0.25), lambda f, g: np.maximum(f, 0.25)),
        (lambda f, g: np.minimum(f, g - 2.5), lambda f, g: np.minimum(f, g - 2.5)),
        (lambda f, g: np.log(g), lambda f, g: np.log(g)),
        (lambda f, g: np.maximum(f, g), lambda f, g: g),  # f < 1.01 < 2.5 < g: the larger one is known
        (lambda f, g: np.minimum(f, g), lambda f, g: f),
        (lambda f, g: np.float64(1) - f, lambda f, g: 1 - f),
        (lambda f, g: np.float64(2) * f, lambda f, g: 2 * f),
    ],
)
def test_arithmetic_of_networks(make, true):
    f, g = net("sin(3*x)"), net("2 + cos(x)")
    made, points = make(f, g), np.linspace(-1, 1, 501)
    values = true(np.sin(3 * points), 2 + np.cos(points))
    assert made.certificate.proved
    assert np.abs(made(points) - values).max() <= made.certificate.bound < 0.02


def test_divisors_that_may_be_zero_are_refused():
    for divisor in (net("sin(3*x)"), 0.0):
        with pytest.raises(af.errors.InputError, match="divisor"):
            net("2 + cos(x)") / divisor
    with pytest.raises(af.errors.InputError, match="defined and bounded"):
        np.sqrt(net("sin(3*x)"))
    with pytest.raises(TypeError):
        np.floor_divide(net("sin(3*x)"), 1.0)


def test_answers_about_networks_made_of_networks_are_worth_what_their_certificates_are():
    made = net("sin(3*x)") * 2 - 0.5
    for enclosure in (made.integrate().target, made.max().target, made.min().network):
        assert enclosure.status is af.types.Status.PROVED
    assert 2 * sin(1.5) - 0.5 <= made.max().target.hi
    assert -1.0 in made.integrate().target


def test_pythons_own_maximum_is_told_what_to_write():
    for ask in (max, min):
        with pytest.raises(af.errors.InputError, match=r"cannot be ordered.*np\.maximum"):
            ask(net("sin(3*x)"), net("2 + cos(x)"))


def test_calls_by_name():
    one = net("sin(3*x)")
    assert one(x=0.5) == one({"x": 0.5}) == one(0.5)
    assert np.shape(one(x=0.5)) == ()
    assert np.shape(one(x=[0.5])) == (1,)
    made = af.compile("x - 2*y", {"x": (0, 1), "y": (0, 1)}, 0.1)
    assert made(x=0.5, y=0.25) == made([0.5, 0.25]) == made({"y": 0.25, "x": 0.5})
    assert np.array_equal(made(y=0.5, x=[0.1, 0.2]), made([[0.1, 0.5], [0.2, 0.5]]))
    for wrong in ({"x": 0.5}, {"x": 0.5, "y": 0.5, "z": 0.5}, {}):
        with pytest.raises(af.errors.InputError, match="by its name"):
            made(wrong)
    with pytest.raises(af.errors.InputError, match="by place or by name"):
        made([0.5, 0.25], x=0.5)
    with pytest.raises(af.errors.InputError, match="fit together"):
        made(x=[0.1, 0.2], y=[0.1, 0.2, 0.3])


def test_one_panel_in_axes_that_are_there():
    figure = Figure()
    axes = figure.subplots()
    assert net("sin(3*x)").plot(ax=axes) is figure
    assert len(axes.lines) == 2
    for wrong in ({"panels": ["values", "error"]}, {"path": "f.png"}):
        with pytest.raises(af.errors.InputError, match="ax must be axes"):
            net("sin(3*x)").plot(ax=axes, **wrong)
    with pytest.raises(af.errors.InputError, match="ax must be axes"):
        net("sin(3*x)").plot(ax="axes")


def test_the_command_line_answers(tmp_path):
    path = str(tmp_path / "f.safetensors")
    net("sin(3*x) - 0.5").save(path)
    found = json.loads(attnfun("roots", path, "--json").stdout)
    assert [root["status"] for root in found["single"]] == ["proved", "proved"]
    assert found["single"][0]["lo"] <= pi / 18 <= found["single"][0]["hi"]
    assert "maximum of the target: 0.5" in attnfun("max", path).stdout.replace("0.4999999", "0.5")
    assert json.loads(attnfun("min", path, "--json").stdout)["target"]["hi"] < -1.49
    assert "integral of the network" in attnfun("integrate", path).stdout
    assert attnfun("roots", str(tmp_path / "none")).returncode == 2


def test_questions_that_make_no_sense():
    two = af.compile("[x, y]", {"x": (0, 1), "y": (0, 1)}, 0.1)
    for ask in (two.integrate, two.max, lambda: two.max(output=2), lambda: two.max(output=True)):
        with pytest.raises(af.errors.InputError, match="output"):
            ask()
    assert 1.0 in two.max(output=1).target
    for refused, match in (
        (lambda: two.roots(output=0), "one variable"),
        (lambda: two.diff(), r'must be named.*Write diff\("x"\)'),
        (lambda: af.compile("Q*K", {"Q": (0, 1), "K": (0, 1)}, 0.5).diff(), r'Write diff\("Q"\)'),
        (lambda: two.diff("z"), "must be one of"),
        (lambda: two.antiderivative(), "one variable"),
        (lambda: two.integrate(output=0, tolerance=0), "tolerance"),
        (lambda: af.compile("x", LINE, 0.1, norm=2).max(), "sup norm"),
    ):
        with pytest.raises(af.errors.InputError, match=match):
            refused()


def test_an_integral_in_l_p():
    made = af.compile("sign(x)", LINE, 0.1, norm=2)
    found = made.integrate()
    assert 0.0 in found.target
    assert abs(made(np.linspace(-1, 1, 2001)).mean()) * 2 in Enclosure(0, found.network.hi, Status.PROVED)
    assert found.network.hi >= 0.9 * made.certificate.bound * sqrt(2)


@pytest.mark.parametrize(
    ("text", "true"),
    [("1/sqrt(x)", 2.0), ("-log(x)", 1.0), ("1/sqrt(abs(x - 0.3))", 2 * sqrt(0.3) + 2 * sqrt(0.7))],
)
def test_integrals_of_unbounded_targets_are_finite(text, true):
    made = af.compile(text, {"x": (0, 1)}, 0.5, norm=1)
    found = made.integrate()
    assert true in found.target
    assert found.target.radius < 1e-6
    assert found.target.status is Status.PROVED
    assert found.network.radius <= made.certificate.bound + 1e-6
    with pytest.raises(af.errors.InputError, match="is the formula bounded"):
        made.antiderivative()


def test_enclosures_show_only_digits_that_are_known():
    for low, high in ((1.0, 1.0000001), (-3e-5, 1e300), (0.0, 5e-324), (-2.5, -2.25), (log(2), log(2))):
        each = Enclosure(low, high, Status.PROVED)
        assert low in each
        assert high in each
        assert each.mid in each
        if low < high:
            text, radius = str(each).removesuffix(", proved").split(" ± ")
            assert float(text) - float(radius) <= low
            assert high <= float(text) + float(radius)


@pytest.mark.parametrize("eps", [-1, 0, float("nan"), "small"])
def test_tolerances_of_derivatives_and_antiderivatives_are_positive(eps):
    net = af.compile("sin(3*x)", domain={"x": (-1, 1)}, eps=0.1)
    for work in (net.diff, net.antiderivative):
        with pytest.raises(af.errors.InputError, match="eps must be a finite number > 0"):
            work(eps=eps)
