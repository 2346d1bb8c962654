"""Taylor series and the bounds made of them: what is not known, a kink or a tail, must never be taken for zero."""

from __future__ import annotations

import numpy as np
import pytest

from attnfun.certificates import heads
from attnfun.certificates.enclosure import Encloser
from attnfun.certificates.taylor import TaylorBounds
from attnfun.constructions import REGISTRY
from attnfun.domain import as_box
from attnfun.interval import Interval
from attnfun.interval.jets import variables
from attnfun.network import Affine, Attention, Network
from attnfun.network.reference import run
from attnfun.targets import as_target

KINKS = ["abs(x)", "sign(x)", "min(x, 0)", "max(0, x)"]
AFTERWARDS = ["{}", "2*{}", "{}*2", "x*{}", "{}*{}", "-3*(1 - 2*{})", "sin(2*{})", "(2*{})**2", "exp({}*0.5)/(3 + x)"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("after", AFTERWARDS)
@pytest.mark.parametrize("kink", KINKS)
def test_no_remainder_is_claimed_across_a_kink(kink, after, count):
    """Over a box that straddles the kink the coefficients of top degree are unknown; beside it, all are known."""
    domain = as_box(dict.fromkeys(("x", "y")[:count], (-1, 1)))
    target = as_target(after.replace("{}", kink), domain)
    low, high = np.full((2, count), -0.1), np.full((2, count), 0.3)
    low[1] = 0.1  # the second box lies beside the kink, in the same batch
    with np.errstate(invalid="ignore"):  # unbounded intervals have no midpoint
        series = target.jets(variables(Interval(low, high), degree=4))
    top = series.basis.degrees == series.basis.degree
    assert np.isinf(series.rad[0][:, top]).all()
    assert np.isfinite(series.rad[1]).all()


@pytest.mark.parametrize("construction", REGISTRY)
@pytest.mark.parametrize("text", ["3*min(x, 0.1)", "2*abs(x - 0.1)", "x*max(x, 0.1)"])
def test_series_bounds_hold_across_a_kink(text, construction):
    """The centre of the box sees one side of the kink only; the bound must cover the other too."""
    domain = as_box({"x": (-1, 0.7)})
    target, theorem = as_target(text, domain), REGISTRY[construction]
    network = theorem.build(target, theorem.plan(target, None, 100, {"tokens": 30}), "float64")
    encloser = Encloser(network)
    for low, high in [(0.096, 0.11), (0.05, 0.2), (0.08, 0.102)]:
        box = Interval([[low]], [[high]])
        _, focus = encloser(box.reshape(1, *network.shape_in), encloser.start())
        bound = TaylorBounds(target, network, encloser.banks)(box, focus)
        points = np.linspace(low, high, 501)[:, None]
        error = np.abs(run(network, points[:, None]).reshape(-1, 1) - target.values(points))
        assert error.max() <= bound[0]


def test_series_bounds_cover_a_tail_far_from_the_data_token(monkeypatch):
    """Dropped tokens pull away from the data token's value, even if all memory values are equal."""
    monkeypatch.setattr(heads, "NEGLIGIBLE", 1.0)  # a tail large enough to see
    target = as_target("0.5 + 0*x", as_box({"x": (-1, 1)}))
    select = np.eye(4)  # a token is (x, query, key, value); the data token has key 0 and value 1
    memory = np.array([[0.0, 0.0, -3.0, 0.0]] * 5 + [[0.0, 0.0, 0.0, 0.0]])
    head = Attention(
        query=select[None, :, 1:2],
        query_bias=np.zeros((1, 1)),
        key=select[None, :, 2:3],
        key_bias=np.zeros((1, 1)),
        value=select[None, :, 3:4],
        value_bias=np.zeros((1, 1)),
        output=np.ones((1, 1, 1)),
        output_bias=np.zeros(1),
        memory=memory,
        attends_data=True,
    )
    network = Network((Affine.tokenwise(select[:1], np.array([0.0, 1.0, 0.0, 1.0])), head), 1, "float64")
    encloser, box = Encloser(network), Interval([[-0.1]], [[0.1]])
    _, focus = encloser(box.reshape(1, 1, 1), encloser.start())
    assert focus[0].active.lengths.tolist() == [1]
    bound = TaylorBounds(target, network, encloser.banks)(box, focus)
    error = abs(run(network, np.zeros((1, 1, 1))).item() - 0.5)
    assert 0.05 < error <= bound[0]
