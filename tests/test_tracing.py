"""Python functions as programs: what NumPy users write, against formulas that say the same, and what is refused."""

from __future__ import annotations

import ast
import math
import pickle
from functools import partial
from math import exp, sin

import numpy as np
import pytest
import sympy
from scipy.interpolate import (
    Akima1DInterpolator,
    CubicSpline,
    KroghInterpolator,
    PchipInterpolator,
    PPoly,
    UnivariateSpline,
    interp1d,
    make_interp_spline,
)
from scipy.special import erf, expit, log_softmax, logit, logsumexp, rel_entr, softmax
from scipy.stats import norm

import attnfun as af
from attnfun.arithmetic import Interval, Untraceable
from attnfun.domains import as_box, read_box
from attnfun.formula.parser import parse
from attnfun.formula.sympy_reader import sympy_formula
from attnfun.formula.tracing import traced
from attnfun.formula.writing import written
from attnfun.judge.formula import values_at
from attnfun.targets import as_target

W = np.array([[0.5, 3.0], [2.0, 0.25], [1.0, 1.5]])
w = np.array([0.5, 3.0, 2.0])
KNOTS = np.array([-1.0, -0.5, 0.25, 1.0])
SUM = "x0*0.5 + x1*3 + x2*2"


def in_place(p):
    q = p.copy()
    q *= 2
    q += 1
    return q.sum(axis=-1)


def filled(p):
    out = np.zeros(p.shape[:-1])
    out[...] = p[..., 0] + np.asarray(p)[..., 1]
    return np.array([out[0]]) if len(out) == 1 else out


def squares_of(p):
    """A helper that fills an array."""
    out = np.empty((*p.shape[:-1], 2))
    for k in range(2):
        out[..., k] = p[..., k] ** 2
    return out


def without_negatives(p):
    out = np.zeros(p.shape)
    out[p >= 0] = p[p >= 0] * 2
    return out


def scaled_where_positive(p):
    """In-place operators on selections; a selection is a copy, and two names of it are one."""
    q = p.copy()
    q[q > 0.5] *= 2
    positive = q > 0
    chosen = q[positive]
    same = chosen
    chosen += 1
    q[...] = 0
    q[positive] = same
    return q[..., 0]


SPLINE = PPoly(np.array([[0.5, 0.25], [1.0, 2.0]]), np.array([0.0, 0.5, 1.0]))


def square(p):
    return np.stack([p[..., :2], p[..., [2, 0]]], axis=-2)


