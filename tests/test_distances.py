"""How far a value is from the average, at one point of a box [T 10.6]."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.arithmetic.formats import FORMATS
from attnfun.proofs.heads import NEGLIGIBLE, EnclosedBank, _Keys, _without
from attnfun.proofs.rules.boxes import Problem


def test_the_weight_of_all_other_tokens_is_bounded_at_any_scale():
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 40):
        heavy = 2.0 ** -rng.uniform(0, 900, (200, count))
        light = heavy * rng.uniform(0, 1, heavy.shape)
        light[rng.random(heavy.shape) < 0.1] = 0.0
        heavy[rng.random(heavy.shape) < 0.1] = 0.0
        light = np.minimum(light, heavy)
        bounds = _without(light, heavy)
        for row, (least, most) in enumerate(zip(light, heavy, strict=True)):
            for j in range(count):
                others = sum((Fraction(weight) for weight in np.delete(most, j)), Fraction(0))
                real = others / (Fraction(least[j]) + others) if others else Fraction(0)
                assert real <= Fraction(bounds[row, j]) <= 1
                assert bounds[row, j] <= float(real) * (1 + 1e-12) or bounds[row, j] == 1.0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_sharp_rectifier_is_rounded_relative_to_its_own_error(dtype):
    """A data token with nearly all the weight has a value that varies over the box, and is near the average."""
    net = af.compile("max(x, 0)", {"x": (-8, 8)}, {"float64": 1e-8, "float32": 1e-4}[dtype], dtype=dtype)
    unit = {"float64": 2.0**-53, "float32": 2.0**-24}[dtype]
    problem = Problem(net.certificate.claim.imitated, net.network)
    rows = Interval(np.array([[1.0]]), np.array([[2.0]]))
    *_, errors = problem.network_on(rows, problem.encloser.start())
    assert errors[0, 1] < 2000 * unit  # the gain of the scores, 2^25 or more, is not in it
    points = np.concatenate([np.linspace(-8, 8, 4001), np.nextafter(0, [1, -1]), 2.0 ** -np.arange(0, 60, 3.0)])
    points = points.astype(dtype).astype(np.float64)
    assert np.abs(net(points).astype(np.float64) - np.maximum(points, 0)).max() <= net.certificate.bound


def test_a_corner_by_solved_values_is_proved_to_nine_digits():
    net = af.compile("max(x, 0)", {"x": (-10, 10)}, 1e-9, construction="spectral", time_limit=300)
    assert net.certificate.bound <= 1e-9
    assert net.certificate.parts["rounding"] <= 1e-11


def keys_of(scores: np.ndarray, off: np.ndarray, values: np.ndarray) -> _Keys:
    """Tokens of one query in one box, their scores known and computed to within `off`."""
    zeros, shape = np.zeros((1, 1, 2)), (1, 1, len(scores))
    return _Keys(
        low=scores.reshape(shape).copy(),
        high=scores.reshape(shape).copy(),
        values=Interval(values.reshape(1, 1, -1, 1)),
        at=values.reshape(1, -1, 1),
        weights=np.ones(shape),
        real=np.ones((1, len(scores)), dtype=bool),
        keys=len(scores),
        off=off.reshape(shape),
        own=off.reshape(shape),
        value_error=zeros,
    )


def average_of(scores: np.ndarray, values: np.ndarray) -> float:
    weights = np.exp(scores - scores.max())
    return float(weights @ values / weights.sum())


def bank_of(values: np.ndarray) -> EnclosedBank:
    zero = np.zeros((len(values), 1))
    return EnclosedBank(zero, zero, zero, values[:, None], zero, zero, NEGLIGIBLE)


@pytest.mark.parametrize("largest", [1e-6, 0.1, 3.0, 60.0, 3000.0])
def test_scores_that_are_far_off_move_an_average_no_further_than_stated(largest):
    """Light tokens whose scores are off by more than they are behind, leaders that are off themselves, and ties."""
    rng = np.random.default_rng(0)
    for trial in range(400):
        count = int(rng.integers(2, 5))
        scores = -rng.exponential([0.5, 20.0, 80.0, 5000.0][trial % 4], count)
        off, values = largest * rng.random(count) ** 3, rng.normal(size=count)
        bank = bank_of(values)
        tails = np.zeros((1, 1, 2))
        _, error = keys_of(scores, off, values).average(tails, bank, FORMATS["float64"])
        for signs in np.ndindex(*(2,) * count):
            moved = average_of(scores + off * (2 * np.array(signs) - 1), values)
            assert abs(moved - average_of(scores, values)) <= error.sum() * (1 + 1e-9) + 1e-12


def test_a_leader_that_is_far_off_is_as_good_as_one_that_is_not():
    scores, off, values = np.array([0.0, -1e9]), np.array([5e3, 5e3]), np.array([1.0, -1.0])
    bank = bank_of(values)
    *_, error = keys_of(scores, off, values).average(np.zeros((1, 1, 2)), bank, FORMATS["float64"])
    assert error.sum() < 1e-14
