"""Bounds on rounding, attacked: sums in hostile orders, heads in float32 against the same heads in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.arithmetic.formats import FORMATS, Format, round_to
from attnfun.arithmetic.rounding import OWN, computed_weight, linear_error, storage_error
from attnfun.constructions.heads import Head, assembled
from attnfun.network import Attention, Network
from attnfun.network.network import rounded
from attnfun.network.stock import stock_size
from attnfun.proofs.enclosure import Encloser
from attnfun.proofs.rewriting import with_banks
from attnfun.proofs.rules.boxes import Problem
from attnfun.proofs.scaling import scaling_roundings

SINGLE = FORMATS["float32"]


def added(terms: np.ndarray, order: np.ndarray) -> float:
    """A sum in float32, one term after the other."""
    total = np.float32(0)
    for term in terms[order]:
        total = np.float32(total + term)
    return float(total)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0, 12), st.sampled_from(["down", "up", "random", "signs"]))
def test_sums_in_any_order_stay_within_their_bound(seed, count, decades, kind):
    rng = np.random.default_rng(seed)
    terms = (rng.uniform(0.5, 1, count) * 10 ** -rng.uniform(0, decades, count)).astype(np.float32)
    terms *= rng.choice([-1, 1], count).astype(np.float32) if kind == "signs" else np.float32(1)
    order = {"down": np.argsort(-np.abs(terms)), "up": np.argsort(np.abs(terms))}.get(kind, rng.permutation(count))
    size = np.abs(terms).astype(np.float64)[None]
    bound = linear_error(np.zeros((1, count, 2)), size, np.ones((count, 1)), np.zeros(1), SINGLE)[0, 0, OWN]
    assert abs(added(terms, order) - terms.astype(np.float64).sum()) <= bound
    assert bound <= 1.02 * count * SINGLE.unit * size.sum()


def test_subtracting_an_origin_costs_one_rounding_of_the_result():
    result = np.array([[1e-3]])
    near = linear_error(np.zeros((1, 1, 2)), np.ones((1, 1)), np.eye(1), -np.ones(1), SINGLE, result)
    assert near[0, 0, OWN] <= 1.02e-3 * SINGLE.unit + 4 * SINGLE.tiny


@pytest.mark.parametrize("seed", range(12))
def test_heads_in_float32_stay_within_the_bound_at_every_point(seed):
    """Random heads, some of their tokens steep and far behind, several of them at once."""
    rng = np.random.default_rng(seed)
    count, number = int(rng.integers(2, 40)), int(rng.integers(1, 5))
    heads = []
    for _ in range(number):
        centres = np.sort(rng.uniform(-1.2, 1.2, count))
        sharp = 10 ** rng.uniform(0, 4)
        slopes, offsets = sharp * centres, -sharp * centres**2 / 2
        slopes[-1], offsets[-1] = 10 ** rng.uniform(0, 7), -(10 ** rng.uniform(7.2, 8))  # never in play
        origin = rng.uniform(-1, 1, 1)
        values = rng.normal(size=(count, 1)) * 10 ** rng.uniform(-2, 2)
        heads.append(Head(np.eye(1), origin, slopes[:, None], offsets + slopes * origin, values))
    layers = tuple(rounded(layer, "float32") for layer in assembled(heads, np.zeros(1), 1, ()))
    network = Network(layers, 1, "float32")
    points = rng.uniform(-1, 1, 400).astype(np.float32).astype(np.float64)
    encloser = Encloser(network)
    starts = encloser.start()
    focus = tuple(layer.take(np.zeros(len(points), dtype=np.int64)) for layer in starts)
    region, focus = encloser(Interval(points[:, None, None]), focus)
    for _ in range(2):  # tails pass from box to box
        region, focus = encloser(Interval(points[:, None, None]), focus)
    bound = region.error[:, 0, 0, OWN]
    batch = points[:, None].astype(np.float32)
    from attnfun.runtime.backends.numpy import run
    from attnfun.runtime.backends.torch import to_torch

    exact = Network(layers, 1, "float64")
    truth = run(exact, points[:, None, None]).reshape(-1)
    import torch

    with torch.no_grad():
        stock = to_torch(network, (1,), ())(torch.tensor(batch)).numpy().reshape(-1)
    for values in (run(network, batch[:, :, None]).reshape(-1), stock):
        assert (np.abs(values - truth) <= bound + 1e-12 * np.abs(truth).max()).all()


class Hostile:
    """A kernel that adds exactly and is off by all that it may be wherever it stores a number.

    Scores err towards the tokens that move the result in one direction, weights towards values of that sign; all other
    numbers err at random.
    """

    def __init__(self, format_: Format, direction: float, seed: int) -> None:
        self.format, self.direction, self.rng = format_, direction, np.random.default_rng(seed)

    def off(self, numbers: np.ndarray, signs: np.ndarray | None = None) -> np.ndarray:
        """Numbers as they are stored, at the end of what is allowed."""
        signs = self.rng.choice([-1.0, 1.0], numbers.shape) if signs is None else signs
        return numbers + signs * np.maximum(self.format.store * np.abs(numbers), self.format.lost)

    def linear(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """The product is stored, then its sum with the bias; what is exact stays so."""
        product, terms = x @ weight, (weight != 0).sum(axis=0)
        exact = (terms <= 1) & np.isin(weight, (0.0, 1.0)).all(axis=0)
        product = np.where(exact, product, self.off(product))
        return np.where((bias == 0) | (terms == 0), product + bias, self.off(product + bias))

    def run(self, network: Network, points: np.ndarray) -> np.ndarray:
        """(B,) -> (B,), for networks of one token and one variable."""
        x = points[:, None]  # (B, d)
        for layer in network.layers:
            if not isinstance(layer, Attention):
                x = self.linear(x, layer.right[0], layer.constant[0])
                continue
            averages = []
            for h in range(layer.heads):
                q = self.linear(x, layer.query[h], layer.query_bias[h])
                k, v = layer.keys()[h], layer.values()[h]
                exact = q @ k.T  # (B, N)
                shares = np.exp(exact - exact.max(axis=1, keepdims=True))
                y = shares @ v / shares.sum(axis=1, keepdims=True)  # (B, 1)
                scores = self.off(exact, self.direction * np.sign(v[:, 0] - y))
                shares = np.exp(scores - scores.max(axis=1, keepdims=True))
                shares /= shares.sum(axis=1, keepdims=True)
                y = self.off(shares, np.broadcast_to(self.direction * np.sign(v[:, 0]), shares.shape)) @ v
                averages.append(self.off(y, np.full(y.shape, self.direction) * np.sign(y)))
            x = self.linear(np.hstack(averages), layer.output.reshape(-1, layer.width_out), layer.output_bias)
        return x[:, 0]


def stored_heads(rng: np.random.Generator, dtype: str) -> Network:
    """Random heads in a format that is coarser than sums."""
    heads, count = [], int(rng.integers(2, 24))
    for _ in range(int(rng.integers(1, 4))):
        centres, sharp = np.sort(rng.uniform(-1.2, 1.2, count)), 10 ** rng.uniform(0, 2.5)
        origin, values = rng.uniform(-1, 1, 1), rng.normal(size=(count, 1)) * 10 ** rng.uniform(-3, 1)
        offsets = sharp * (centres * origin - centres**2 / 2)
        heads.append(Head(np.eye(1), origin, sharp * centres[:, None], offsets, values))
    layers = assembled(heads, rng.normal(size=1), 1, ())
    return Network(tuple(rounded(layer, dtype) for layer in layers), 1, dtype)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [name for name, each in FORMATS.items() if each.store])
def test_kernels_that_store_as_badly_as_they_may_stay_within_the_bound(dtype, seed):
    """Also PyTorch's own, with subnormal numbers of float32 flushed and kept."""
    import torch

    rng = np.random.default_rng(seed)
    network, points = stored_heads(rng, dtype), round_to(rng.uniform(-1, 1, 200), dtype)
    stock, bound = computed_and_bound(network, points)
    truth = np.array(Hostile(replace(FORMATS[dtype], sums=None, least=0.0), 1.0, 0).run(network, points))
    for direction in (-1.0, 1.0):
        error = np.abs(Hostile(FORMATS[dtype], direction, seed).run(network, points) - truth)
        assert (error <= bound).all()
        assert error.max() >= 0.05 * bound.max()
    assert (stock <= bound).all()
    torch.set_flush_denormal(True)
    flushed = computed_and_bound(network, points)[0]
    torch.set_flush_denormal(False)
    assert (flushed <= bound).all()