DOUBLED = "where(where(x0 > 0.5, x0*2, x0) > 0, where(x0 > 0.5, x0*2, x0) + 1, 0)"
BRANCHED = f"where(x0 > 0.5, x0*{math.sin(2.0):.60f}, 2)"
TWINS = [
    (lambda p: p @ w, SUM),
    (lambda p: np.dot(p, w), SUM),
    (lambda p: np.inner(p, w), SUM),
    (lambda p: np.einsum("...i,i->...", p, w), SUM),
    (lambda p: np.tensordot(p, w, 1), SUM),
    (lambda p: p @ W, "[x0*0.5 + x1*2 + x2*1, x0*3 + x1*0.25 + x2*1.5]"),
    (lambda p: (W.T @ p.T).T, "[0.5*x0 + 2*x1 + 1*x2, 3*x0 + 0.25*x1 + 1.5*x2]"),
    (lambda p: p.mean(axis=-1), "(x0 + x1 + x2)/3"),
    (lambda p: np.prod(p, axis=-1), "x0*x1*x2"),
    (lambda p: p.max(-1), "max(x0, x1, x2)"),
    (lambda p: np.min(p, axis=-1), "min(x0, x1, x2)"),
    (lambda p: np.linalg.norm(p, axis=-1), "sqrt(x0**2 + x1**2 + x2**2)"),
    (lambda p: np.linalg.norm(p, np.inf, axis=-1), "max(abs(x0), abs(x1), abs(x2))"),
    (lambda p: np.var(p[..., :2], axis=-1), "((x0 - (x0 + x1)/2)**2 + (x1 - (x0 + x1)/2)**2)/2"),
    (lambda p: np.clip(p[..., 0], 0.25, 0.5), "clip(x0, 0.25, 0.5)"),
    (lambda p: np.hypot(p[..., 0], p[..., 1]), "hypot(x0, x1)"),
    (lambda p: np.arctan2(p[..., 0], 2 + p[..., 1]), "atan2(x0, 2 + x1)"),
    (lambda p: np.logaddexp(p[..., 0], p[..., 1]), "x0 + softplus(x1 - x0)"),
    (lambda p: expit(p[..., 0]) * erf(p[..., 1]), "sigmoid(x0)*erf(x1)"),
    (
        lambda p: np.where((p[..., 0] > 0) & ~(p[..., 1] > 0.5), p[..., 1], 2.0),
        "where(x0 > 0 and not (x1 > 0.5), x1, 2)",
    ),
    (lambda p: np.select([p[..., 0] < 0], [p[..., 1]], 0.5), "where(x0 < 0, x1, 0.5)"),
    (
        lambda p: np.piecewise(p[..., 0], [p[..., 0] < 0, p[..., 0] >= 0], [lambda t: -t, lambda t: t**2]),
        "where(x0 >= 0, x0**2, where(x0 < 0, -x0, 0))",
    ),
    (lambda p: np.heaviside(p[..., 0], 0.5), "where(x0 < 0, 0, where(x0 > 0, 1, 0.5))"),
    (lambda p: np.polyval([2.0, 0.5, 1.0], p[..., 0]), "(2*x0 + 0.5)*x0 + 1"),
    (lambda p: np.stack([p[..., 0], np.square(p[..., 1])], axis=-1), "[x0, x1**2]"),
    (lambda p: np.concatenate([p[..., 1:], p[..., :1]], axis=-1), "[x1, x2, x0]"),
    (lambda p: (p[..., :2, None] * p[..., None, :2]).sum((-1, -2)), "x0*x0 + x0*x1 + x1*x0 + x1*x1"),
    (in_place, "(x0*2 + 1) + (x1*2 + 1) + (x2*2 + 1)"),
    (filled, "x0 + x1"),
    (scaled_where_positive, DOUBLED),
    (lambda p: np.max([p[..., 0], p[..., 1]], axis=0), "max(x0, x1)"),
    (lambda p: np.minimum.reduce([p[..., 0], p[..., 1], p[..., 2]]), "min(x0, x1, x2)"),
    (lambda p: np.maximum((p[..., 0], p[..., 1]), 0.25).T, "[max(x0, 0.25), max(x1, 0.25)]"),
    (lambda p: np.linalg.norm([p[..., 0], p[..., 1]], axis=0), "sqrt(x0**2 + x1**2)"),
    (lambda p: np.average([p[..., 0], p[..., 1]], axis=0, weights=[1, 3]), "(x0*1 + x1*3)/4"),
    (lambda p: np.average(p, axis=-1, weights=[1, 2, 1]), "(x0*1 + x1*2 + x2*1)/4"),
    (lambda p: np.logaddexp2(p[..., 0], p[..., 1]), "x0 + softplus((x1 - x0)*log(2))/log(2)"),
    (lambda p: np.vectorize(lambda a, b: a * math.sin(b) if a > 0.5 else b)(p[..., 0], 2.0), BRANCHED),
    (lambda p: np.cumsum(p, axis=-1), "[x0, x0 + x1, x0 + x1 + x2]"),
    (lambda p: np.sinc(p[..., 0]), "sinc(pi*x0)"),
    (lambda p: p.reshape(-1, 3)[:, ::-1].T[0], "x2"),
    (lambda p: np.sort(p[..., :2]), "[min(x0, x1), max(x0, x1)]"),
    (lambda p: np.median(p[..., :2], axis=-1), "min(x0, x1) + (max(x0, x1) - min(x0, x1))*0.5"),
    (lambda p: np.linalg.det(square(p)), "x0*x0 - x1*x2"),
    (
        lambda p: np.linalg.solve([[4.0, 1.0], [1.0, 2.0]], p[..., :2, None])[..., 0],
        "[2/(4*2 - 1*1)*x0 + -1/(4*2 - 1*1)*x1, -1/(4*2 - 1*1)*x0 + 4/(4*2 - 1*1)*x1]",
    ),
    (lambda p: np.array([np.convolve(row, [1.0, 2.0], "valid") for row in p]), "[x0*2 + x1*1, x1*2 + x2*1]"),
    (lambda p: np.gradient(p, 0.5, axis=-1), "[(x1 - x0)/0.5, (x2 - x0)/1, (x2 - x1)/0.5]"),
    (lambda p: np.apply_along_axis(lambda row: row[0] * row[2], -1, p), "x0*x2"),
    (lambda p: np.vander(p[..., 0], 3), "[x0*x0, x0, 1]"),
    (lambda p: np.linalg.norm(p, 3, axis=-1), f"(abs(x0)**3 + abs(x1)**3 + abs(x2)**3)**{1 / 3:.60f}"),
    (lambda p: logsumexp(p, axis=-1), "x0 + log(1 + exp(x1 - x0) + exp(x2 - x0))"),
    (lambda p: softmax(p, axis=-1)[..., 1], "exp(x1 - x0)/(1 + exp(x1 - x0) + exp(x2 - x0))"),
    (lambda p: log_softmax(p, axis=-1)[..., 2], "x2 - (x0 + log(1 + exp(x1 - x0) + exp(x2 - x0)))"),
    (lambda p: norm.cdf(p[..., 0], 0.5, 2.0), "(1 + erf((x0 - 0.5)/2/sqrt(2)))/2"),
    (lambda p: norm.pdf(p[..., 0]), "exp(-((x0 - 0)/1)**2/2)/(1*sqrt(2*pi))"),
    (lambda p: logit(0.25 + p[..., 0] ** 2 / 4), "log((0.25 + x0**2/4)/(1 - (0.25 + x0**2/4)))"),
    (lambda p: rel_entr(2 + p[..., 0], 2.0), "(2 + x0)*log((2 + x0)/2)"),
    (np.vectorize(lambda x: sin(x) * exp(x)), "[sin(x0)*exp(x0), sin(x1)*exp(x1), sin(x2)*exp(x2)]"),
    (lambda p: np.array([max(row) for row in p]), "max(x0, x1, x2)"),
    (lambda p: np.array([math.dist(row[:2], (0.5, 1.0)) for row in p]), "sqrt((x0 - 0.5)**2 + (x1 - 1)**2)"),
    (
        np.vectorize(lambda x: math.hypot(x, 2.0) + math.prod([x, x])),
        "[sqrt(x0**2 + 4) + x0*x0, sqrt(x1**2 + 4) + x1*x1, sqrt(x2**2 + 4) + x2*x2]",
    ),
    (lambda p: squares_of(p), "[x0**2, x1**2]"),
    (lambda p: without_negatives(p), "[where(x0 >= 0, x0*2, 0), where(x1 >= 0, x1*2, 0), where(x2 >= 0, x2*2, 0)]"),
    (lambda p: SPLINE(p[..., 0]) * 2, "where(x0 < 0.5, 1 + 0.5*(x0 - 0), 2 + 0.25*(x0 - 0.5))*2"),
    (
        np.vectorize(lambda x: x if x > 0 else x / 2),
        "[where(x0 > 0, x0, x0/2), where(x1 > 0, x1, x1/2), where(x2 > 0, x2, x2/2)]",
    ),
]  # fmt: skip


