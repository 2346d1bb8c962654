"""Few tokens where few are enough, on functions of every kind that the construction tells apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnfun as af
from attnfun.domains.box import as_box
from attnfun.pieces.banks import bank_of, search_for
from attnfun.pieces.densities import declared, mesh_of
from attnfun.pieces.kinks import kinks
from attnfun.pieces.least_squares import least_squares
from attnfun.pieces.parts import parts_of
from attnfun.pieces.potentials import Mesh
from attnfun.pieces.singularities import survey
from attnfun.pieces.tokens import Tokens
from attnfun.targets import as_target

PLANE = {"x": (-1, 1), "y": (-1, 1)}


@pytest.mark.parametrize(
    ("formula", "domain", "most"),
    [
        ("1/(1 + exp(-30*x))", {"x": (-1, 1)}, 2),
        ("1/(2 + 40*x**2)", {"x": (-1, 1)}, 16),
        ("log(x)", {"x": (0.02, 2)}, 40),
        ("abs(x - 0.3) + x", {"x": (-1, 1)}, 8),
        ("tanh(15*(x - 2*y))", PLANE, 4),
        ("cos(4*x) + exp(y)", PLANE, 40),
    ],
)
def test_eight_proved_digits_from_few_tokens(formula, domain, most):
    net = af.compile(formula, domain, 1e-8, construction="spectral")
    assert net.certificate.status.value == "proved"
    assert net.certificate.bound <= 1e-8
    assert net.network.tokens <= most


def test_a_branch_point_at_an_end_is_resolved():
    net = af.compile("sqrt(x)", {"x": (0, 1)}, 1e-8, construction="spectral")
    assert net.certificate.proved
    assert net.network.tokens <= 64


def test_steep_tokens_matter_only_near_the_origin_of_scores():
    mesh = survey(lambda x: np.sqrt(x - 3)[:, None], 3, 4, 1e-6).mesh()
    tokens = mesh.tokens(40, 0.5, 4)
    points = mesh.points(200)
    scores = np.abs(tokens.slopes[:, 0] * (points[:, None] - mesh.origin)) * tokens.weights(
        points[:, None] - mesh.origin
    )
    assert np.abs(tokens.slopes).max() > 1e9
    assert scores.sum(axis=1).max() < 100


def test_low_precision_gets_values_it_can_bear():
    net, exact = (
        af.compile("sin(10*x)", {"x": (-1, 1)}, 3e-4, construction="spectral", dtype=dtype)
        for dtype in ("float32", "float64")
    )
    assert net.certificate.bound <= 3e-4
    assert net.summary().largest_value < exact.summary().largest_value


@pytest.mark.parametrize(
    ("function", "low", "high", "most"),
    [
        (np.exp, -10, 5, 24),
        (np.log, 0.01, 100, 60),
        (np.reciprocal, 0.01, 100, 60),
        (np.sqrt, 1e-4, 100, 50),
        (np.square, -6, 6, 8),
        (np.sin, -20, 20, 30),
        (np.tanh, -8, 8, 2),
        (lambda x: np.stack([np.sin(x), np.cos(x)], axis=1), 0, 3, 16),
        (np.zeros_like, 0, 1, 1),
    ],
)
def test_primitives_take_few_tokens_of_moderate_value(function, low, high, most):
    points = np.linspace(low, high, 10_001)
    truth = function(points).reshape(len(points), -1)
    scale = np.abs(truth).max() or 1.0
    bank = bank_of(search_for(function, low, high, 1e-8 * scale), "float64")
    assert np.abs(bank(points) - truth).max() <= 1.05e-8 * scale
    assert bank.tokens.size <= most
    assert np.abs(bank.values).max() <= 1e3 * scale


def test_least_squares_finds_a_minimum_and_repeats_itself_wherever_arrays_lie():
    class Rosenbrock:
        def __init__(self, point):
            self.point = point
            self.residual = np.array([10 * (point[1] - point[0] ** 2), 1 - point[0]])

        def jacobian(self):
            return np.array([[-20 * self.point[0], 10.0], [-1.0, 0.0]])

    assert least_squares(Rosenbrock, np.array([-1.2, 1.0]), 60) == pytest.approx([1, 1], abs=1e-10)
    places = np.empty(100)
    found = []
    for shift in range(4):
        start = places[shift : shift + 2]
        start[:] = -1.2, 1.0
        found.append(least_squares(Rosenbrock, start, 9))
    assert all(np.array_equal(found[0], other) for other in found)


def test_slices_serve_float32_where_one_head_cannot():
    net = af.compile("sin(10*x)", {"x": (-1, 1)}, 2e-5, construction="spectral", dtype="float32")
    assert net.network.heads > 1
    assert net.certificate.bound <= 2e-5
    points = np.concatenate([net.domain.sample(20_000, np.random.default_rng(0))[:, 0], [-1.0, 1.0, 0.0]])
    assert np.abs(net(points) - np.sin(10 * points)).max() <= net.certificate.bound


def test_float32_is_proved_to_two_parts_in_a_million():
    net = af.compile("1/(1 + 25*x**2)", {"x": (-1, 1)}, 2e-6, construction="spectral", dtype="float32")
    assert net.certificate.proved
    assert net.network.heads > 1
    points = net.domain.sample(20_000, np.random.default_rng(0))[:, 0]
    assert np.abs(net(points) - 1 / (1 + 25 * points**2)).max() <= net.certificate.bound <= 2e-6


@pytest.mark.parametrize("density", ["1/(0.02 + abs(x))", lambda x: 1 / (0.02 + np.abs(x)), [1.0, 9.0, 1.0]])
def test_a_density_can_be_declared(density):
    net = af.compile("1/(1 + 25*x**2)", {"x": (-1, 1)}, 1e-4, options={"density": density})
    assert net.construction == "spectral"
    assert net.certificate.proved
    assert net.network.tokens <= 12


def test_a_declared_density_draws_the_mesh():
    mesh = mesh_of(declared("1/(1e-4 + abs(x - 0.3))", as_box({"x": (-1, 1)}))[0], -1, 1)
    points = mesh.points(101)
    assert (np.abs(points - 0.3) < 0.01).sum() > 20


@pytest.mark.parametrize(
    ("density", "words"),
    [
        ("x", "positive everywhere; got -1 at x = -1"),
        ("[x, x]", "one number a point"),
        (3, "a formula, a function, or at least 2 numbers"),
        ({"y": "1"}, r"one of x; got \['y'\]"),
        ("import os", "formula"),
    ],
)
def test_a_density_that_cannot_be_used_is_refused(density, words):
    with pytest.raises(af.errors.InputError, match=words):
        af.compile("sin(x)", {"x": (-1, 1)}, 1e-4, options={"density": density})


def test_a_size_can_be_asked_for():
    net = af.compile("exp(x)*y", PLANE, None, construction="spectral", options={"tokens": 36})
    assert net.network.tokens <= 36
    assert net.certificate.bound < 0.1


@settings(max_examples=25, deadline=None)
@given(st.floats(-0.9, 0.9), st.floats(0.1, 10), st.floats(-2, 2))
def test_corners_are_found_to_the_last_digits(place, jump, slope):
    found = kinks(lambda x: (jump * np.abs(x - place) + np.sin(slope * x))[:, None], -1, 1, 1e-6)
    assert found == pytest.approx([place], abs=1e-11)


@pytest.mark.parametrize("function", [np.sin, lambda x: np.tanh(50 * x), lambda x: np.exp(-300 * x**2), np.sqrt])
def test_smooth_functions_have_no_corners(function):
    assert len(kinks(lambda x: function(x)[:, None], 0, 1, 1e-8)) == 0


def test_poles_are_found_and_draw_the_mesh():
    seen = survey(lambda x: (1 / ((x - 0.25) ** 2 + 1e-4))[:, None], -1, 1, 1e-6)
    assert np.abs(seen.poles - (0.25 + 0.01j)).min() < 1e-6
    points = seen.mesh().points(101)
    assert np.abs(points - 0.25).min() < 1e-3
    assert (np.diff(points) > 0).all()


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 100), st.integers(3, 40), st.sampled_from([(0.3, 2), (1.0, 1)]))
def test_tokens_are_tangents_of_a_convex_potential(sharpness, count, shape):
    tokens = Mesh.of(lambda x: 1 / (np.abs(x) + 1 / sharpness), -1, 1, np.zeros(1)).tokens(count, *shape)
    assert (np.diff(tokens.slopes[:, 0]) > 0).all()
    crossings = -np.diff(tokens.offsets) / np.diff(tokens.slopes[:, 0])
    assert (np.diff(crossings) > 0).all()  # every token leads somewhere, in order


def test_a_common_slope_and_offset_change_nothing():
    rng = np.random.default_rng(0)
    tokens, points, origin = Tokens(rng.normal(size=(5, 2)), rng.normal(size=5)), rng.normal(size=(7, 2)), np.ones(2)
    moved = tokens.about(origin)
    np.testing.assert_allclose(moved.weights(points - origin), tokens.weights(points), rtol=1e-12)
    assert (moved.scores(points).max(axis=1) >= -1e-12).all()


@pytest.mark.parametrize(
    ("formula", "ranks"),
    [
        ("x*y + z", [2, 1]),
        ("sin(x + 2*y - z)", [1]),
        ("sin(x) + cos(y)*z", [1, 2]),
        ("exp(x)*(y + z)**2", [3]),
        ("cos(y)", [1]),
        ("exp(x - y) + z**2", [1, 1]),
    ],
)
def test_parts_of_a_function_are_told_apart(formula, ranks):
    target = as_target(formula, as_box({"x": (-1, 1), "y": (0, 1), "z": (-1, 2)}))
    parts = parts_of(target, 1e-9)
    assert [part.rank for part in parts] == ranks
    rows = target.domain.sample(50, np.random.default_rng(5))
    total = sum(part.values(target, rows @ part.project.T) for part in parts)
    np.testing.assert_allclose(total, target.values(rows), atol=1e-9)
