"""What is said of the error before building: a bound where the theorem proves it, an estimate everywhere else."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import attnfun as af
from attnfun.arithmetic.directed import above_real
from attnfun.constructions import REGISTRY

LINE = {"x": (-1, 1)}
CLIPS = af.TruncatedLinear([[1.0, -2.0], [0.5, 1.0]], 0.1, -1, 1), af.Box(np.full((2, 2), -1), np.full((2, 2), 1))


def halved(p):
    return np.asarray(p) / 2


PROVED = {
    "grid": lambda **more: af.compile(halved, (-1, 1), lipschitz=0.5, options={"tokens": 20}, **more),
    "cross": lambda **more: af.compile(halved, (-1, 1), lipschitz=0.5, options={"tokens": 20}, **more),
    "knots": lambda **more: af.compile(*CLIPS, options={"R": 2.0**8}, **more),
    "truncated-linear": lambda **more: af.compile(*CLIPS, options={"p": 20}, **more),
    "multihead": lambda **more: af.compile(*CLIPS, options={"heads": 6}, **more),
    "max-affine": lambda **more: af.compile("x**4", LINE, options={"tokens": 9}, **more),
    "relu": lambda **more: af.compile(*CLIPS, options={"R": 2.0**8}, **more),
}
"""Constructions whose theorem is a bound for some targets."""
ESTIMATED = {
    "grid": lambda **more: af.compile("sin(3*x)", LINE, 0.2, **more),
    "spectral": lambda **more: af.compile("sin(3*x)", LINE, 1e-3, **more),
    "circuit": lambda **more: af.compile("sin(3*x)*x", LINE, 1e-3, **more),
    "softmax-readout": lambda **more: af.compile("sin(3*x)", LINE, 0.2, **more),
    "two-layer": lambda **more: af.compile("sin(3*x)", LINE, 0.2, **more),
    "two-layer-lookup": lambda **more: af.compile("sin(3*x)", LINE, 0.2, **more),
    "subspace": lambda **more: af.compile(
        lambda p: np.sin(p[..., 0] + p[..., 1] + p[..., 2]), [(-1, 1)] * 3, 1e-2, proof=False, **more
    ),
    "regression": lambda **more: af.compile(af.Samples(np.arange(40.0)[:, None] % 7, np.arange(40.0) % 7), **more),
}


def test_every_construction_is_here():
    assert set(PROVED) | set(ESTIMATED) == set(REGISTRY)


@pytest.mark.parametrize("name", PROVED)
def test_an_a_priori_bound_holds_and_is_called_one(name):
    net = PROVED[name](construction=name)
    summary = net.summary()
    assert net.a_priori_proved
    assert summary.a_priori_bound == net.a_priori
    assert summary.a_priori_estimate is None
    assert "a priori bound" in str(summary)
    assert "a priori estimate" not in str(summary)
    assert net.certificate.found - net.certificate.parts["rounding"] <= net.a_priori < inf


@pytest.mark.parametrize("name", ESTIMATED)
def test_what_is_sampled_is_called_an_estimate(name, tmp_path):
    net = ESTIMATED[name](construction=name)
    summary = net.summary()
    assert not net.a_priori_proved
    assert summary.a_priori_bound is None
    assert summary.a_priori_estimate == net.a_priori
    assert "a priori estimate" in str(summary)
    assert "a priori bound" not in str(summary)
    if name == "spectral":
        assert net.certificate.found > net.a_priori  # as an estimate may be
        net.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "no bound in advance" in page
        assert "a priori bound" not in page


def test_planes_of_a_function_that_is_nearly_convex_keep_their_bound():
    net = af.compile("x**2 - 1e-4*cos(40*x)", LINE, 0.03, construction="max-affine")
    assert net.figures["planes"] < 20  # one maximum
    points = np.linspace(-1, 1, 20001)
    assert np.abs(net(points) - (points**2 - 1e-4 * np.cos(40 * points))).max() <= net.a_priori


def test_files_keep_what_is_proved_and_those_without_the_word_load_as_estimates(tmp_path):
    net, file = PROVED["knots"](construction="knots"), tmp_path / "net.safetensors"
    net.save(file)
    assert af.load(file).a_priori_proved
    with safe_open(str(file), "numpy") as opened:
        known = opened.metadata()
    save_file(load_file(file), file, {**known, "attnfun": known["attnfun"].replace('"a_priori_proved": true, ', "")})
    assert "a_priori_proved" not in safe_open(str(file), "numpy").metadata()["attnfun"]
    old = af.load(file)
    assert not old.a_priori_proved
    assert old.a_priori == net.a_priori


def test_a_sum_in_floats_is_raised_above_the_real_one():
    from fractions import Fraction

    for terms in ([0.1] * 1000, [1.0] + [2.0**-53] * 1000, [1e-300], [0.0]):
        total = 0.0
        for term in terms:
            total += term
        assert above_real(total) >= sum(map(Fraction, terms)) >= Fraction(total) * (1 - Fraction(1, 10**9))
