"""Numbers that a format cannot hold: no certificate is issued for a network that may compute one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun.arithmetic.formats import FORMATS
from attnfun.errors import ProofFailed
from attnfun.network import Attention, Network
from attnfun.proofs.certify import certify, combine
from attnfun.proofs.overflow import refuse_overflow

LIMITS = {name: arithmetic.largest for name, arithmetic in FORMATS.items()}


@pytest.mark.parametrize("dtype", LIMITS)
def test_the_largest_number_is_that_of_the_format(dtype):
    assert LIMITS[dtype] == torch.finfo(getattr(torch, dtype)).max


LOUD = {"target": "3e38*(0.9+0.1*sin(3*x))", "domain": {"x": (-1, 1)}, "dtype": "float32", "construction": "cross"}


def test_values_whose_weighted_sum_overflows_are_refused():
    with pytest.raises(ProofFailed, match=r"numbers of at most 1.7e\+38.*float32.*Rescale"):
        af.compile(**LOUD, options={"tokens": 8})


@pytest.mark.parametrize("construction", ["auto", "spectral"])
def test_points_that_the_dtype_does_not_have_are_refused_before_anything_is_planned(construction):
    """float32 ends at 3.4e38, where a plan met numbers that are none."""
    how = {"eps": 0.1, "dtype": "float32", "construction": construction}
    with pytest.raises(ProofFailed, match=r"points of up to 3\.5e"):
        af.compile("sqrt(abs(x/3.5e52))", {"x": (-3.5e52, 3.5e52)}, norm=10, **how)
    with pytest.raises(af.errors.InputError, match=r"points of the domain must be at most 3\.4e\+38"):
        af.compile("tanh(x/3.5e52)", {"x": (-3.5e52, 3.5e52)}, proof=False, **how)


ROUTES = {
    "boxes": ("sin(3*x)", {"eps": 0.2, "construction": "cross"}),
    "circuit": ("abs(x-0.2)", {"eps": 0.1, "construction": "circuit"}),
    "structure": (af.MaxAffine([[0.5], [-1.0]], [0.0, 0.0]), {"eps": 0.1}),
    "planes": ("x**2", {"eps": 0.2, "construction": "max-affine"}),
    "one feature": (
        af.TruncatedLinear(np.ones((1, 1)), 0.0, -0.5, 0.5),
        {"domain": af.Box([[-1.0]], [[1.0]]), "options": {"p": 8}, "construction": "truncated-linear"},
    ),
    "parts": ("sin(3*x)", {"eps": 0.2, "construction": "cross"}),
    "averages": ("sin(3*x)", {"eps": 0.5, "construction": "cross", "norm": 2.0}),
}


def routed(route: str) -> af.types.Compiled:
    """A network whose certificate is proved in this way."""
    target, how = ROUTES[route]
    net = af.compile(target, **{"domain": {"x": (-1, 1)}, **how})
    return net + 0.5 * net if route == "parts" else net


@pytest.mark.parametrize("route", ROUTES)
def test_every_way_to_prove_a_bound_makes_sure_of_it(route, monkeypatch):
    """In a format whose largest number is smaller than some number of the network, nothing is proved again."""
    net = routed(route)
    assert net.certificate.proved
    assert net.certificate.proof.rule == ("boxes" if route == "averages" else route)
    small = replace(FORMATS["float64"], largest=1.0)
    monkeypatch.setitem(FORMATS, "float64", small)
    with pytest.raises(ProofFailed, match="may overflow"):
        net.certificate.recheck()
    with pytest.raises(ProofFailed, match="may overflow"):
        combine(net.certificate.claim) if route == "parts" else certify(
            net.certificate.claim, None, norm=net.certificate.norm
        )


HUGE = {"query": 1e20, "key": 1e20, "value": 1e38, "output": 3e38}


@pytest.mark.parametrize("part", HUGE)
def test_each_number_of_a_head_is_bounded(part):
    """One part at a time is so large that scores, weighted sums or outputs may overflow in float32."""
    weights = {
        "query": np.eye(1, 4)[None],
        "key": np.eye(4)[None],
        "value": np.eye(4, 1)[None],
        "output": np.ones((1, 1, 1)),
    }
    memory = np.linspace(0.5, 1, 12).reshape(3, 4)
    box = af.Box(-1.0, 1.0)
    refuse_overflow(Network((Attention.of(**weights, memory=memory),), 1, "float32"), box)
    grown = {**weights, part: weights[part] * np.float32(HUGE[part]).astype(np.float64)}
    if part in ("query", "key"):
        grown["key" if part == "query" else "query"] = weights["key" if part == "query" else "query"] * 2.0**60
    network = Network((Attention.of(**grown, memory=memory),), 1, "float32")
    with pytest.raises(ProofFailed, match="attention"):
        refuse_overflow(network, box)
    refuse_overflow(Network(network.layers, 1, "float64"), box)


def test_a_scaled_network_may_not_overflow():
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-3, dtype="float32")
    with pytest.raises(ProofFailed, match="float32"):
        3e38 * net