def shape_of(program) -> list[tuple]:
    """The operations of the outputs as trees, whatever order they were met in."""
    trees = []
    for node in program.nodes:
        trees.append((node.kind, node.value, node.exact, *(trees[k] for k in node.args)))
    return [trees[k] for k in program.outputs]


@pytest.mark.parametrize(("function", "text"), TWINS, ids=[text[:40] for _, text in TWINS])
def test_a_function_is_the_program_of_its_formula(function, text):
    program = traced(function, (3,), "f")
    assert shape_of(program) == shape_of(parse(text, ("x0", "x1", "x2")))
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    values, enclosed = np.asarray(function(rows.copy())).reshape(40, -1), program.computed(Interval(rows))
    assert ((enclosed.lo <= values) & (values <= enclosed.hi)).all()


@pytest.mark.parametrize("function", [function for function, _ in TWINS[:12:3]] + [TWINS[19][0], TWINS[21][0]])
def test_the_judge_reads_what_is_written_down(function):
    program, rows = traced(function, (3,), "f"), np.random.default_rng(1).uniform(-1, 1, (5, 3))
    text = written(program)
    assert text is not None
    low, high = values_at(text, ("x0", "x1", "x2"), rows)
    main = program.enclose(Interval(rows))
    assert ((main.lo <= high) & (low <= main.hi)).all()
    ast.parse(text)


