"""Paper A: one head, self and cross, both layouts, sup norm and L_p, against the theorems' own bounds."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import attnfun as af
from attnfun.constructions.grid import JENSEN
from attnfun.network.reference import run
from cases import mix_rows, swap_and_sum
from clocks import readings

PAIR = af.Box([[-1], [-1]], [[1], [1]])
LAYOUTS = ["packed", "position"]


def sequences(count: int = 2000) -> np.ndarray:
    return PAIR.unflatten(PAIR.sample(count, np.random.default_rng(3)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_self_and_cross_attention_agree_but_for_the_data_tokens(layout):
    pair = [
        af.compile(swap_and_sum, PAIR, construction=name, options={"layout": layout, "tokens": 40})
        for name in ("grid", "cross")
    ]
    assert [net.network.attention[0].attends_data for net in pair] == [True, False]
    assert all(net.network.heads == 1 and net.certificate.proved for net in pair)
    X = sequences()
    assert np.abs(pair[0](X) - pair[1](X)).max() <= 1e-12


def test_positions_take_more_tokens_and_leak_as_little_as_planned():
    square = af.Box(np.zeros((2, 2)), np.ones((2, 2)))
    packed, coded = (
        af.compile(mix_rows, square, 1.5, construction="cross", options={"layout": layout}) for layout in LAYOUTS
    )
    assert coded.network.tokens == 3 * packed.network.tokens
    X = np.random.default_rng(0).uniform(size=(500, 2, 2))
    kappa = coded.summary().figures["kappa"]
    leak = 11 * 2 / (np.exp(kappa) + 2)  # rows differ by less than 11
    assert 0 < np.abs(packed(X) - coded(X)).max() <= leak <= 0.1
    assert len(coded.network.layers) == 2  # a sum of linear maps and one head, nothing behind it


def test_the_mass_of_the_data_tokens_is_in_the_bound():
    """Give the data token a score that matters: the certificate must notice."""
    net = af.compile("2 + sin(3*x)", {"x": (-1, 1)}, 0.1, construction="grid")
    read_in, head = net.network.layers
    constant = read_in.constant.copy()
    key = np.flatnonzero(constant[0] < -60)  # the data token's score
    assert len(key) == 1
    constant[0, key] = 0.0
    changed = replace(net.network, layers=(replace(read_in, constant=constant), head))
    claim = replace(net.certificate.claim, network=changed)
    with pytest.raises(af.errors.ProofFailed):
        replace(net.certificate, claim=claim).recheck()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_stock_attention_behind_one_affine_map_gives_the_same_outputs(dtype, layout):
    """No attention code of ours: one nn.Linear, one nn.MultiheadAttention with one head, weights copied by hand."""
    net = af.compile(swap_and_sum, PAIR, 0.3, construction="grid", dtype=dtype, options={"layout": layout})
    read_in, head = net.network.layers[:2]
    kind, rows = getattr(torch, dtype), len(read_in.constant)
    features = head.memory.shape[1]
    size = next(4**k for k in range(1, 9) if 4**k >= features)  # √size is a power of two, so scaling is exact
    affine = np.einsum("kNn,kdm->ndNm", read_in.left, read_in.right).reshape(2, rows * features)
    linear = nn.Linear(2, rows * features, dtype=kind)
    linear.load_state_dict({"weight": torch.tensor(affine.T.copy()), "bias": torch.tensor(read_in.constant.ravel())})
    stock = nn.MultiheadAttention(size, 1, batch_first=True, dtype=kind)
    blocks = [np.zeros((size, size)) for _ in range(3)]
    for block, weight in zip(blocks, (head.query * isqrt(size), head.key, head.value), strict=True):
        block[: weight.shape[2], :features] = weight[0].T
    stock.load_state_dict(
        {
            "in_proj_weight": torch.tensor(np.concatenate(blocks)),
            "in_proj_bias": torch.zeros(3 * size),
            "out_proj.weight": torch.eye(size),
            "out_proj.bias": torch.zeros(size),
        }
    )
    X = sequences(300)
    with torch.no_grad():
        tokens = linear(torch.tensor(X.reshape(-1, 2), dtype=kind)).reshape(-1, rows, features)
        memory = torch.tensor(head.memory, dtype=kind).expand(len(X), -1, -1)
        sequence = nn.functional.pad(torch.cat([tokens, memory], dim=1), (0, size - features))
        out = stock(sequence[:, :rows], sequence, sequence, need_weights=False)[0][..., : head.width_out]
    ours = run(replace(net.network, layers=net.network.layers[:2]), X)
    assert np.abs(out.numpy() - ours).max() <= net.certificate.parts["rounding"] + 1e-13
    assert np.abs(out.numpy().reshape(len(X), 2, 2) - swap_and_sum(X)).max() <= net.certificate.bound


STEP, DISC = "where(x > 0.3, 1, 0)", "where(x**2 + y**2 <= 0.5, 1, 0)"


@pytest.mark.parametrize(("text", "names", "tokens"), [(STEP, "x", 60), (DISC, "xy", 250)])
@pytest.mark.parametrize(("p", "construction"), [(1, "grid"), (2, "cross")])
def test_jumps_are_served_in_lp(p, text, names, tokens, construction):
    """The proved bound holds, and so does the theorem's own: ω_p of these targets is known."""
    net = af.compile(
        text,
        dict.fromkeys(names, (-1, 1)),
        norm=p,
        construction=construction,
        options={"tokens": tokens},
        time_limit=readings(800),
    )
    size = len(names)
    axes = [np.linspace(-1, 1, 200_000 if size == 1 else 700)] * size
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=-1)
    truth = points[:, 0] > 0.3 if size == 1 else (points**2).sum(axis=1) <= 0.5
    error = (np.mean(np.abs(net(points) - truth) ** p) * 2**size) ** (1 / p)
    assert net.certificate.proved
    assert error <= net.certificate.bound * 1.001  # quadrature's own error
    assert error <= net.a_priori


