"""Domains as users write them, and points inside and outside."""

from __future__ import annotations

import math

import numpy as np
import pytest

import attnfun as af
from attnfun.domains.box import as_box, read_box


def test_all_the_ways_to_write_a_domain():
    assert as_box((-1, 1)).shape == ()
    assert as_box([(-1, 1), (0, 2)]).shape == (2,)
    assert as_box({"x": (-1, 1)}).names == ("x",)
    assert as_box(np.array([[0, 1], [2, 3]])).hi.tolist() == [1, 3]
    assert af.Box([[0], [0]], [[1], [1]]).tokens == (2, 1)
    assert repr(as_box({"x": (-1, 1)})) == "Box(x=-1:1)"


@pytest.mark.parametrize(
    "bad",
    [
        (1, -1),
        (1, 1),
        (math.nan, 1),
        (0, math.inf),
        (-1e308, 1e308),
        (0, 1e-300),
        (0, 1e200),
        {"x": (2, 1)},
        {"x": 3},
        {"x": ("a", "b")},
        {},
        [],
        [(0, 1, 2)],
        "x=0:1",
        None,
        7,
    ],
)
def test_bad_domains_are_refused(bad):
    with pytest.raises(af.errors.InputError, match=r"domain|interval|pair|shape|end of"):
        as_box(bad)


def test_names_must_be_distinct_and_fit():
    with pytest.raises(af.errors.InputError, match="distinct name"):
        af.Box([0, 0], [1, 1], names=("x", "x"))
    with pytest.raises(af.errors.InputError, match="shape"):
        af.Box([0, 0], [1])


@pytest.fixture(scope="module")
def net():
    return af.compile("x + y", {"x": (0, 1), "y": (0, 1)}, 0.5)


def test_points_outside_raise_or_clip_or_pass(net):
    with pytest.raises(af.errors.InputError, match=r"y must lie in \[0, 1\]; got 2"):
        net([0.5, 2.0])
    assert net([0.5, 2.0], outside="clip") == net([0.5, 1.0])
    assert np.isfinite(net([0.5, 2.0], outside="allow"))
    with pytest.raises(af.errors.InputError, match="outside must be"):
        net([0.5, 0.5], outside="ignore")


def test_bad_points_are_refused(net):
    with pytest.raises(af.errors.InputError, match="NaN"):
        net([math.nan, 0.5], outside="allow")
    with pytest.raises(af.errors.InputError, match=r"shape \(\.\.\., 2\)"):
        net([0.1, 0.2, 0.3])
    with pytest.raises(af.errors.InputError, match="real numbers"):
        net(["a", "b"])


def test_any_leading_axes(net):
    points = np.random.default_rng(0).uniform(0, 1, (3, 4, 2))
    assert net(points).shape == (3, 4)
    assert net(np.empty((0, 2))).shape == (0,)
    assert np.ndim(net([0.1, 0.2])) == 0


def test_one_variable_takes_batches_without_a_last_axis():
    net = af.compile("sin(x)", {"x": (0, 1)}, 0.2)
    batch = np.array([0.1, 0.5, 0.9])
    assert net(batch).shape == (3,)
    assert np.array_equal(net(batch), net(batch[:, None]))
    assert np.ndim(net(0.3)) == 0
    plain = af.compile(np.sin, (0, 1), 0.2)
    assert plain(np.full((2, 3), 0.5)).shape == (2, 3)


def test_what_is_wrong_with_an_end_or_a_size_is_said_in_sentences():
    with pytest.raises(af.errors.InputError, match=r"must be a number; got '2\*pie'\. Every variable"):
        af.compile("sin(x)", {"x": (0, "2*pie")}, 0.1)
    with pytest.raises(af.errors.InputError, match=r"options=.*must say how many.*got no tokens"):
        af.compile("sin(x)", (0, 1), construction="grid")


@pytest.mark.parametrize(
    "read", [lambda: as_box({"x": (0, 1), "y": (0, "2*pie")}), lambda: read_box("x=0:1 y=0:2*pie")]
)
def test_ends_that_are_no_numbers_are_named(read):
    wanted = r"the upper end of y must be a number; got '2\*pie'.*Did you mean pi"
    with pytest.raises(af.errors.InputError, match=wanted):
        read()
