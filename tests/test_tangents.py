"""Smooth functions by tangent planes: as few as the bound says, proved, and refused where there are no tangents."""

from __future__ import annotations

import numpy as np
import pytest

import attnfun as af
from attnfun.proofs.provers.planes import cut
from attnfun.proofs.rules.planes import Distance, read_planes
from attnfun.resources.deadline import Deadline
from attnfun.targets import MaxAffine
from clocks import readings
from proving import bound_by

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
CONVEX = [
    ("x**2", {"x": (-1, 1)}, 1e-3),
    ("exp(3*x)", {"x": (-1, 1)}, 0.02),
    ("(x + 2*y)**2", SQUARE, 0.1),
    ("x**2 + exp(y)", SQUARE, 0.05),
]
OTHERS = [("sin(3*x)", {"x": (-1, 1)}, 0.02), ("sin(3*x)*y", SQUARE, 0.2), ("x*y", SQUARE, 0.05)]


def plane_count(net: af.types.Compiled) -> int:
    return int(net.summary().figures["planes"])


@pytest.mark.parametrize(("text", "domain", "eps"), CONVEX + OTHERS)
def test_functions_and_their_bound(text, domain, eps):
    net = af.compile(text, domain, eps, construction="max-affine")
    rows = np.vstack([net.domain.sample(4000, np.random.default_rng(0)), net.domain.lo[None], net.domain.hi[None]])
    error = np.abs(net(rows) - net.certificate.claim.target.values(rows)[:, 0]).max()
    assert net.certificate.proved
    assert error <= net.certificate.bound <= eps
    assert net.network.heads == (1 if (text, domain, eps) in CONVEX else 2)


def test_the_number_of_planes_is_that_of_the_theory():
    """x² on [-1, 1]: a tangent is below by w²/4 at the ends of a cell of width w, half of it with the shift."""
    for eps in (1e-2, 1e-3, 1e-4):
        best = 2 / np.sqrt(8 * eps)
        net = af.compile("x**2", {"x": (-1, 1)}, eps, construction="max-affine")
        assert best <= plane_count(net) <= 1.2 * best + 1


def test_a_size_instead_of_a_tolerance():
    bounds = [
        af.compile("exp(x)", {"x": (-1, 1)}, construction="max-affine", options={"tokens": count}).certificate.bound
        for count in (5, 10, 20)
    ]
    assert bounds[0] / bounds[1] > 3
    assert bounds[1] / bounds[2] > 3
    with pytest.raises(af.errors.InputError, match="without eps"):
        af.compile("exp(x)", {"x": (-1, 1)}, construction="max-affine")


def test_where_there_are_no_tangents():
    for text in ("abs(x)", "sqrt(x + 1)", "where(x < 0.25, x, x**2)"):
        with pytest.raises(af.errors.InputError, match="second derivatives"):
            af.compile(text, {"x": (-1, 1)}, 0.1, norm=1, construction="max-affine")
    with pytest.raises(af.errors.InputError, match="must serve"):
        af.compile("[x, x**2]", {"x": (-1, 1)}, 0.1, construction="max-affine")
    with pytest.raises(af.errors.ToleranceNotMet, match="planes"):
        af.compile("sin(3*x)*y", SQUARE, 1e-4, construction="max-affine")


@pytest.mark.parametrize("text", ["x**2 + exp(y)", "sin(3*x)*y"])
def test_a_changed_target_is_noticed(text):
    """The proof compares the very planes of the network with the target, wherever they differ."""
    net = af.compile(text, SQUARE, 0.2, construction="max-affine")
    bump = af.compile(f"{text} + 0.5*exp(-400*((x - 0.37)**2 + (y + 0.61)**2))", SQUARE, 9.0, construction="grid")
    moved = bump.certificate.claim.target
    outcome = bound_by("planes", moved, net.network, 0.9, Deadline.after(20))
    rows = np.array([[0.37, -0.61]])
    error = abs(float(net(rows)[0]) - float(moved.values(rows)[0, 0]))
    assert 0.3 < error <= outcome.bound <= 1.5 * (error + 0.2)


@pytest.mark.parametrize("seed", range(4))
def test_ties_between_planes_do_not_hold_a_proof_up(seed):
    """Centres of boxes lie between cells; the last digits say which of two planes leads there."""
    net = af.compile("sin(3*x)*y", SQUARE, construction="max-affine", options={"tokens": 160}, proof=False)
    planes = read_planes(net.network)
    assert planes.minus is not None
    first, second = np.random.default_rng(seed).normal(0, 1e-12, (2, len(planes.b)))
    tilted = MaxAffine(planes.A, planes.b + first, MaxAffine(planes.minus.A, planes.minus.b + second))
    tree = cut(Distance.of(net.certificate.claim.target, tilted), 0.19, readings(400))
    assert tree.nodes < 1000


def test_ball_arithmetic_agrees():
    net = af.compile("x**2", {"x": (-1, 1)}, 0.05, construction="max-affine")
    assert net.certificate.recheck(engine="arb").bound <= 0.05