COMPILED = [
    (lambda x, y: np.maximum(x, y), "max(x, y)", {"x": (-1, 1), "y": (-1, 2)}),
    (lambda x, y: np.hypot(x, y), "hypot(x, y)", {"x": (1, 2), "y": (-1, 1)}),
    (lambda y, x: np.logaddexp(x, y), "x + softplus(y - x)", {"x": (-1, 1), "y": (-1, 1)}),
    (lambda x, y: np.clip(x + y, 0.25, 0.5), "clip(x + y, 0.25, 0.5)", {"x": (-1, 1), "y": (-1, 1)}),
]


@pytest.mark.parametrize(("function", "text", "domain"), COMPILED, ids=[text for _, text, _ in COMPILED])
def test_a_function_has_the_tokens_and_the_bound_of_its_formula(function, text, domain):
    mine, twin = (af.compile(target, domain, 0.02, construction="circuit") for target in (function, text))
    assert mine.certificate.status is af.types.Status.PROVED
    assert (mine.network.tokens, mine.certificate.bound) == (twin.network.tokens, twin.certificate.bound)


def branching(x):
    return np.where(x > 0, x, 0.0) if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (branching, ("a branch on a value", "test_tracing.py", "np.where")),
        (lambda x: np.floor(x), ("np.floor", "it jumps", "no lipschitz= is true")),
        (lambda x: np.sort(np.stack([x] * 9, -1), -1)[..., 0], ("an order of 9 numbers", "at most 8")),
        (lambda x: x[x > 0].sum() + 0 * x, ("sum of a selection by a condition", "np.where")),
        (lambda x: np.linalg.eigvals(x[:, None, None])[:, 0], ("np.linalg.eigvals", "test_tracing.py")),
        (lambda x: 1.0 * x.view(np.int64), ("TypeError", "test_tracing.py", "x.view")),
        (lambda x: np.array([float(one) for one in x]), ("a conversion to a float", "NumPy's functions")),
        (lambda x: np.fft.fft(np.stack([x, x], -1)).real[..., 0], ("fft", "test_tracing.py")),
    ],
)
def test_a_lost_proof_says_which_operation_where_and_what_to_write(function, words):
    assumptions = as_target(function, as_box((0.5, 1.5))).assumptions
    assert len(assumptions) == 1
    assert all(word in assumptions[0] for word in words)
    assert "\n" not in assumptions[0]
    assert "line" in assumptions[0]


def test_a_library_is_not_taken_for_the_users_code():
    (assumption,) = as_target(KroghInterpolator(KNOTS, KNOTS**2), as_box((-1, 1))).assumptions
    assert "in code of a library" in assumption
    assert "test_tracing.py" not in assumption


