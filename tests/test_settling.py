"""Functions that settle on domains without ends: the bound holds for all real numbers."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import attnfun as af
from attnfun.domains import read_ranges
from attnfun.judge.formula import values_at

SETTLING = {
    "exp(-x**2/2)": (-inf, inf),
    "atan(x)": (-inf, inf),
    "1/(1 + x)": (0, inf),
    "tanh(x)": (-inf, 0),
}


@pytest.mark.parametrize("text", SETTLING)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_bound_holds_for_all_real_numbers(text, dtype):
    low, high = SETTLING[text]
    net = af.compile(text, {"x": (low, high)}, 1e-2, dtype=dtype)
    assert net.certificate.bound < net.beyond(low, high) <= 1e-2
    rng, ends = np.random.default_rng(0), net.domain.starts()
    sizes = 10.0 ** rng.uniform(-3, 300, 300) * rng.choice([-1, 1], 300)
    edges = [np.nextafter(end.item(), way) for end in ends for way in (-inf, inf)]
    points = np.clip([*sizes, *rng.uniform(-20, 20, 200), *edges, 1.7e308, -1.7e308], low, high)
    values, (least, most) = net(points), values_at(text, ("x",), points[:, None])
    assert np.isfinite(values).all()
    errors = np.maximum(least[:, 0] - values, values - most[:, 0])
    assert errors.max() <= net.beyond(low, high)


def test_the_tolerance_may_be_relative_and_files_keep_what_is_needed(tmp_path):
    net = af.compile("100*exp(-x**2)", {"x": (-inf, inf)}, 1e-2, relative=True)
    net.save(tmp_path / "net")
    again = af.load(tmp_path / "net")
    assert again.beyond() == net.beyond() <= 1.0
    assert again(1e300) == net(1e300)


@pytest.mark.parametrize("text", ["sin(x)", "x", "x**2*exp(-x)", "log(x)"])
def test_what_does_not_settle_is_refused(text):
    with pytest.raises(af.errors.InputError, match="must have a limit at each infinite end"):
        af.compile(text, {"x": (1, inf)}, 1e-2)


@pytest.mark.parametrize(
    ("target", "words", "match"),
    [
        (np.tanh, {"eps": 0.1}, "needs a formula and a tolerance"),
        ("tanh(x)", {"options": {"tokens": 5}}, "needs a formula and a tolerance"),
        ("tanh(x)", {"eps": 0.1, "norm": 2}, 'needs norm="inf"'),
        ("tanh(x)", {"eps": 0.1, "outside": "allow"}, 'needs outside="clip"'),
        ("tanh(x)", {"eps": 0.1, "relative": True, "norm": 1}, 'needs norm="inf"'),
    ],
)
def test_what_an_open_domain_needs_is_said(target, words, match):
    with pytest.raises(af.errors.InputError, match=match):
        af.compile(target, {"x": (-inf, inf)}, **words)


@pytest.mark.parametrize(
    "ends",
    [(inf, inf), (inf, -inf), (0, -inf), (float("nan"), inf), (1e13, inf), (-inf, -1e300), ("0", inf), (None, inf)],
)
def test_ends_that_make_no_open_domain_are_named(ends):
    with pytest.raises(af.errors.InputError, match="ends of an open domain must be numbers with lo < hi, finite ones"):
        af.compile("1/(1 + x**2)", {"x": ends}, 0.1)


def test_a_bound_beyond_the_domain_needs_points_to_be_clipped():
    net = af.compile("tanh(x)", {"x": (-1, 1)}, 0.1)
    with pytest.raises(af.errors.InputError, match='outside="clip"'):
        net.beyond()
    clipping = af.compile("tanh(x)", {"x": (-1, 1)}, 0.1, outside="clip")
    assert clipping.beyond() >= 1 - np.tanh(1)
    with pytest.raises(af.errors.InputError, match="numbers with low <= high"):
        clipping.beyond(float("nan"))


def test_the_summary_says_where_there_is_a_bound_beyond_the_domain():
    everywhere = af.compile("tanh(x)", {"x": (-inf, inf)}, 0.1)
    assert everywhere.summary().beyond == f"error <= {everywhere.beyond():.6g} for every real x"
    half = af.compile("1/(1 + x)", {"x": (0, inf)}, 0.1)
    assert half.summary().beyond == f"error <= {half.beyond(0, inf):.6g} for x >= 0"
    for target, outside in (("tanh(x)", "raise"), ("x", "clip")):
        assert af.compile(target, {"x": (-1, 1)}, 0.1, outside=outside).summary().beyond is None


def test_ends_in_words_may_be_infinite():
    assert read_ranges("x=-inf:0, y=1:+inf") == {"x": (-inf, 0.0), "y": (1.0, inf)}
    with pytest.raises(af.errors.InputError, match="Only a formula in one variable may have infinite ends"):
        af.compile("x*y", read_ranges("x=0:inf y=0:1"), 0.1)
