"""Bounds of chains of rectifiers, backwards: attacked in the networks' own arithmetic, on points, and at any size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import attnfun as af
from attnfun.given.backward import chain_of, enclose_chain
from attnfun.given.enclosure import Run, enclose, entered
from attnfun.given.forms import Symbols
from attnfun.given.machine import Machine
from attnfun.given.reading import read
from attnfun.targets.readers.graph import Builder
from small_transformers import climbed

torch = pytest.importorskip("torch")
nn = torch.nn


def rectifiers(seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A random chain of rectifier layers, some units dead or always on, and a box."""
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(1, 5)), *(int(rng.integers(2, 12)) for _ in range(int(rng.integers(2, 6)))), 2]
    layers = list[Any]()
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        weight = rng.normal(size=(outputs, inputs)) * rng.choice([0.3, 1.0, 3.0]) / np.sqrt(inputs)
        bias = rng.normal(size=outputs) * rng.choice([0.0, 0.3, 3.0])
        with torch.no_grad():
            layers[-2].weight.copy_(torch.tensor(weight))
            layers[-2].bias.copy_(torch.tensor(bias))
    centre, radius = rng.normal(size=sizes[0]), 10.0 ** rng.uniform(-4, 1)
    lo, hi = (end.astype(np.float32).astype(np.float64) for end in (centre - radius, centre + radius))
    return nn.Sequential(*layers[:-1]).eval(), lo, hi


@pytest.mark.parametrize("seed", range(12))
def test_bounds_backwards_are_not_beaten(seed):
    network, lo, hi = rectifiers(seed)
    shown = af.ranges(network, af.Box(lo, hi), time_limit=1e-6)  # one box
    exact = af.ranges(network, af.Box(lo, hi), time_limit=1e-6, dtype="exact")
    for dtype in (torch.float32, torch.float64):
        low, high = climbed(network.to(dtype), lo, hi, seed, dtype)
        assert (shown.lo <= low).all()
        assert (high <= shown.hi).all()
    assert (exact.lo <= low + 1e-9 * np.abs(low)).all()
    assert (high - 1e-9 * np.abs(high) <= exact.hi).all()
    place = lo + (hi - lo) * np.random.default_rng(seed).random(len(lo))
    point = place.astype(np.float32).astype(np.float64)
    single = af.ranges(network.float(), af.Box(point, np.nextafter(point, np.inf)), time_limit=1e-6)
    own = network(torch.tensor(point, dtype=torch.float32)[None])[0].detach().numpy()
    assert (single.lo <= own).all()
    assert (own <= single.hi).all()
    assert single.hi - single.lo == pytest.approx(0.0, abs=1e-3 * (1 + np.abs(own).max()))


def test_bounds_backwards_are_closer_than_forms():
    torch.manual_seed(0)
    sizes, layers = [3, 20, 20, 20, 20, 1], list[Any]()
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    network, box = nn.Sequential(*layers[:-1]).double().eval(), af.Box([-1.0] * 3, [1.0] * 3)
    graph, run = read(network, box).graph, Run(Machine.of(None), Symbols(0, 4096))
    by_forms = enclose(graph, entered(box.lo[None], box.hi[None], graph.input_shape, run)[1], run)
    chain = chain_of(graph)
    assert chain is not None
    backwards = enclose_chain(chain, graph.input_shape, Machine.of(None), box.lo[None], box.hi[None])
    assert (backwards.hi - backwards.lo).item() < 0.95 * (by_forms.hi - by_forms.lo).item()
    assert backwards.radius.item() * 2 >= (backwards.hi - backwards.lo).item()


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
def test_chains_of_any_size_have_bounds_that_hold(size):
    rng = np.random.default_rng(0)
    build = Builder((2,))
    value = 0
    for inputs, outputs in ((2, 3), (3, 3), (3, 1)):
        scale = size if inputs == 2 else 1.0
        weight, bias = rng.normal(size=(inputs, outputs)) * scale, rng.normal(size=outputs) * size
        value = build.add("linear", value, weight=weight, bias=bias)
        value = build.add("relu", value) if outputs > 1 else value
    graph = build.graph(value)
    X = rng.uniform(-1, 1, (200, 2))
    chain = chain_of(graph)
    assert chain is not None
    form = enclose_chain(chain, (2,), Machine.of("float64"), np.full((1, 2), -1.0), np.ones((1, 2)))
    values = graph.values(X)
    assert not np.isnan(form.lo).any()
    assert (form.lo <= values).all()
    assert (values <= form.hi).all()
    if size < 1e299:
        assert form.hi.item() - form.lo.item() < 1e3 * size + 1e-280