class Counting:
    """A function with a state."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return np.sin(x) + 1e-3 * (self.calls > 6)


def test_a_function_with_a_state_or_with_random_numbers_is_never_proved():
    rng = np.random.default_rng(0)
    for function in (Counting(), lambda x: np.sin(x) + 1e-9 * rng.normal()):
        with pytest.raises(af.errors.InputError, match="same value at a point in every call"):
            as_target(function, as_box((0, 1)))
    hidden = as_target(lambda x: np.sin(x) if x.dtype == np.float64 else np.cos(x), as_box((0, 1)))
    assert hidden.status is af.types.Status.ESTIMATED


def scalar(x):
    return math.sin(x) * math.exp(-x) + math.pow(x, 2.0)


def jagged(x):
    return math.sin(x) if x > 0.25 else 0.0


def test_functions_of_single_numbers_are_called_one_by_one_and_traced_through_math():
    plain, wrapped = as_target(scalar, as_box((0, 1))), as_target(np.vectorize(scalar), as_box((0, 1)))
    assert plain.status is wrapped.status is af.types.Status.PROVED
    rows = np.linspace(0, 1, 5)[:, None]
    assert np.array_equal(plain.values(rows), wrapped.values(rows))
    assert plain.values(rows)[2, 0] == scalar(0.5)
    branched = as_target(jagged, as_box((0, 1)))
    assert branched.values(np.array([[0.0], [0.5]])).tolist() == [[0.0], [math.sin(0.5)]]
    assert shape_of(branched.program) == shape_of(parse("where(x0 > 0.25, sin(x0), 0)", ("x0",)))  # type: ignore[attr-defined]


def rates(x):
    """Branches in branches, chained comparisons, a loop."""
    total = 0.0
    for level in (0.25, 0.5):
        if x > level and not x > 0.75:
            total += x - level
    return total if 0.1 < x < 0.9 else 0.0


def test_functions_of_single_numbers_are_run_for_every_way_through_them():
    target = as_target(rates, as_box((0, 1)))
    assert target.status is af.types.Status.PROVED
    rows = np.array([0.0, 0.1, 0.2, 0.25, 0.3, 0.5, 0.6, 0.75, 0.8, 0.9, 1.0])[:, None]
    rows = np.concatenate([rows, np.nextafter(rows, 0), np.nextafter(rows, 1)])
    enclosed = target.program.computed(Interval(rows))  # type: ignore[attr-defined]
    assert (
        (enclosed.lo[:, 0] <= [rates(x) for x in rows[:, 0]]) & ([rates(x) for x in rows[:, 0]] <= enclosed.hi[:, 0])
    ).all()
    assert af.compile(lambda x: x if x > 0 else x / 2, {"x": (-1, 1)}, 0.02).certificate.proved


def endless(x):
    while x > 0:
        x = x / 2
    return x


def bushy(x):
    return sum(x if x > k / 20 else 0.0 for k in range(20))


@pytest.mark.parametrize(("function", "words"), [(endless, "one after the other"), (bushy, "ways through")])
def test_too_many_branches_are_refused(function, words):
    with pytest.raises(Untraceable, match=words):
        traced(np.vectorize(function), (), "f")


def test_branches_of_whole_batches_are_refused():
    with pytest.raises(Untraceable, match="a branch on a value"):
        traced(lambda p: p if p.max() > 0 else -p, (), "f")


class Model:
    """Something with parameters."""

    def __init__(self, scale):
        self.scale = scale

    def wave(self, x, y):
        return self.scale * math.sin(x) * y

    def __call__(self, y, x):
        return self.scale * x - y


def test_methods_partials_and_objects_get_arguments_by_name():
    box, rows = as_box({"x": (0, 1), "y": (1, 2)}), np.array([[0.25, 1.5]])
    for function, value in [
        (Model(3.0).wave, 3 * math.sin(0.25) * 1.5),
        (Model(3.0), 0.75 - 1.5),
        (partial(lambda x, y, power: x**power - y, power=2), 0.25**2 - 1.5),
        (np.hypot, math.hypot(0.25, 1.5)),
    ]:
        target = as_target(function, box)
        assert target.status is af.types.Status.PROVED
        assert target.values(rows).item() == pytest.approx(value, rel=1e-15)
    both = as_target(lambda x, y: (x + y, 2.0), box)
    assert both.output_shape == (2,)
    assert both.values(rows).tolist() == [[1.75, 2.0]]


def test_one_argument_with_the_variables_name_is_a_number():
    box = as_box({"x": (-1, 1)})
    for function in (lambda x: np.sin(3 * x), lambda x: np.sin(3 * x[..., 0]), math.sin):
        assert as_target(function, box).output_shape == (() if function is not math.sin else (1,))
    assert as_target(lambda p: np.sin(p), box).output_shape == (1,)


def test_a_state_of_an_outer_function_is_not_copied_away():
    calls = [0]

    def remembering(x):
        calls[0] += 1
        return np.sin(x) * (1 + 1e-3 * calls[0])

    with pytest.raises(af.errors.InputError, match="same value at a point in every call"):
        as_target(remembering, as_box((0, 1)))


def test_arguments_come_by_name_or_in_order():
    named = as_target(lambda y, x: y - 2 * x, as_box({"x": (0, 1), "y": (0, 1)}))
    assert named.values(np.array([[0.25, 1.0]])).item() == 0.5
    assert named.output_shape == ()
    ordered = as_target(lambda a, b: a - 2 * b, as_box([(0, 1)] * 2))
    assert ordered.values(np.array([[0.25, 1.0]])).item() == -1.75
    with pytest.raises(af.errors.InputError, match="must be the variables of the domain"):
        as_target(lambda u, v: u * v, as_box({"x": (0, 1), "y": (0, 1)}))


@pytest.mark.parametrize(
    "function",
    [
        CubicSpline(KNOTS, np.sin(5 * KNOTS)),
        PPoly(np.array([[1.0, -2.0], [0.5, 0.25]]), np.array([-1.0, 0.1, 1.0])),
        make_interp_spline(KNOTS, np.cos(KNOTS), k=3),
        make_interp_spline(np.linspace(-1, 1, 9), np.cos(np.arange(9)), k=2),
        np.polynomial.Polynomial([1.0, 2.0, -0.5]),
        np.polynomial.Chebyshev([1.0, 2.0, -0.5], domain=[-2, 2]),
        np.poly1d([1.0, -2.0, 0.5]),
        lambda x: np.interp(x, KNOTS, [0.0, 1.0, -0.5, 2.0]),
        interp1d(KNOTS, KNOTS**2),
        PchipInterpolator(KNOTS, KNOTS**3),
        Akima1DInterpolator(KNOTS, KNOTS**3),
        UnivariateSpline(np.linspace(-1, 1, 9), np.cos(np.arange(9)), s=0),
    ],
    ids=lambda function: type(function).__name__,
)
def test_piecewise_polynomials_are_programs(function):
    target = as_target(function, as_box((-1, 1)))
    assert target.status is af.types.Status.PROVED
    rows = np.concatenate([np.linspace(-1, 1, 200), KNOTS, np.nextafter(KNOTS[1:-1], 2)])[:, None]
    enclosed, values = target.program.computed(Interval(rows)), function(rows[:, 0])  # type: ignore[attr-defined]
    assert ((enclosed.lo[:, 0] <= values) & (values <= enclosed.hi[:, 0])).all()


def test_a_spline_has_no_value_beyond_its_knots_unless_it_goes_on():
    with pytest.raises(af.errors.InputError):
        as_target(interp1d(KNOTS, KNOTS), as_box((-1, 1.5)))
    short = as_target(Akima1DInterpolator(KNOTS, KNOTS), as_box((-1, 1)))
    beyond = short.program.enclose(Interval(np.array([[-1.5]]), np.array([[-1.25]])))  # type: ignore[attr-defined]
    assert not beyond.defined.any()


def test_sympy_expressions_are_formulas():
    x, y = sympy.symbols("x y")
    expression = sympy.Piecewise((sympy.sin(3 * x) / 2, x < y), (sympy.Max(x, y**2) + sympy.pi, True))
    text, names = sympy_formula(expression, ("x", "y"))
    rows = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    mine = parse(text, names).values(rows)[:, 0]
    assert mine == pytest.approx([float(expression.subs({x: a, y: b})) for a, b in rows], rel=1e-12)
    assert as_target([x + y, x * y], as_box({"x": (0, 1), "y": (0, 1)})).output_shape == (2,)
    for unknown in (sympy.LambertW(x), sympy.Float("0.1", 30) * x):
        with pytest.raises(af.errors.InputError, match="SymPy expression must be"):
            as_target(unknown, as_box({"x": (1, 2)}))


def test_ends_of_domains_are_numbers_or_arithmetic():
    box = read_box("x=0:2*pi y=-pi/2:1e-1")
    assert box.hi.tolist() == [2 * math.pi, 0.1]
    assert box.lo.tolist() == [0.0, -math.pi / 2]
    assert as_box({"x": ("-pi", "sqrt(2)")}).lo == -math.pi
    for bad in ("x=0:y", "x=0:1/0", "x=0:[1,2]", "x=0:1<2", "x=0:__import__('os')", "x=0"):
        with pytest.raises(af.errors.InputError):
            read_box(bad)


def test_the_remedy_for_a_jump_is_true():
    with pytest.raises(af.errors.InputError, match=r"a jump of at least 2\. Allow an eps above 1, half the jump"):
        af.compile("sign(x)", {"x": (-1, 1)}, 0.9)


def test_traced_targets_are_carried_to_workers():
    target = as_target(scalar, as_box((0, 1)))
    again = pickle.loads(pickle.dumps(target))  # noqa: S301
    assert again.program == target.program  # type: ignore[attr-defined]


def test_settings_that_are_not_read_are_refused():
    for function in (
        lambda p: np.max(p, axis=-1, initial=0.9),
        lambda p: np.sum(p, axis=-1, where=np.array([True, False])),
        lambda p: p.mean(axis=-1, dtype=np.float32),
        lambda p: np.add(p[..., 0], p[..., 1], where=np.array([False])),
    ):
        with pytest.raises(Untraceable):
            traced(function, (2,), "f")


def test_symbols_do_not_pass_for_numbers():
    for function in (lambda p: p == 0, lambda p: np.isnan(p), lambda p: p.astype(int), lambda p: np.exp(1j * p).real):
        with pytest.raises(Untraceable):
            traced(function, (), "f")
