"""The table of elementary functions, walked: values, enclosures and series of each against ball arithmetic."""

from __future__ import annotations

import flint
import numpy as np
import pytest

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.arithmetic.jets import variables
from attnfun.formula.functions import BY_FLINT, FUNCTIONS, OPERATIONS, TABLE
from attnfun.formula.parser import parse
from attnfun.formula.program import Program
from attnfun.judge.formula import values_at
from attnfun.judge.functions import FUNCTIONS as JUDGED
from balls import Formula, exact, precision

NAMES = ("x", "y", "z")
DEGREE = 6
SMOOTH = [function for function in TABLE if function.name in JUDGED]
CALLS = {
    f.name: f"{f.name}({', '.join([*['1'] * f.numbers, *NAMES[: f.arity - f.numbers]])})"
    for f in TABLE
    if f.name != "where"
}


def variables_of(name: str) -> tuple[str, ...]:
    return NAMES[: FUNCTIONS[name].arity - FUNCTIONS[name].numbers]


def program_of(name: str) -> Program:
    return parse(CALLS[name], variables_of(name))


def points_for(name: str, count: int = 30) -> np.ndarray:
    """Points of all sizes inside the natural domain, edges, zeros and signed zeros included, (P, D)."""
    function, rng = FUNCTIONS[name], np.random.default_rng(len(name))
    shape = count, len(variables_of(name))
    sizes = 10.0 ** rng.uniform(-8, 2.8, shape) * rng.choice([-1, 1], shape)
    rows = np.concatenate(
        [sizes, rng.uniform(-2, 2, sizes.shape), rng.choice([-1.0, -0.0, 0.0, 0.5, 1.0], sizes.shape)]
    )
    low, high = function.natural
    if name in BY_FLINT and np.isfinite(low) and np.isinf(high):
        rows[:, 0] = low + np.abs(rows[:, 0])  # the end itself is a pole
    rows[:, 0] = np.clip(rows[:, 0], low, high)
    return rows


@pytest.mark.parametrize("name", CALLS)
def test_enclosures_of_points_hold_the_true_value_and_that_in_floats(name):
    program, rows = program_of(name), points_for(name)
    truth, enclosed = Formula(CALLS[name], list(variables_of(name))), program.enclose(Interval(rows))
    floats, checked = program.values(rows), 0
    for row, low, high, value in zip(rows, enclosed.lo[:, 0], enclosed.hi[:, 0], floats[:, 0], strict=True):
        with precision(256):
            (true,) = truth([exact(x) for x in row])
            if flint.arb(true).is_finite():
                checked += 1
                assert not true < flint.arb(low)
                assert not true > flint.arb(high)
        if name not in BY_FLINT:  # SciPy's values of the others are not relied on
            assert not np.isfinite(value) or low <= value <= high
    assert checked > (10 if name in BY_FLINT else 25)  # many points are poles


@pytest.mark.parametrize("name", CALLS)
def test_enclosures_of_boxes_hold_values_inside(name):
    program, rng = program_of(name), np.random.default_rng(1)
    rows = points_for(name)
    other = np.where(rng.random(rows.shape) < 0.3, rows, rows[::-1])
    low, high = np.minimum(rows, other), np.maximum(rows, other)
    enclosed = program.enclose(Interval(low, high))
    for share in (0.0, 0.3, 0.5, 0.99, 1.0):
        values = program.values(np.clip(low + share * (high - low), low, high))
        sure = np.isfinite(values) & np.broadcast_to(enclosed.defined, values.shape)
        room = 1e-11 * (1 + np.abs(np.where(sure, values, 0.0))) if name in BY_FLINT else 0.0
        assert ((enclosed.lo <= values + room) & (values - room <= enclosed.hi) | ~sure).all()
        known = (
            np.isfinite(enclosed.lo) & np.isfinite(enclosed.hi) if name in BY_FLINT else True
        )  # gamma(600) overflows
        assert np.isfinite(values[np.broadcast_to(enclosed.defined, values.shape) & known]).all()


