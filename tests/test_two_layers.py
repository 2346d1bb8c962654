"""Two self-attention layers for any continuous map: what they are, what is proved of them, and that it holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun.pieces.ridges import Rectifiers
from attnfun.proofs.rules.rectifiers import RectifiersDistance, read_rectifiers
from attnfun.proofs.search import network_rows
from attnfun.targets import Expression

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
BOX = af.Box(np.zeros((2, 2)), np.ones((2, 2)))


def mixed(X):
    return np.stack([X[..., 0, :] * X[..., 1, :1], np.sin(X[..., 1, :])], axis=-2)


def deep():
    torch.manual_seed(0)
    sizes = torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)
    return torch.nn.Sequential(*sizes)


CASES = {
    "one variable": ("sin(3*x)", {"x": (-1, 1)}, {"eps": 2e-2}),
    "far from zero": ("sin(x)", {"x": (1e6, 1e6 + 1)}, {"eps": 0.05}),
    "large": ("1e300*sin(x)", {"x": (-1, 1)}, {"eps": 1e299}),
    "small": ("1e-300*sin(x)", {"x": (-1, 1)}, {"eps": 1e-301}),
    "steep end": ("sqrt(x)", {"x": (0, 1)}, {"eps": 0.1}),
    "corners": ("abs(x) + y", SQUARE, {"eps": 0.1}),
    "float32": ("sin(3*x)*y", SQUARE, {"eps": 0.3, "dtype": "float32"}),
    "mean square": ("x*y", SQUARE, {"eps": 0.4, "norm": 2}),
    "six variables": ("sin(a + b + c + d + e + f)", dict.fromkeys("abcdef", (0, 0.5)), {"eps": 0.3}),
    "declared": (lambda x: np.abs(np.sin(3 * x)), (-1.0, 1.0), {"eps": 0.2, "lipschitz": 3.0}),
    "sequence": (mixed, BOX, {"eps": 0.4}),
    "each token alone": (mixed, BOX, {"eps": 0.6, "options": {"layout": "token-wise"}}),
    "a deeper network": (deep(), [(-1, 1)] * 2, {"eps": 0.1}),
}


@pytest.mark.parametrize("name", CASES)
def test_both_layers_are_self_attention_and_the_bound_holds(name):
    target, domain, wanted = CASES[name]
    net = af.compile(target, domain, construction="two-layer", **wanted)
    first, second = net.network.attention
    assert first.attends_data
    assert second.attends_data
    assert net.network.tokens == 0
    certificate = net.certificate
    assert certificate.proof is not None
    assert "rectifiers" in {lemma.rule for lemma in certificate.proof.lemmas()}
    assert certificate.status.value == ("conditional" if name == "declared" else "proved")
    units = read_rectifiers(net.network)
    assert units is not None
    assert net.summary().figures["rectifiers"] == len(units.bias)
    points = attacked(units, certificate.claim.domain)
    error = np.abs(network_rows(net.network, points) - certificate.claim.imitated.values(points))
    if "norm" in wanted:
        assert np.sqrt(np.mean(error**2) * 4.0) <= certificate.bound
    else:
        assert error.max() <= certificate.bound <= wanted["eps"]


def attacked(units: Rectifiers, domain: af.Box) -> np.ndarray:
    """Random points, corners of the domain, and points on the kinks of the rectifiers with their neighbours."""
    rng = np.random.default_rng(0)
    points = domain.sample(4000, rng)
    at = rng.integers(len(units.bias), size=2000)
    normal = units.inner[:, at].T  # (2000, D)
    z = (points[:2000] * normal).sum(axis=1) + units.bias[at]
    kinks = points[:2000] - (z / (normal**2).sum(axis=1))[:, None] * normal
    low, high = domain.lo.ravel(), domain.hi.ravel()
    kinks = np.clip(np.concatenate([kinks, np.nextafter(kinks, -np.inf), np.nextafter(kinks, np.inf)]), low, high)
    corners = np.where(rng.random((64, domain.size)) < 0.5, low, high)
    return np.concatenate([points, kinks, corners])


def test_distances_on_boxes_hold_for_any_rectifiers():
    rng = np.random.default_rng(1)
    target = Expression("exp(x)*sin(3*y) + abs(x - y/2)", af.Box([-1, -1], [1, 1], ("x", "y")))
    for scale in (1e-200, 1.0, 1e200):
        units = Rectifiers(
            rng.normal(size=(2, 9)), rng.normal(size=9), scale * rng.normal(size=(9, 1)), np.array([scale])
        )
        rectified = units.on(target.domain, (), "units")
        low = rng.uniform(-1, 0.9, (60, 2))
        high = np.minimum(low + 10.0 ** rng.uniform(-9, 0, (60, 2)), 1.0)
        bound, found, _ = RectifiersDistance(target, units).on(low, high)
        for box in range(60):
            points = rng.uniform(low[box], high[box], (200, 2))
            error = np.abs(target.values(points) - rectified.values(points)).max()
            assert found[box] <= bound[box]
            assert error <= bound[box] + 1e-12 * (1 + scale)  # values are float64


def test_stock_pytorch_runs_it():
    net = af.compile("x*y", SQUARE, 0.2, construction="two-layer")
    module = net.to_torch()
    assert sum(isinstance(part, torch.nn.MultiheadAttention) for part in module.modules()) == 2
    points = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    with torch.no_grad():
        values = module(torch.tensor(points)).numpy()
    assert np.abs(values.ravel() - points.prod(axis=1)).max() <= net.certificate.bound


def test_the_look_up_has_a_name_of_its_own():
    net = af.compile("x*y", SQUARE, 0.4, construction="two-layer-lookup", proof=False)
    assert net.network.tokens > 0
    with pytest.warns(DeprecationWarning, match='options of construction="two-layer-lookup"'):
        old = af.compile("x*y", SQUARE, construction="two-layer", options={"tokens": 16}, proof=False)
    assert old.network.tokens == 17


def test_units_that_are_too_few_are_told():
    with pytest.raises(af.errors.ToleranceNotMet):
        af.compile("sin(9*x)*sin(9*y)", SQUARE, 0.01, construction="two-layer", options={"units": 30}, time_limit=5)
    with pytest.raises(af.errors.InputError, match="options units"):
        af.compile("x", {"x": (0, 1)}, 0.1, construction="two-layer", options={"units": 0})
