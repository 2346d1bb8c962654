"""Compiled weights in a user's own layer: it computes the function, everything else stays, nothing is half written."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import attnfun as af
from attack import hostile_points
from attnfun.network.reference import run as reference

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
LAYERS = {
    "scaled exactly": ({"embed_dim": 64, "num_heads": 4}, {}),
    "heads of 8": ({"embed_dim": 64, "num_heads": 8}, {"heads": [5], "reads": [9, 3], "writes": [7]}),
    "heads of 9": ({"embed_dim": 27, "num_heads": 3, "batch_first": True}, {"heads": [1]}),
    "one head of 64": ({"embed_dim": 64, "num_heads": 1}, {"writes": [63]}),
    "projections apart": ({"embed_dim": 12, "num_heads": 2, "kdim": 3, "vdim": 1}, {"heads": [1]}),
    "a token of its own": ({"embed_dim": 32, "num_heads": 2, "add_bias_kv": True}, {}),
    "no biases": ({"embed_dim": 32, "num_heads": 2, "bias": False}, {"one": 0, "heads": [1]}),
}
DTYPES = {"heads of 8": torch.float32, "heads of 9": torch.float32}


@cache
def product(dtype: str) -> af.types.Compiled:
    return af.compile("sin(3*x)*y", SQUARE, 0.1, dtype=dtype)


def random_layer(dtype: torch.dtype = torch.float64, **options) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(**options, dtype=dtype)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_()
    return layer


def state(layer: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in layer.named_parameters()}


def asked(placed: af.types.Placement) -> tuple[np.ndarray, torch.Tensor]:
    """Points chosen to beat a bound, and queries whose other features hold noise."""
    rng, points = np.random.default_rng(0), hostile_points(product("float64"), 40, 0)
    queries = placed.queries(points)
    free = [place for place in range(placed.width) if place not in (*placed.reads, placed.one, placed.flag)]
    queries[:, free] = torch.tensor(rng.normal(size=(len(points), len(free)))).to(queries)
    return points, queries


@pytest.fixture(scope="module", params=LAYERS, ids=LAYERS)
def placing(request):
    """The layer before and after, and what was said about it."""
    options, keywords = LAYERS[request.param]
    layer = random_layer(DTYPES.get(request.param, torch.float64), **options)
    before = state(layer)
    net = product(str(layer.out_proj.weight.dtype).removeprefix("torch."))
    return layer, before, af.init_(layer, net, **keywords)


def test_the_layer_computes_the_function_within_its_certificate(placing):
    layer, _, placed = placing
    points, queries = asked(placed)
    network = placed.certificate.claim.network
    exact = reference(network, queries[:, placed.reads].double().numpy()[:, None])[:, 0]
    for need_weights in (True, False):
        with torch.no_grad():
            out = layer(queries, placed.keys, placed.values, need_weights=need_weights)[0][:, placed.writes]
        off = np.abs(out[:, 0].double().numpy() - np.sin(3 * points[:, 0]) * points[:, 1])
        assert off.max() <= placed.certificate.bound <= 0.1
        assert np.abs(out.double().numpy() - exact).max() <= placed.certificate.parts["rounding"]
    assert placed.certificate.proved
    assert placed.certificate.recheck().bound <= placed.certificate.bound


def test_nothing_else_is_touched(placing):
    layer, before, placed = placing
    for name, weight in layer.named_parameters():
        assert torch.equal(weight[~placed.written[name]], before[name][~placed.written[name]])
        assert weight.requires_grad
    size, taken = layer.head_dim, np.zeros(layer.embed_dim, dtype=bool)
    for head in placed.heads:
        taken[head * size : (head + 1) * size] = True
    rows = placed.written["out_proj.weight"].numpy()
    assert rows[:, taken].all()
    assert rows[list(placed.writes)].all()
    assert rows.sum() == layer.embed_dim * taken.sum() + len(placed.writes) * (~taken).sum()


def test_other_heads_and_other_features_compute_what_they_computed(placing):
    layer, before, placed = placing
    _, queries = asked(placed)
    other = random_layer(layer.out_proj.weight.dtype, **_options(layer))
    size = layer.head_dim
    with torch.no_grad():
        for name, weight in other.named_parameters():
            weight.copy_(before[name])
        for head in placed.heads:  # what others got from the heads that were taken
            other.out_proj.weight[:, head * size : (head + 1) * size] = 0.0
        out, expected = (part(queries, placed.keys, placed.values)[0] for part in (layer, other))
    rest = [place for place in range(layer.embed_dim) if place not in placed.writes]
    assert torch.allclose(out[:, rest], expected[:, rest], rtol=1e-4, atol=1e-5)


def _options(layer: nn.MultiheadAttention) -> dict[str, object]:
    return {
        "embed_dim": layer.embed_dim,
        "num_heads": layer.num_heads,
        "kdim": layer.kdim,
        "vdim": layer.vdim,
        "bias": layer.in_proj_bias is not None,
        "add_bias_kv": layer.bias_k is not None,
    }


def test_vectors_and_networks_of_two_heads_and_formulas_fit_too():
    layer = random_layer(embed_dim=32, num_heads=4)
    placed = af.init_(layer, "[exp(-x**2), x*y]", SQUARE, 0.2, writes=[4, 2])
    points, queries = asked(placed)
    out = layer(queries, placed.keys, placed.values)[0][:, placed.writes].detach().numpy()
    wanted = np.stack([np.exp(-(points[:, 0] ** 2)), points.prod(axis=1)], axis=1)
    assert np.abs(out - wanted).max() <= placed.certificate.bound <= 0.2
    second = af.init_(layer, "x*y", SQUARE, 1e-3, construction="circuit", heads=[3, 1], writes=[9])
    assert second.heads == (3, 1)
    out = layer(queries, second.keys, second.values)[0][:, second.writes].detach().numpy()
    assert np.abs(out[:, 0] - points.prod(axis=1)).max() <= second.certificate.bound <= 1e-3
    again = layer(queries, placed.keys, placed.values)[0][:, placed.writes].detach().numpy()
    assert np.abs(again - wanted).max() <= placed.certificate.bound  # both live in one layer


@pytest.mark.parametrize("own_token", [True, False])
def test_rows_of_memory_can_be_appended_to_data_for_self_attention(own_token):
    layer = random_layer(embed_dim=32, num_heads=2, batch_first=True, add_bias_kv=own_token)
    placed = af.init_(layer, product("float64"), flag=1, heads=[1])
    points, queries = asked(placed)
    queries[:, 1] = 0.0
    rows = torch.cat([queries, placed.keys])[None]  # (1, n + M, E)
    for training in (True, False):  # PyTorch has a fast path of its own for layers in evaluation mode
        layer.train(training)
        with torch.no_grad():
            out = layer(rows, rows, rows)[0][0, : len(points), placed.writes[0]].numpy()
        assert np.abs(out - np.sin(3 * points[:, 0]) * points[:, 1]).max() <= placed.certificate.bound
    assert any("512" in assumption for assumption in placed.certificate.assumptions)
    assert "append" in str(placed)


def test_what_was_written_can_be_frozen_while_the_rest_is_trained():
    layer = random_layer(embed_dim=16, num_heads=2)
    placed = af.init_(layer, product("float64"))
    points, queries = asked(placed)
    before = state(layer)
    layer(queries, placed.keys, placed.values)[0].square().mean().backward()
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            weight -= 0.1 * weight.grad * ~placed.written[name]
    assert any(not torch.equal(weight, before[name]) for name, weight in layer.named_parameters())
    out = layer(queries, placed.keys, placed.values)[0][:, placed.writes].detach().numpy()
    assert np.abs(out[:, 0] - np.sin(3 * points[:, 0]) * points[:, 1]).max() <= placed.certificate.bound


REFUSED = [
    ({"embed_dim": 8, "num_heads": 4}, {}, "heads must have 3 features; got 2"),
    ({"embed_dim": 16, "num_heads": 1}, {"heads": [1]}, "heads must be 1 different numbers among 0 to 0; got"),
    ({"embed_dim": 16, "num_heads": 1}, {"reads": [0, 0]}, "reads must be 2 different"),
    ({"embed_dim": 16, "num_heads": 1}, {"writes": [16]}, "writes must be 1 different"),
    ({"embed_dim": 16, "num_heads": 1, "kdim": 3}, {"flag": 2}, "one width and biases"),
    ({"embed_dim": 16, "num_heads": 1}, {"flag": 16}, "flag must be a feature of the layer's 16; got 16"),
    ({"embed_dim": 16, "num_heads": 1, "kdim": 2}, {}, "keys must be made of 3 features; got 2"),
    ({"embed_dim": 16, "num_heads": 1, "bias": False}, {}, "without biases.*Name it: one="),
    ({"embed_dim": 16, "num_heads": 1, "dropout": 0.1}, {}, "drops nothing out; got dropout=0.1"),
    ({"embed_dim": 16, "num_heads": 1, "add_zero_attn": True}, {}, "add_zero_attn=True"),
    (
        {"embed_dim": 16, "num_heads": 1, "dtype": torch.float32},
        {},
        'float32; got float64. Compile with dtype="float32"',
    ),
    ({"embed_dim": 16, "num_heads": 1, "dtype": torch.float16}, {}, "float16"),
]


@pytest.mark.parametrize(("options", "keywords", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_what_does_not_fit_is_refused_and_nothing_is_written(options, keywords, message):
    layer = random_layer(**options)
    before = state(layer)
    with pytest.raises(af.errors.InputError, match=message):
        af.init_(layer, product("float64"), **keywords)
    assert all(torch.equal(weight, before[name]) for name, weight in layer.named_parameters())


def test_networks_that_one_layer_cannot_hold_are_refused_and_others_are_found():
    layer = random_layer(embed_dim=16, num_heads=1)
    deep = af.compile("exp(x*y)", SQUARE, 1e-3, construction="circuit")
    with pytest.raises(af.errors.InputError, match=r"attends to memory tokens alone; got .*spectral"):
        af.init_(layer, deep)
    with pytest.raises(af.errors.InputError, match="Pass one of its parts: self_attn"):
        af.init_(nn.TransformerEncoderLayer(16, 1), deep)
    placed = af.init_(layer, "abs(x - 0.2) + min(x, 0.1)", {"x": (-1, 1)}, 0.1)  # a circuit with data among its keys
    assert len(placed.certificate.claim.network.layers) == 1


def test_a_tolerance_that_the_layer_cannot_keep_is_an_error():
    layer = random_layer(embed_dim=12, num_heads=1)
    before = state(layer)
    with pytest.raises(af.errors.ToleranceNotMet, match="in a layer of this size; got"):
        af.init_(layer, product("float64"), eps=1e-4)
    assert all(torch.equal(weight, before[name]) for name, weight in layer.named_parameters())


@pytest.mark.parametrize("construction", ["spectral", "circuit"])
def test_every_way_to_prove_counts_how_scores_are_scaled(construction):
    roundings = []
    for embed in (16, 4, 8):  # exactly; by a root of a power of four; by an irrational number
        layer = random_layer(torch.float32, embed_dim=embed, num_heads=1)
        placed = af.init_(layer, "cos(2*x)", {"x": (0, 1)}, 0.05, construction=construction)
        roundings.append(placed.certificate.parts["rounding"])
    assert roundings[0] < roundings[1] < roundings[2]
