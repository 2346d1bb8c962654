"""Proofs by structure: tight at the worst point, in hundreds of variables, and not blind to changed weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy.special import lambertw

import attnfun as af
from attnfun.arithmetic.directed import lambert_up
from attnfun.proofs.certify import SLACK
from attnfun.proofs.rules.structure import bound_by_structure
from cases import CASES, PLANES

PIECEWISE = [
    case
    for case in CASES
    if case.constructions[0] in ("knots", "relu", "max-affine") and not isinstance(case.target, str)
]


@pytest.mark.parametrize("x", [0.0, 1 / np.e, 1.0, 40 / np.e, 1e6])
def test_lambert_is_an_upper_bound(x):
    assert lambertw(x).real <= lambert_up(x) <= lambertw(x).real * (1 + 1e-9)


def test_a_rectifier_head_attains_its_bound():
    """The two-token head is wrong by W(1/e)/R at R z = 1 + W(1/e)."""
    torch.manual_seed(1)
    net = af.compile(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU()), (-4, 4), options={"R": 2.0**10})
    stage = net.certificate.claim.target.stages[0]
    weight, bias = float(stage.weight[0, 0]), float(stage.bias[0])
    worst = ((1 + lambert_up(1 / np.e)) / 2.0**10 - bias) / weight
    error = abs(net(worst).item() - max(0.0, weight * worst + bias))
    assert error <= net.certificate.bound <= error * (1 + 1e-6) * (1 + SLACK)


def test_five_hundred_variables():
    rng = np.random.default_rng(0)
    target = af.TruncatedLinear(rng.normal(size=(50, 10)), rng.normal(size=50), -25, 25)
    net = af.compile(target, af.Box(np.full((50, 10), -5.0), np.full((50, 10), 5.0)), eps=1e-9)
    assert net.construction == "knots"
    assert net.certificate.proved
    X = rng.uniform(-5, 5, (20, 50, 10))
    assert np.abs(net(X) - target(X)).max() <= net.certificate.bound <= 1e-9


@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-3), ("bfloat16", 20.0)])
def test_coarse_arithmetic_wakes_no_mute_tokens(dtype, most):
    """Rounding the scores of memory tokens costs more than a mute token is below, but it is not that token's."""
    rng = np.random.default_rng(0)
    w, box = rng.normal(size=(30, 6)), af.Box(np.full((30, 6), -5.0), np.full((30, 6), 5.0))
    target = af.TruncatedLinear(w, 0.0, -25, 25)
    net = af.compile(target, box, construction="knots", dtype=dtype, options={"R": 2.0**20})
    X = rng.uniform(-5, 5, (400, 30, 6))
    ends = rng.choice([-25.0, 25.0], (400, 30)) + rng.normal(size=(400, 30)) * 10.0 ** rng.uniform(-6, 0, (400, 30))
    X = np.clip(X + ((ends - (X * w).sum(-1)) / (w**2).sum(-1))[..., None] * w, -5, 5)  # near the corners
    with torch.no_grad():
        values = net.to_torch()(torch.tensor(X, dtype=getattr(torch, dtype))).double().numpy()
    assert np.abs(values - target(X)).max() <= net.certificate.bound <= most


@pytest.mark.parametrize("case", PIECEWISE, ids=str)
def test_a_changed_weight_is_noticed(case, compiled):
    """Whatever single weight is changed by 1 %, the bound grows at least as much as the error does."""
    net = compiled(case, construction=case.constructions[0])
    target, network = net.certificate.claim.target, net.network
    rows = net.domain.sample(300, np.random.default_rng(0))
    rng, noticed = np.random.default_rng(1), 0
    for _ in range(12):
        place = int(rng.integers(len(network.layers)))
        layer = network.layers[place]
        name = str(rng.choice([name for name, array in vars(layer).items() if np.any(array) and array is not False]))
        if not isinstance(getattr(layer, name), np.ndarray):
            continue
        array = getattr(layer, name).copy()
        index = tuple(rng.choice(np.argwhere(array)))
        array[index] *= 1.01
        layers = [*network.layers]
        layers[place] = replace(layer, **{name: array})
        changed = replace(net, network=replace(network, layers=tuple(layers)))
        error = np.abs(changed(net.domain.unflatten(rows)).reshape(len(rows), -1) - target.values(rows)).max()
        bound = bound_by_structure(target, changed.network).bound
        assert error <= bound
        noticed += bound > net.certificate.bound * 1.5
    assert noticed >= 3


def test_planes_that_never_lead_do_no_harm():
    planes = af.MaxAffine(np.vstack([PLANES.A, [[0.0, 0.0]]]), np.append(PLANES.b, -100.0))
    assert af.compile(planes, [(-1, 1)] * 2, 1e-6).certificate.bound <= 1e-6


def test_equal_and_mirrored_units_count_once():
    layer = torch.nn.Linear(3, 4)
    with torch.no_grad():
        layer.weight[1], layer.bias[1] = layer.weight[0], layer.bias[0]
        layer.weight[2], layer.bias[2] = -layer.weight[0], -layer.bias[0]
        layer.weight[3], layer.bias[3] = 0.0, 0.0
    module = torch.nn.Sequential(layer, torch.nn.ReLU(), torch.nn.Linear(4, 2))
    assert af.compile(module, [(-1, 1)] * 3, 1e-6).certificate.bound <= 1e-6


DEEP = [(3, 6, 5, 1), (6, 4, 7, 2), (5, 2, 17, 10, 2), (1, 17, 11, 2), (7, 14, 19, 12, 3), (6, 7, 5, 17, 17, 2)]