@pytest.mark.parametrize("function", SMOOTH, ids=lambda function: function.name)
def test_series_hold_those_of_the_judge_at_points_and_on_boxes(function):
    points = points_for(function.name, 12)[:, 0]
    points = points[np.abs(points) < 8]
    width = np.tile([0.0, 1e-3, 0.3], len(points))[: len(points)]
    boxes = Interval(points - width, points + width)
    jet = function(variables(boxes.reshape(-1, 1), DEGREE)[:, 0])
    with precision(256):
        for row, x in enumerate(points):
            for k, true in enumerate(JUDGED[function.name].series(flint.arb(x), DEGREE)):
                if true.is_finite() and np.isfinite(jet.rad[row, k]):
                    assert not abs(true - flint.arb(jet.mid[row, k])) > flint.arb(jet.rad[row, k])
    known = np.isfinite(jet.rad).all(axis=1)
    assert known.sum() > len(points) // 5


@pytest.mark.parametrize("name", CALLS)
def test_the_judge_encloses_the_same_values(name):
    rows, program = points_for(name, 12), program_of(name)
    low, high = values_at(CALLS[name], variables_of(name), rows)
    main = program.enclose(Interval(rows))
    both = np.isfinite(low) & np.isfinite(high) & np.broadcast_to(main.defined, low.shape)
    assert both.sum() > 10
    assert ((main.lo <= high) & (low <= main.hi) | ~both).all()


@pytest.mark.parametrize("angle", ["x>0", "y>0", "y<0"])
def test_series_of_the_angle_hold_those_of_its_quotient(angle):
    y, x = {"x>0": (0.7, 1.5), "y>0": (1.5, -0.7), "y<0": (-1.5, 0.2)}[angle]
    at = variables(Interval([[y, x]]), 3)
    jet = FUNCTIONS["atan2"](at[:, 0], at[:, 1])
    turn = {"x>0": 0.0, "y>0": np.pi / 2, "y<0": -np.pi / 2}[angle]
    plain = np.arctan(at[:, 0] / at[:, 1]) if angle == "x>0" else turn - np.arctan(at[:, 1] / at[:, 0])
    assert np.isfinite(jet.rad).all()
    assert (np.abs(jet.mid - plain.mid) <= jet.rad + plain.rad + 1e-15).all()
    cut = variables(Interval([[-0.1, -1.0]], [[0.1, -0.5]]), 1)
    assert np.isinf(FUNCTIONS["atan2"](cut[:, 0], cut[:, 1]).rad).all()


def test_names_that_stand_for_others_are_read_as_those():
    twins = [("hypot(x, y)", "sqrt(x**2 + y**2)"), ("relu(x)", "max(x, 0)"), ("clip(x, y, 1)", "min(max(x, y), 1)")]
    for name, means in [*twins, ("sech(x)", "1/cosh(x)")]:
        kinds = [[(n.kind, n.args, n.value) for n in parse(text, ("x", "y")).nodes] for text in (name, means)]
        assert sorted(map(str, kinds[0])) == sorted(map(str, kinds[1])) or len(kinds[0]) == len(kinds[1])
    assert not {f.name for f in TABLE if f.means} & set(OPERATIONS)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("sigmoid(5*x) + softplus(y) + asinh(x - y)", {"x": (-2, 2), "y": (-3, 3)}),
        ("log10(1 + x**2) + log2(2 + y) + cbrt(x + y)", {"x": (1, 2), "y": (0, 3)}),
        ("clip(2*x, -1, 1) + relu(x - 0.3) + sech(x)", {"x": (-1, 1)}),
        ("hypot(x, y)", {"x": (1, 2), "y": (-1, 1)}),
        ("atan2(y, x)", {"x": (-1, 1), "y": (1, 2)}),
    ],
)
def test_circuits_of_the_functions_are_proved_and_judged(text, domain):
    net = af.compile(text, domain, 0.05, construction="circuit")
    assert net.certificate.status.value == "proved"
    rows = np.random.default_rng(0).uniform(*np.array(list(domain.values())).T, (2000, len(domain)))
    program = parse(text, tuple(domain))
    assert np.abs(net(rows).ravel() - program.values(rows)[:, 0]).max() <= net.certificate.bound


def test_an_angle_that_jumps_is_refused():
    with pytest.raises(af.errors.InputError, match="jumps"):
        af.compile("atan2(y, x)", {"x": (-1, 1), "y": (-1, 1)}, 0.1)