@pytest.mark.parametrize(("norm", "text", "slope"), [("inf", "sin(3*x)", -1.0), (1, STEP, -1.0), (2, STEP, -0.5)])
def test_the_bound_by_the_paper_falls_like_the_modulus_of_the_target(norm, text, slope):
    """It is evaluated at the best parameters of the argument, not at the sharpness of our heads."""
    nets = [
        af.compile(text, {"x": (-1, 1)}, norm=norm, construction="grid", options={"tokens": tokens}, proof=False)
        for tokens in (32, 512)
    ]
    few, many = (net.paper_bound for net in nets)
    assert abs(np.log(many / few) / np.log(16) - slope) < 0.1
    assert np.abs(np.log(few / nets[0].a_priori)) < np.log(4)  # and has about the size of ours


def test_auto_takes_cells_for_a_target_that_jumps():
    net = af.compile(STEP, {"x": (-1, 1)}, 0.05, norm=1)
    assert net.construction == "grid"
    assert net.certificate.proved
    assert af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-4, norm=1).construction == "spectral"


def test_cell_means_beat_samples_in_lp():
    """A cell that the jump cuts holds the share of each side, not the value at its centre."""
    net = af.compile("where(x > 0.3, 1, 0)", {"x": (0, 1)}, norm=1, construction="cross", options={"tokens": 9})
    values = net.network.attention[0].values()[0].ravel()
    right_ends = np.arange(1, len(values) + 1) / len(values)
    shares = np.clip((right_ends - 0.3) * len(values), 0, 1)
    assert 0 < shares[shares > 0].min() < 1
    assert np.abs(values - shares).max() <= 1 / 16  # cubature cuts each cell into 16


def test_cells_of_a_smooth_function_hold_their_means_to_many_digits():
    net = af.compile("x**3*y", {"x": (0, 1), "y": (0, 2)}, norm=2, construction="cross", options={"tokens": 1})
    assert net.network.attention[0].values()[0, 0, 0] == pytest.approx(0.25, abs=1e-6)


def test_the_lp_bound_holds_for_a_declared_constant():
    def ramp(p):
        return np.abs(np.asarray(p[..., 0]) - 0.1)

    for tokens in (3, 20):
        net = af.compile(ramp, [(-1, 1)], norm=2, lipschitz=1.0, construction="grid", options={"tokens": tokens})
        rows = np.linspace(-1, 1, 20001)[:, None]
        error = np.sqrt(np.mean((net(rows) - ramp(rows)) ** 2) * 2)
        assert error <= net.certificate.bound
        assert error <= net.a_priori


def test_the_constant_of_the_bound_is_the_same_in_text_and_code():
    docs = Path(__file__).parent.parent / "docs"
    for page in ("one-head.md", "paper-a.md"):
        assert f"`{JENSEN} L r`" in (docs / page).read_text()
    assert f"`{JENSEN} Σ_k L_k h_k/2`" in (docs / "theory.md").read_text()
    assert 2 * sqrt(0.2502) <= JENSEN


@pytest.mark.parametrize("layout", ["packed", "position"])
def test_the_layer_is_self_attention_of_z_alone_where_the_map_makes_the_memory(layout, tmp_path):
    box, options = af.Box([[-1], [-1]], [[1], [1]]), {"layout": layout}
    held = af.compile(swap_and_sum, box, 0.9, construction="grid", options=options)
    made = af.compile(swap_and_sum, box, 0.9, construction="grid", options={**options, "memory": "map"})
    read_in, layer, keep, *_ = made.network.layers
    assert (len(layer.memory), layer.attends_data, layer.residual) == (0, True, False)
    assert len(read_in.constant) == len(held.network.layers[0].constant) + held.network.tokens
    assert not keep.left[:, :, len(held.network.layers[0].constant) :].any()
    assert made.certificate.bound == pytest.approx(held.certificate.bound, rel=1e-9)
    points = box.unflatten(box.sample(50, np.random.default_rng(0)))
    assert np.allclose(made(points), held(points), rtol=0, atol=1e-12 + 2 * held.certificate.allowance)
    assert np.allclose(run(made.network, points), run(held.network, points), atol=1e-12)
    made.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert again.certificate.recheck(target=swap_and_sum).bound == made.certificate.bound
    assert np.array_equal(again(points), made(points))


def test_stock_attention_gets_one_sequence_for_queries_keys_and_values():
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 0.3, construction="grid", options={"memory": "map"})
    module, seen = net.to_torch(), []
    attention = next(part for part in module.modules() if isinstance(part, torch.nn.MultiheadAttention))
    attention.register_forward_pre_hook(lambda _, given: seen.append(given))
    with torch.no_grad():
        value = module(torch.tensor([0.3], dtype=torch.float64)).item()
    (query, key, same), width = seen[0], seen[0][1].shape[2]
    assert key is same
    assert torch.equal(query[..., :width], key)  # stock attention is wider: zeros fill it up
    assert not query[..., width:].any()
    assert abs(value - np.sin(0.9)) <= net.certificate.bound
    with pytest.raises(af.errors.InputError, match="options of cross"):
        af.compile("x", {"x": (-1, 1)}, 0.3, construction="cross", options={"memory": "map"})
    with pytest.raises(af.errors.InputError, match="options memory must be one of layer, map"):
        af.compile("x", {"x": (-1, 1)}, 0.3, construction="grid", options={"memory": "rows"})