def deep_network(widths: tuple[int, ...], seed: int) -> torch.nn.Module:
    """Rectifiers with normal weights; a third of them switch nowhere, or by a hair only."""
    rng, layers = np.random.default_rng(seed), []
    for inputs, units in pairwise(widths):
        linear = torch.nn.Linear(inputs, units).double()
        weight = rng.normal(size=(units, inputs)) / inputs**0.5
        hair = rng.choice([-1, 1], units) * np.abs(weight).sum(axis=1) + 10.0 ** rng.uniform(-12, -1, units)
        bias = np.where(rng.random(units) < 1 / 3, hair, rng.normal(size=units))
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight))
            linear.bias.copy_(torch.tensor(bias))
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("widths", DEEP, ids=str)
def test_units_that_never_switch_do_no_harm(widths):
    """The network reads such a unit as its affine form, and so must the target."""
    module, box = deep_network(widths, seed=0), [(-1, 1)] * widths[0]
    net = af.compile(module, box, 1e-6)
    assert net.certificate.proved
    assert net.certificate.effort["boxes"] == 1
    soft = af.compile(module, box, 1e9, construction="relu", options={"R": 16.0})  # errors that points can see
    rng = np.random.default_rng(0)
    X = np.vstack([rng.uniform(-1, 1, (2000, widths[0])), rng.choice([-1.0, 1.0], (200, widths[0]))])
    with torch.no_grad():
        wanted = module(torch.tensor(X)).numpy()
    assert 1e-5 < np.abs(soft(X) - wanted).max() <= soft.certificate.bound


def test_sharp_heads_do_not_magnify_rounding():
    """Units that are constant up to rounding are read by scores and values alike."""
    module, X = deep_network((7, 14, 19, 12, 3), 0), np.random.default_rng(0).uniform(-1, 1, (4000, 7))
    net = af.compile(module, [(-1, 1)] * 7, construction="relu", dtype="float32", options={"R": 2.0**20})
    with torch.no_grad():
        wanted = module(torch.tensor(X)).numpy()
        values = net.to_torch()(torch.tensor(X, dtype=torch.float32)).double().numpy()
    assert np.abs(values - wanted).max() <= net.certificate.bound <= 5e-3


def test_a_tampered_file_is_not_proved_again(tmp_path):
    target = af.TruncatedLinear([[1.0, -2.0], [0.5, 0.25]], 0.1, -1.0, 1.0)
    af.compile(target, af.Box(np.full((2, 2), -1.0), np.full((2, 2), 1.0)), 1e-6).save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert again.certificate.recheck().proved
    with safe_open(str(tmp_path / "f.safetensors"), "numpy") as file:
        metadata = file.metadata()
    tensors = load_file(tmp_path / "f.safetensors")
    tensors["layers.0.right"][0, 0, 0] *= 1 + 1e-5
    save_file(tensors, tmp_path / "f.safetensors", metadata)
    with pytest.raises(af.errors.ProofFailed):
        af.load(tmp_path / "f.safetensors").certificate.recheck()


@pytest.mark.parametrize("norm", [1, 2.5])
def test_mean_errors(norm):
    target = af.TruncatedLinear(np.ones((2, 2)), 0.0, -1.0, 1.0)
    net = af.compile(target, af.Box(np.full((2, 2), -1.0), np.full((2, 2), 1.0)), 1e-3, norm=norm)
    X = np.random.default_rng(0).uniform(-1, 1, (4000, 2, 2))
    error = np.abs(net(X) - target(X)).max(axis=1)
    assert (np.mean(error**norm) * 16) ** (1 / norm) <= net.certificate.bound <= 1e-3


def deep(seed: int, width: int = 8, layers: int = 5) -> torch.nn.Sequential:
    """Rectifiers whose layers multiply errors by about ten each."""
    torch.manual_seed(seed)
    sizes = [4, *[width] * layers, 2]
    linear = [torch.nn.Linear(before, after).double() for before, after in pairwise(sizes)]
    for layer in linear:
        torch.nn.init.normal_(layer.weight)
    return torch.nn.Sequential(*[part for layer in linear for part in (layer, torch.nn.ReLU())][:-1])


def exactly(network: torch.nn.Sequential, x: np.ndarray) -> np.ndarray:
    """The network in extended precision."""
    values = x.astype(np.longdouble)
    for part in network:
        if isinstance(part, torch.nn.Linear):
            weight, bias = (np.asarray(p.detach()).astype(np.longdouble) for p in (part.weight, part.bias))
            values = values @ weight.T + bias
        else:
            values = np.maximum(values, 0)
    return values


def test_rounding_does_not_grow_with_the_gain_of_the_scores():
    network, rng = deep(0), np.random.default_rng(0)
    nets = [af.compile(network, [(-1, 1)] * 4, options={"R": 2.0**power}) for power in (30, 45)]
    softer, sharper = (net.certificate for net in nets)
    assert sharper.parts["construction"] < 1e-3 * softer.parts["construction"]
    assert sharper.parts["rounding"] < softer.parts["rounding"]
    x = rng.uniform(-1, 1, (2000, 4))
    assert np.abs(nets[1](x) - exactly(network, x)).max() <= sharper.bound


def test_a_deep_network_is_proved_to_many_digits():
    net = af.compile(deep(1), [(-0.5, 0.5)] * 4, 1e-8)
    assert net.certificate.proved