def cancelling_head() -> Network:
    """A float32 head whose last token has a score of -62 and a value of 0, computed from the left as -2^88."""
    memory = np.zeros((3, 6))  # (M, [key | value | four terms])
    memory[:, 0], memory[:, 1] = (0.0, 0.25, -62.0), (1.0, -1.0, 0.0)
    memory[2, 2:] = 2.0**115, 2.0**88, -(2.0**115), -(2.0**88)
    value = np.ones((1, 6, 1))
    value[0, 0] = 0.0
    head = Attention.of(
        np.zeros((1, 1, 1)), np.eye(6, 1)[None], value, np.ones((1, 1, 1)), memory, query_bias=np.ones((1, 1))
    )
    return Network((head,), 1, "float32")


def computed_and_bound(network: Network, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the network in its dtype, in NumPy and in PyTorch, (2, B), and what is proved of them, (B,)."""
    import torch

    from attnfun.runtime.backends.numpy import run
    from attnfun.runtime.backends.torch import to_torch

    encloser = Encloser(network)
    focus = tuple(layer.take(np.zeros(len(points), dtype=np.int64)) for layer in encloser.start())
    for _ in range(2):  # tokens that were dropped are out of play
        region, focus = encloser(Interval(points.reshape(-1, 1, 1)), focus)
    truth = run(replace(network, dtype="float64"), points.reshape(-1, 1, 1)).reshape(-1)
    with torch.no_grad():
        stock = to_torch(network, (1,), ())(torch.tensor(points[:, None]).to(getattr(torch, network.dtype)))
    values = np.stack([run(network, points.reshape(-1, 1, 1)).reshape(-1), stock.double().numpy().reshape(-1)])
    return np.abs(values - truth), region.error[:, 0, 0, OWN]


def test_values_out_of_play_count_as_they_are_computed():
    errors, bound = computed_and_bound(cancelling_head(), np.linspace(-1, 1, 5))
    assert errors.max() > 0.1
    assert (errors <= bound).all()


@pytest.mark.parametrize("off", ["the leader", "the token behind"])
def test_tokens_that_lead_in_the_reals_only(off):
    """Of two scores 63 apart one is ±(2^14 + 63), which bfloat16 stores as ±2^14, and ∓2^14 added: both are 0."""
    sign, row = (1.0, 0) if off == "the leader" else (-1.0, 1)
    memory, key = np.zeros((2, 4)), np.zeros((4, 4))
    memory[row, :3], memory[:, 3] = (sign * 2.0**14, sign * 63.0, -sign * 2.0**14), (1.0, -1.0)
    key[0, 0] = key[1, 0] = key[2, 1] = 1.0
    ones = np.array([[1.0, 1.0, 0.0, 0.0]])
    head = Attention.of(
        np.zeros((1, 1, 4)), key[None], np.eye(4, 1, -3)[None], np.ones((1, 1, 1)), memory, query_bias=ones
    )
    errors, bound = computed_and_bound(Network((head,), 1, "bfloat16"), np.linspace(-1, 1, 5))
    assert errors.max() > 0.9
    assert (errors <= bound).all()


def test_numbers_flushed_to_zero_count_as_rounding_where_the_input_is_exact():
    """A processor that flushes tiny numbers reads 0 for 2^-130: that is an operation of the network."""
    import torch

    from attnfun.runtime.backends.torch import to_torch

    memory = np.array([[0.0, 0.0], [2.0**10, 1.0]])  # (M, [key | value])
    head = Attention.of(
        np.full((1, 1, 1), 2.0**120), np.eye(2, 1)[None], np.eye(2, 1, -1)[None], np.ones((1, 1, 1)), memory
    )
    network, point = Network((head,), 1, "float32"), np.full((1, 1, 1), 2.0**-130)
    region, _ = Encloser(network)(Interval(point), Encloser(network).start(), np.zeros((1, 1, 1)))
    module, truth = to_torch(network, (1,), ()), 1 / (1 + np.exp(-1.0))
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        with torch.no_grad():
            value = float(module(torch.tensor(point[0], dtype=torch.float32)))
    finally:
        torch.set_flush_denormal(False)
    assert value == 0.5
    assert truth - value <= region.error[0, 0, 0, OWN]


def test_stock_attention_scales_exactly_where_the_proof_says_so():
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-3, construction="spectral", dtype="float32")
    (layer,) = net.network.attention
    assert stock_size(layer) == 16
    assert scaling_roundings(layer) == 0
    assert net.to_torch().layers[-1].attention.head_dim == 16


def test_a_proof_by_another_form_scales_no_more_exactly_than_the_network():
    net = af.compile(
        "x*y", {"x": (0, 1), "y": (0, 1)}, 0.3, construction="softmax-readout", dtype="float32", proof=False
    )
    emitted, proved = net.network.attention[0], with_banks(net.network).attention[0]
    assert scaling_roundings(proved) >= scaling_roundings(emitted)


@pytest.mark.parametrize("formula", ["exp(-20*x**2)", "sin(10*x)"])
def test_parts_of_rounding_hold_together_and_its_own_part_alone(formula):
    net = af.compile(formula, {"x": (-1, 1)}, 1e-3, dtype="float32", construction="spectral")
    problem = Problem(net.certificate.claim.target, net.network)
    boxes = problem.root()
    for _ in range(6):
        boxes = problem.narrowed(boxes)
        rows = Interval(boxes.lo, boxes.hi)[:, None]
        moved = problem.encloser(rows, boxes.focus)[0].error[:, 0, 0, 1]
        exact = problem.encloser(rows, boxes.focus, np.zeros(rows.shape))[0].error[:, 0, 0, 1]
        assert (moved >= (1 - 1e-12) * exact).all()
        nothing = np.zeros(len(boxes), dtype=np.int64)
        boxes = boxes.halves(nothing, nothing)


def test_rounding_the_input_costs_what_the_target_changes():
    net = af.compile("sin(60*x)", {"x": (-1, 1)}, 1e-3, dtype="float32", construction="spectral")
    assert net.certificate.parts["input"] <= 60 * 2.0**-24 * 1.01
    apart = af.compile("sin(60*x)", {"x": (-1, 0.9)}, 1e-3, dtype="float32", construction="spectral")  # 0.9 is rounded
    x = np.nextafter(0.9, [0.0, 1.0])[:1]
    assert abs(apart(x) - np.sin(60 * x))[0] <= apart.certificate.bound <= 1e-3


@pytest.mark.parametrize("dtype", FORMATS)
def test_numbers_move_by_no_more_than_storing_costs(dtype):
    arithmetic = FORMATS[dtype]
    rng = np.random.default_rng(0)
    lowest = int(np.log2(arithmetic.tiny)) - 8
    numbers = np.ldexp(rng.uniform(1, 2, 4000), rng.integers(lowest, 12, 4000))
    ties = np.ldexp(1 + arithmetic.grain, np.arange(lowest, 12)) if dtype != "float64" else numbers
    for points in (numbers, ties):
        assert (np.abs(round_to(points, dtype) - points) <= storage_error(points, arithmetic)).all()
    if dtype != "float64":
        assert (np.abs(round_to(ties, dtype) - ties) > 0.9 * arithmetic.grain * ties).any()


def test_far_tokens_weigh_no_more_in_float32_than_is_claimed():
    """Scores that are far below another one, shifted by a maximum that may be larger still."""
    rng = np.random.default_rng(1)
    gaps, extra = rng.uniform(0, 80, 5000), rng.uniform(0, 5, 5000)
    start = rng.uniform(-1e4, 1e4, 5000).astype(np.float32)
    far = (start - gaps.astype(np.float32)).astype(np.float32)
    gap = start.astype(np.float64) - far
    top = (start + extra.astype(np.float32)).astype(np.float32)
    weights = np.exp((far - top).astype(np.float32))
    assert (weights <= computed_weight(gap)).all()
    assert (1.2 * weights > computed_weight(gap)).any()
