"""Polynomials on boxes and heads as polynomials: bounds that points may not beat, and that are not far from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flint import arb

from attnfun.arithmetic import Interval, Jet
from attnfun.arithmetic.basis import basis
from attnfun.arithmetic.jets import variables
from attnfun.domains.box import as_box
from attnfun.judge.formula import evaluate, read
from attnfun.judge.models import Model, space
from attnfun.judge.ranges import Range, precision
from attnfun.proofs.moments import Moments
from attnfun.proofs.polynomials import largest_value, reaches, recentred
from attnfun.targets import as_target

SIZES = [(1, 16), (2, 8), (3, 5), (6, 2), (14, 2)]
Long = np.longdouble


def monomials(base, steps):
    """`t^α` in extended precision, (..., C)."""
    return np.prod(steps[..., None, :].astype(Long) ** base.exponents, axis=-1)


@pytest.mark.parametrize(("count", "degree"), SIZES)
def test_no_point_beats_the_bernstein_bound(count, degree):
    base, rng = basis(count, degree), np.random.default_rng(0)
    coefficients = rng.normal(size=(20, base.size)) * 10.0 ** rng.uniform(-3, 1, (20, base.size))
    bound = largest_value(base, coefficients)
    points = np.vstack([rng.uniform(-1, 1, (2000, count)), rng.choice([-1.0, 1.0], (64, count)), np.zeros((1, count))])
    values = np.abs(monomials(base, points) @ coefficients.T.astype(Long)).max(axis=0)
    assert (values <= bound).all()
    assert (bound <= np.abs(coefficients).sum(axis=1) * (1 + 1e-12)).all()


def test_a_wave_is_bounded_far_better_than_by_its_coefficients():
    base = basis(1, 16)
    wave = np.zeros(17)
    wave[::2] = np.cumprod([1.0] + [-(np.pi**2) / ((2 * k - 1) * (2 * k)) for k in range(1, 9)])  # cos πτ
    assert largest_value(base, wave) < 1.5
    assert np.abs(wave).sum() > 10


@pytest.mark.parametrize(("count", "degree"), SIZES[:4])
def test_recentred_polynomials_contain_their_coefficients_elsewhere(count, degree):
    base, rng = basis(count, degree), np.random.default_rng(1)
    mid, radius = rng.normal(size=(5, base.size)), rng.uniform(0.01, 0.5, (5, count))
    wide = recentred(Jet(base, mid, np.zeros_like(mid)), reaches(base, radius))
    for _ in range(10):
        shift = radius * rng.uniform(-1, 1, radius.shape)
        moved = np.zeros(mid.shape, dtype=Long)
        for k in range(base.size):
            for part, place in enumerate(base.products[k]):
                step = np.prod(shift.astype(Long) ** base.exponents[k], axis=1)
                moved[:, part] += base.choices[k][part] * mid[:, place] * step
        assert (np.abs(moved - wide.mid) <= wide.rad).all()
        other = np.sum(monomials(base, shift)[:, None] * mid[:, None], axis=2)[:, 0]  # the value there
        np.testing.assert_allclose(moved[:, 0].astype(float), other.astype(float), rtol=1e-12, atol=1e-12)


def random_head(rng, count, tokens, outputs):
    """Scores (tokens, 1 + D) relative to their mean, as in the engine, and values (tokens, m), of many sizes."""
    scores = rng.normal(size=(tokens, 1 + count)) * 10.0 ** rng.uniform(-1, 1.2)
    weights = np.exp(scores[:, 0] - scores[:, 0].max())
    return scores - weights @ scores / weights.sum(), rng.normal(size=(tokens, outputs)) * 10.0 ** rng.uniform(
        -2, 3, (tokens, 1)
    )


def averages(scores, values, points):
    """The head at points (P, D), in extended precision."""
    exponents = scores[:, 0].astype(Long) + points.astype(Long) @ scores[:, 1:].T.astype(Long)
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return weights @ values.astype(Long) / weights.sum(axis=1, keepdims=True)


def polynomials(base, scores, values, radius, change=lambda moments: moments):
    """The polynomials (m, C) of one head on one box, and their radii."""
    known = scores[None, None], np.zeros((1, 1, *scores.shape))
    moments = Moments.of(
        base, known, (values[None], np.zeros((1, *values.shape))), np.ones((1, 1, len(scores)), bool), radius
    )
    jet = change(moments).average(base, reaches(base, radius))
    return jet.mid[0, 0], jet.rad[0, 0]


def excess(base, scores, values, radius, rng, **how):
    """How far points beat the bound, relative to its size; and the rest as a share of the largest value."""
    mid, rad = polynomials(base, scores, values, radius, **how)
    points = radius * np.vstack(
        [rng.uniform(-1, 1, (60, base.variables)), rng.choice([-1.0, 1.0], (16, base.variables))]
    )
    powers = monomials(base, points)
    off = np.abs(averages(scores, values, points) - powers @ mid.T.astype(Long))
    room = np.abs(powers) @ rad.T.astype(Long) + 1e-17 * np.abs(values).max()
    return float((off / room).max()), float(rad[:, 0].max() / np.abs(values).max())


@pytest.mark.parametrize(("count", "degree"), [(1, 10), (2, 6), (3, 4), (5, 2)])
def test_a_head_is_its_polynomial_within_the_rest(count, degree):
    base, rng, useful = basis(count, degree), np.random.default_rng(count), 0
    for _ in range(60):
        scores, values = random_head(rng, count, int(rng.integers(2, 40)), int(rng.integers(1, 3)))
        radius = 10.0 ** rng.uniform(-3, 0.5) * rng.uniform(0.1, 1, (1, count)) / np.abs(scores).max()
        beaten, share = excess(base, scores, values, radius, rng)
        assert beaten <= 1
        useful += share < 1e-3
    assert useful > 10


def test_the_rest_is_needed():
    """Without it points beat the polynomial by far."""
    rng, base = np.random.default_rng(3), basis(2, 4)
    scores, values = random_head(rng, 2, 20, 1)
    radius = np.full((1, 2), 1.0) / np.abs(scores).max()

    def without(moments):
        return replace(moments, heavy=0 * moments.heavy, apart=0 * moments.apart)

    assert excess(base, scores, values, radius, rng)[0] <= 1
    assert excess(base, scores, values, radius, rng, change=without)[0] > 100


FORMULAS = [
    "exp(x**2 - y)",
    "exp(-(3*x - 1)**2 - (2*y + x)**2)",
    "exp(sin(x*y))/(2 + exp(y))",
    "cos(3*x + 5*y)",
    "tanh(4*(x - y))",
    "log(3 + x*y)*sqrt(2 + x)",
    "atan(x*y + y**2)",
    "(2 + x - y)**2.5",
    "x/(1 + 5*(x + y)**2)",
    "exp(exp(x))*erf(x + 2*y)",
]


def taylor_coefficients(text, names, point, degree):
    """Taylor coefficients of a formula at a point, by exponents: the judge's polynomial on a tiny box, scaled back."""
    here, radius = space(len(point), degree), arb(2) ** -60
    at = []
    for axis, x in enumerate(point):
        polynomial = here.affine(arb(x), [radius if k == axis else arb(0) for k in range(len(point))])
        at.append(Model(here, polynomial, arb(0), Range.of(arb(x) - radius, arb(x) + radius)))
    (model,) = evaluate(*read(text, names), at)
    pairs = zip(here.exponents, model.polynomial, strict=True)
    return {exponents: coefficient / radius ** sum(exponents) for exponents, coefficient in pairs}


@pytest.mark.parametrize("text", FORMULAS)
def test_coefficients_in_two_variables_contain_ball_arithmetic(text):
    target, degree = as_target(text, as_box({"x": (-1, 1), "y": (-1, 1)})), 6
    points = np.random.default_rng(4).uniform(-1, 1, (5, 2))
    low = Interval(points - 1e-3, points + 1e-3)
    exact, wide = (target.jets(variables(where, degree)) for where in (Interval(points), low))
    with precision(200):
        for row, point in enumerate(points):
            truth = taylor_coefficients(text, ("x", "y"), point.tolist(), degree)
            for k, exponents in enumerate(exact.basis.exponents.tolist()):
                for ours in (exact, wide):
                    apart = abs(truth[tuple(exponents)] - arb(float(ours.mid[row, 0, k])))
                    assert apart <= arb(float(ours.rad[row, 0, k]))
    assert (exact.rad <= 1e-9 * (1 + np.abs(exact.mid).max(axis=2, keepdims=True))).all()
