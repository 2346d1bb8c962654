"""Inputs that are rounded to the network's format, at and near the ends of domains that are no numbers of it."""

from __future__ import annotations

import numpy as np
import pytest

import attnfun as af
from attnfun.arithmetic.formats import round_to
from attnfun.proofs.rules.boxes import Problem
from attnfun.targets import Expression

PLACES = {
    "inwards": (0.1, 0.7),  # as float32: 0.10000000149, 0.69999998807
    "outwards": (0.7, 0.8),  # as float32: 0.69999998807, 0.80000001192
    "far from zero": (5.1, 5.1 + 1e-6),
    "between two numbers": (5.1, 5.1 + 1e-9),
    "negative": (-1000.2, -1000.1),
}
STEP = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def hostile(low: float, high: float, dtype: str) -> np.ndarray:
    """Ends, numbers of the format with their neighbours, and the midpoints between them, in float64."""
    even = np.linspace(low, high, 4001)
    numbers = np.unique(round_to(even, dtype))
    halfway = (numbers[1:] + numbers[:-1]) / 2
    near = np.concatenate([numbers, halfway])
    points = np.concatenate([even, near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
    return points[(points >= low) & (points <= high)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("formula", ["x", "sin(3*x)", "min(x, 0.1)"])
def test_rounding_the_input_costs_what_the_target_changes(formula, dtype, place):
    low, high = PLACES[place]
    unit, largest = STEP[dtype], max(abs(low), abs(high))
    eps = 60 * unit * (1 + largest)
    net = af.compile(formula, {"x": (low, high)}, eps, construction="spectral", dtype=dtype)
    points = hostile(low, high, dtype)
    exact = net.certificate.claim.target.values(points[:, None])[:, 0]
    errors = np.abs(net(points).astype(np.float64) - exact)
    assert errors.max() <= net.certificate.bound
    assert net.certificate.parts["input"] <= 4 * unit * (1 + largest)


@pytest.mark.parametrize(
    ("formula", "domain", "keeps"),
    [
        ("x", (0.7, 0.8), True),
        ("sqrt(x - 0.25)", (0.25, 0.5), True),
        ("sqrt(x - 0.7)", (0.7, 0.8), False),  # not defined where the end is rounded to
        ("1/(0.800000005 - x)", (0.7, 0.8), False),
        ("1/(0.81 - x)", (0.7, 0.8), True),
        ("sqrt(x - 0.1)", (0.1, 0.5), True),  # rounded inwards
        ("log(x)", (1e-44, 1.0), False),  # flushed to zero
        ("x", (1e-44, 1.0), True),
    ],
)
def test_a_formula_counts_beyond_the_domain_where_it_is_defined(formula, domain, keeps):
    box = af.Box([domain[0]], [domain[1]], ("x",))
    net = af.compile("x", box, 0.5, construction="cross", dtype="float32")
    target = Expression(formula, box)
    assert Problem(target, net.network)._keeps is keeps


def test_a_root_that_ends_with_the_domain_is_still_bounded():
    net = af.compile("sqrt(x - 0.7)", {"x": (0.7, 0.8)}, 0.1, construction="cross", dtype="float32")
    assert net.certificate.bound <= 0.1
