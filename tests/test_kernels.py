"""Fast evaluation is the network: within its certificate, for every construction, every query and every batch."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

import attnfun as af
from attack import inputs_of
from attnfun.arithmetic.formats import DTYPES, round_to
from attnfun.network import Affine, Attention, FactoredAttention, Network, reference, storage
from attnfun.network.network import rounded
from attnfun.runtime.backends import numpy as plain
from attnfun.runtime.backends.onnx import to_onnx
from attnfun.runtime.backends.torch import to_torch
from attnfun.runtime.kernels import Evaluator, gradient
from attnfun.runtime.kernels import axes as axes_module
from attnfun.runtime.kernels.axes import FLUSHED, SortedAxis
from attnfun.runtime.kernels.banks import HeadMemory, Listed, ProductBank, Stream
from attnfun.runtime.kernels.exponential import exponential
from attnfun.runtime.kernels.recognition import recognised
from cases import CASES

UNIT = 2.0**-53


def test_the_exponential_is_as_accurate_as_its_docstring_says():
    rng = np.random.default_rng(0)
    half = (np.arange(-1021, 1000, 7) + 0.5) * np.log(2)  # where the reduced argument is largest
    points = np.concatenate([rng.uniform(-708, 0, 20000), rng.uniform(-1, 1, 20000), half, [0.0, -708.0, 700.0]])
    points = points[(points >= -708) & (points <= 700)]
    points = np.concatenate([points, np.nextafter(points, 0)])
    true = np.exp(points.astype(np.longdouble))  # 64 bits
    found = np.array([exponential(x) for x in points])
    assert np.abs((found - true) / true).max() <= 3 * UNIT
    assert 0 < exponential(-1e300) <= FLUSHED


def test_the_exponential_does_not_depend_on_what_is_compiled_first(tmp_path):
    """A function without its own `fastmath` inherits that of the first caller, and sums in any order would undo it."""
    code = (
        "import numpy as np; from attnfun.runtime.kernels.banks import HeadMemory, Stream;"
        "slopes, ones = np.array([[-1.0], [0.0], [1.0]]), np.ones((3, 1));"
        "print(float(Stream.of(HeadMemory(slopes, np.zeros(3), ones))(np.array([[0.4]])).mass[0]))"
    )
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=fresh, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(np.exp([0, -0.4, -0.8]).sum(), rel=1e-14)


RNG = np.random.default_rng(0)
CENTRES, FINE = np.linspace(-1, 1, 200), np.geomspace(1e-6, 1, 150)
LINES = {
    "uniform": (4000 * CENTRES, -2000 * CENTRES**2),
    "graded": (-5 / FINE, -5 * np.log(FINE)),  # tangents of -5 log x
    "random": (RNG.normal(size=80) * 30, RNG.normal(size=80) * 30),
    "equal slopes": (np.repeat([-1.0, 0.0, 2.0], 30), RNG.normal(size=90)),
    "one": (np.array([3.0]), np.array([1.0])),
    "parallel": (np.full(40, 2.0), RNG.normal(size=40)),
}


@pytest.mark.parametrize("pairs", [axes_module.MOST_PAIRS, 0], ids=["by pairs", "by bisection"])
@pytest.mark.parametrize("tail", [1e-3, 1e-12, FLUSHED])
@pytest.mark.parametrize("name", LINES)
def test_windows_drop_no_more_than_they_say(name, tail, pairs, monkeypatch):
    slopes, offsets = LINES[name]
    monkeypatch.setattr(axes_module, "MOST_PAIRS", pairs)
    axis = SortedAxis.of(slopes, offsets, tail)
    edges = np.concatenate([axis.breaks, np.nextafter(axis.breaks, np.inf), np.nextafter(axis.breaks, -np.inf)])
    middles = (axis.breaks[1:] + axis.breaks[:-1]) / 2
    queries = np.concatenate([edges, middles, [-1e9, -1.0, 0.0, 1.0, 1e9]])
    cell = np.searchsorted(axis.breaks, queries, side="right")
    scores = np.multiply.outer(queries, axis.slopes) + axis.offsets
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    token = np.arange(len(slopes))
    out = (token < axis.start[cell, None]) | (token >= axis.stop[cell, None])
    assert ((share * out).sum(axis=1) <= tail * share.sum(axis=1)).all()
    if name == "uniform" and tail == 1e-3:
        assert axis.width < 20


def product_tokens(sizes, seed=0, outputs=2, sharpness=0.3):
    """Tokens of a product in random order, with duplicates whose weights are halves of one."""
    rng = np.random.default_rng(seed)
    centres = [np.sort(rng.uniform(-1, 1, size)) for size in sizes]
    sharp = [sharpness * size**2 for size in sizes]
    grid = np.stack([part.ravel() for part in np.meshgrid(*centres, indexing="ij")], axis=1)
    slopes, offsets = grid * sharp, -(grid**2 * sharp).sum(axis=1) / 2
    values = rng.normal(size=(len(grid), outputs))
    offsets[:3] -= np.log(2)
    slopes, values = np.vstack([slopes, slopes[:3]]), np.vstack([values, values[:3]])
    offsets = np.concatenate([offsets, offsets[:3]])
    order = rng.permutation(len(offsets))
    return HeadMemory(slopes[order], offsets[order], values[order])


def dense_average(tokens: HeadMemory, queries: np.ndarray) -> np.ndarray:
    scores = queries @ tokens.slopes.T + tokens.offsets
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ tokens.values / weights.sum(axis=1, keepdims=True)


def scattered(rank: int, sharpness: float) -> HeadMemory:
    rng = np.random.default_rng(rank)
    centres = rng.uniform(-1, 1, (600, rank))
    return HeadMemory(sharpness * centres, -sharpness / 2 * (centres**2).sum(axis=1), rng.normal(size=(600, 1)))


BANKS = {
    "line": (product_tokens([60]), ProductBank),
    "plane": (product_tokens([30, 25]), ProductBank),
    "space": (product_tokens([20, 18, 24]), ProductBank),
    "four axes": (product_tokens([6, 5, 7, 4]), ProductBank),
    "long windows": (product_tokens([9, 200], sharpness=0.03), ProductBank),
    "scattered in two": (scattered(2, 1000.0), Listed),
    "scattered in three": (scattered(3, 300.0), Listed),
}


@pytest.mark.parametrize("room", [1e-2, 1e-6, 1e-10, 0.0])
@pytest.mark.parametrize("name", BANKS)
def test_banks_are_recognised_and_stay_within_their_room(name, room):
    tokens, kind = BANKS[name]
    rank = tokens.slopes.shape[1]
    bank = recognised(tokens, room, np.full(rank, -1.0), np.full(rank, 1.0))
    if room > 0:
        assert isinstance(bank, kind)
    elif rank > 1:
        assert isinstance(bank, Stream)
    if room == 1e-2 and name != "four axes":  # axes of six tokens have no windows to speak of
        assert bank.reached < len(tokens.offsets) / 2
    rng = np.random.default_rng(1)
    queries = np.vstack([rng.uniform(-1, 1, (500, rank)), rng.choice([-1.0, 1.0], (20, rank)), np.zeros((1, rank))])
    if isinstance(bank, ProductBank):  # edges of cells and their neighbours
        edges = [np.clip(rng.choice(axis.breaks, 60), -1, 1) for axis in bank.axes]
        edges = np.stack(edges, axis=1)
        queries = np.vstack([queries, edges, np.nextafter(edges, 2), np.nextafter(edges, -2)])
    if isinstance(bank, Listed):
        cuts = bank.leaves.tree.cut[bank.leaves.tree.axis == 0]
        edges = queries[: len(cuts)].copy()
        edges[:, 0] = cuts[: len(edges)]
        queries = np.vstack([queries, edges, np.nextafter(edges, 2), np.nextafter(edges, -2)])
    queries = np.clip(queries, -1, 1)
    found = bank(queries)
    scale = np.abs(tokens.values).max()
    assert np.abs(found.mean - dense_average(tokens, queries)).max() <= room + 1e-12 * scale  # the yardstick rounds too
    mass = np.log(found.mass) + found.top
    scores = queries @ tokens.slopes.T + tokens.offsets
    assert np.allclose(mass, logsumexp(scores, axis=1), atol=1e-2)


def test_large_banks_hold_float32_numbers_if_there_is_room():
    tokens = product_tokens([34, 32, 34], outputs=1)
    queries = np.random.default_rng(2).uniform(-1, 1, (60, 3))
    dense = dense_average(tokens, queries)
    scale = np.abs(tokens.values).max()
    for room, dtype in ((1e-5, np.float32), (0.1 * 2.0**-24 * scale, np.float64)):
        bank = recognised(tokens, room, np.full(3, -1.0), np.full(3, 1.0))
        assert isinstance(bank, ProductBank)
        assert bank.values.dtype == dtype
        assert np.abs(bank(queries).mean - dense).max() <= room


def test_queries_are_answered_alike_in_any_order_and_company():
    tokens, _ = BANKS["space"]
    bank = recognised(tokens, 1e-6, np.full(3, -1.0), np.full(3, 1.0))
    queries = np.random.default_rng(0).uniform(-1, 1, (3000, 3))  # enough to be sorted by cell
    order = np.random.default_rng(1).permutation(len(queries))
    together, shuffled = bank(queries), bank(queries[order])
    for one, other in zip(vars(together).values(), vars(shuffled).values(), strict=True):
        assert np.array_equal(one[order], other)
    assert np.array_equal(together.mean[:5], np.vstack([bank(query[None]).mean for query in queries[:5]]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_and_large_heads_of_several_layers(dtype):
    """Two layers on two tokens, the second with a residual connection, a small bank and a large one."""
    rng = np.random.default_rng(0)
    centres = np.linspace(-2, 2, 120)
    memory = np.zeros((120, 4))
    memory[:, 0], memory[:, 1], memory[:, 2:] = 900 * centres, -450 * centres**2, rng.normal(size=(120, 2))
    query = np.stack([np.array([[1.0, 0], [0, 0], [0, 0]]), rng.normal(size=(3, 2)) / 900])
    key = np.stack([np.eye(4)[:, :2], rng.normal(size=(4, 2)) / 30])
    attention = Attention.of(
        query, key, np.stack([np.eye(4)[:, 2:]] * 2), rng.normal(size=(2, 2, 3)), memory,
        query_bias=np.array([[0.0, 1.0], [0.3, 0.0]]), residual=True,
    )  # fmt: skip
    first = Attention.of(rng.normal(size=(3, 3, 2)), rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4, 1)),
                         rng.normal(size=(3, 1, 3)) / 4, rng.normal(size=(5, 4)))  # fmt: skip
    mixing = Affine(rng.normal(size=(2, 3, 3)) / 4, rng.normal(size=(2, 3)) / 4, rng.normal(size=(2, 2, 2)))
    layers = mixing, first, Affine.tokenwise(np.eye(3), np.ones(3)), attention
    network = Network(tuple(rounded(layer, dtype) for layer in layers), 2, dtype)
    box = af.Box(np.full((2, 3), -1.0), np.full((2, 3), 1.0))
    X = round_to(rng.uniform(-1, 1, (100, 2, 3)), dtype)
    wanted = reference.run(network, X)
    for allowance in (0.0, 1e-3):
        run = Evaluator(network, box, allowance)
        assert {type(bank) for bank in run.banks} == ({Stream, ProductBank} if allowance else {Stream})
        off = np.abs(run(X) - wanted).max()
        assert off <= allowance + (1e-9 if dtype == "float64" else 1e-4)
        assert np.array_equal(run(X[7:8])[0], run(X)[7])


@pytest.mark.parametrize("sharpness", [1.0, 1e4, 2.0**60])
@pytest.mark.parametrize(
    ("memory", "dtype"), [(0, "float64"), (1, "float64"), (1, "float32"), (3, "bfloat16"), (8, "float64")]
)
def test_a_token_that_sees_itself_and_a_few_of_memory_runs_as_a_program(memory, dtype, sharpness):
    """Two layers of heads of two features and values, the second with a residual connection; from soft to hard."""
    rng = np.random.default_rng(memory)

    def layer(width: int, out: int, residual: bool) -> Attention:
        shapes = (3, width, 2), (3, width, 2), (3, width, 2), (3, 2, out), (memory, width)
        parts = [rng.normal(size=shape) / width for shape in shapes]
        parts[0] *= sharpness
        return Attention.of(*parts, output_bias=rng.normal(size=out), residual=residual, attends_data=True)

    layers = layer(3, 4, False), layer(4, 4, True), Affine.tokenwise(rng.normal(size=(4, 2)), np.ones(2))
    network = Network(tuple(rounded(each, dtype) for each in layers), 1, dtype)
    run = Evaluator(network, af.Box([[-1.0] * 3], [[1.0] * 3]))
    X = round_to(rng.uniform(-1, 1, (100, 1, 3)), dtype)
    wanted = reference.run(network, X)
    assert run.stages is not None
    if sharpness < 1e9:  # scores are rounded, and a token wins or loses by what is left
        assert np.abs(run(X) - wanted).max() <= (1e-10 if dtype == "float64" else 1e-5) * sharpness
    assert np.isfinite(run(X)).all()
    assert np.array_equal(run(X[7:8])[0], run(X)[7])


@pytest.mark.parametrize("name", BANKS)
def test_queries_out_of_range_are_answered_too(name):
    tokens, _ = BANKS[name]
    rank = tokens.slopes.shape[1]
    bank = recognised(tokens, 1e-6, np.full(rank, -1.0), np.full(rank, 1.0))
    queries = np.vstack([np.full((1, rank), 7.0), np.full((1, rank), -1e6), np.full((1, rank), 0.1)])
    assert np.abs(bank(queries).mean - dense_average(tokens, queries)).max() <= 1e-6


@pytest.mark.parametrize("name", BANKS)
def test_slopes_of_banks_are_derivatives(name):
    tokens, _ = BANKS[name]
    rank = tokens.slopes.shape[1]
    bank = recognised(tokens, 1e-9, np.full(rank, -1.0), np.full(rank, 1.0))
    queries = np.random.default_rng(0).uniform(-0.9, 0.9, (40, rank))
    moments, centre, slopes = bank.slopes(queries)
    assert np.allclose(moments.mean, bank(queries).mean)
    assert np.allclose(centre, dense_average(replace(tokens, values=tokens.slopes), queries), atol=1e-4)
    for k in range(rank):
        step = 1e-6 * np.eye(rank)[k]
        apart = dense_average(tokens, queries + step) - dense_average(tokens, queries - step)
        assert np.allclose(slopes[:, k], apart / 2e-6, rtol=1e-4, atol=1e-3)


def test_what_is_set_aside_is_part_of_the_bound(compiled):
    net = compiled(CASES[1], "float64", "cross")
    certificate = net.certificate
    assert 0 < certificate.allowance <= 0.01 * certificate.bound
    assert certificate.bound <= CASES[1].eps
    assert certificate.bound <= sum(certificate.parts.values()) * (1 + 1e-12)
    again = certificate.recheck()
    assert again.allowance == certificate.allowance
    greedy = replace(certificate, parts={**certificate.parts, "windows": certificate.bound / 2})
    with pytest.raises(af.errors.ProofFailed):
        greedy.recheck()


def test_files_keep_what_is_set_aside_and_give_the_same_numbers(compiled, tmp_path):
    for case in (CASES[1], CASES[9]):
        net = compiled(case, "float64", "cross")
        net.save(tmp_path / "f.safetensors")
        again = af.load(tmp_path / "f.safetensors")
        points = net.domain.unflatten(net.domain.sample(50, np.random.default_rng(0)))
        assert np.array_equal(net(points), again(points))


def test_the_order_of_memory_tokens_does_not_matter(compiled):
    net = compiled(CASES[1], "float64", "cross")
    (layer,) = net.network.attention
    order = np.random.default_rng(0).permutation(len(layer.memory))
    shuffled = replace(layer, memory=layer.memory[order])
    layers = tuple(shuffled if isinstance(each, Attention) else each for each in net.network.layers)
    other = Evaluator(Network(layers, net.network.length), net.domain, net.certificate.allowance)
    assert [type(bank) for bank in other.banks] == [ProductBank]
    X = net.domain.sample(100, np.random.default_rng(0))[:, None]
    assert np.abs(other(X)[:, 0, 0] - net(X[:, 0])).max() <= net.certificate.allowance


def test_large_batches_give_what_single_points_give(compiled):
    net = compiled(CASES[1], "float64", "cross")
    points = net.domain.sample(40_000, np.random.default_rng(0))  # several blocks, several threads
    many = net(points)
    some = np.random.default_rng(1).integers(0, len(points), 50)
    assert np.array_equal(many[some], [net(points[k]) for k in some])


GRADIENTS = [case for case in CASES if case.name not in ("black box", "rectifiers")]


@pytest.mark.parametrize("case", GRADIENTS, ids=str)
def test_gradients_are_those_of_automatic_differentiation(case, compiled):
    net = compiled(case)
    points = net.domain.unflatten(net.domain.sample(5, np.random.default_rng(0)))
    found = net.grad(points)
    assert found.shape == (5, *net.output_shape, *net.domain.shape)
    module = net.to_torch()
    for point, slopes in zip(points, found, strict=True):
        wanted = torch.autograd.functional.jacobian(
            lambda x: module(*inputs_of(net, x.reshape(1, -1)).values())[0], torch.tensor(point)
        ).numpy()
        scale = max(1.0, float(np.abs(wanted).max()))
        # windows leave out a share of the mass: slopes may move by that share times the spread of slopes and values
        assert np.abs(slopes - wanted.reshape(slopes.shape)).max() <= (1e-8 + 10 * net.certificate.allowance) * scale


def test_one_gradient_or_many_and_single_variables():
    net = af.compile("sin(3*x)", domain=(-1, 1), eps=1e-8)
    points = np.linspace(-1, 1, 11)
    assert net.grad(points).shape == (11,)
    assert np.ndim(net.grad(0.5)) == 0
    assert np.abs(net.grad(points) - 3 * np.cos(3 * points)).max() < 1e-5
    with pytest.raises(af.errors.InputError, match="must lie in"):
        net.grad(2.0)


def factored_network(sizes, dtype="float64", values=None):
    """A head on a product of axes between two affine maps; two outputs unless values (ΠN, v) are given."""
    rng, rank = np.random.default_rng(0), len(sizes)
    centres, sharp = [np.sort(rng.uniform(-1, 1, size)) for size in sizes], [0.3 * size**2 for size in sizes]
    slopes, offsets = (
        np.concatenate([part(c, s) for c, s in zip(centres, sharp, strict=True)])
        for part in (lambda c, s: s * c, lambda c, s: -s * c**2 / 2)
    )
    values = rng.normal(size=(int(np.prod(sizes)), 2)) if values is None else values
    output = rng.normal(size=(1, values.shape[1], 2))
    query = np.eye(rank)[None] + rng.normal(size=(1, rank, rank)) / 8
    layer = FactoredAttention(query, np.full((1, rank), 0.1), slopes, offsets, values, output, np.ones(2), tuple(sizes))
    layers = (
        Affine.tokenwise(np.eye(rank) / 2, np.zeros(rank)),
        layer,
        Affine.tokenwise(rng.normal(size=(2, 3)), np.ones(3)),
    )
    return Network(tuple(rounded(each, dtype) for each in layers), 1, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_factored_attention_is_the_attention_it_stands_for(dtype, tmp_path):
    network = factored_network([14, 11, 12], dtype)
    tensors, description = storage.pack(network)
    storage.write(tmp_path / "f.safetensors", tensors, description)
    assert (tmp_path / "f.safetensors").stat().st_size < tensors["layers.1.values"].nbytes + 10_000
    again = storage.unpack(*storage.read(tmp_path / "f.safetensors"))
    X = round_to(np.random.default_rng(1).uniform(-1, 1, (300, 1, 3)), dtype)
    wanted = reference.run(network, X)
    dense, box = network.dense(), af.Box(np.full((1, 3), -1.0), np.full((1, 3), 1.0))
    assert (dense.tokens, dense.heads) == (network.tokens, network.heads) == (14 * 11 * 12, 1)
    assert np.allclose(reference.run(dense, X), wanted, rtol=1e-13, atol=1e-13)
    slack = 1e-11 if dtype == "float64" else 1e-3
    assert np.abs(plain.run(again, X) - wanted).max() <= slack
    for allowance in (1e-2, 1e-6, 0.0):
        run = Evaluator(again, box, allowance)
        assert np.abs(run(X) - wanted).max() <= allowance + slack
        assert np.array_equal(run(X), Evaluator(network, box, allowance)(X))
    slopes = gradient(Evaluator(network, box, 1e-9), X[:20])
    assert np.allclose(slopes, gradient(Evaluator(dense, box), X[:20]), rtol=1e-3, atol=1e-3)
    module = to_torch(again, (3,), (3,))(torch.tensor(X[:, 0], dtype=getattr(torch, dtype)))
    assert np.abs(module.detach().numpy() - wanted[:, 0]).max() <= slack


def test_factored_attention_too_large_to_be_written_out_is_saved_and_run_but_not_exported(tmp_path):
    values = np.random.default_rng(0).normal(size=(110**3, 1))
    network = factored_network([110] * 3, values=values)
    storage.write(tmp_path / "f.safetensors", *storage.pack(network))
    again = storage.unpack(*storage.read(tmp_path / "f.safetensors"))
    run = Evaluator(again, af.Box(np.full((1, 3), -1.0), np.full((1, 3), 1.0)), 1e-4)
    assert run(np.zeros((2, 1, 3))).shape == (2, 1, 3)
    attempts = (
        lambda: to_torch(again, (3,), (3,)),
        lambda: to_onnx(again, (3,), (3,), {}),
        lambda: plain.run(again, np.zeros((1, 1, 3))),
    )
    for attempt in attempts:
        with pytest.raises(af.errors.InputError, match="to become ordinary attention"):
            attempt()


def test_factored_attention_must_fit_together():
    (_, layer, _) = factored_network([4, 5]).layers
    with pytest.raises(af.errors.InputError, match="must be"):
        replace(layer, sizes=(5, 5))


def test_a_product_needs_no_keys():
    """Its tokens are its axes and values: 10^6 of them here, 10^8 in benchmarks/kernels.py."""
    centres = np.linspace(-1, 1, 100)
    axis = SortedAxis.of(2500 * centres, -1250 * centres**2, tail=1e-9)
    values = np.einsum("i,j,k->ijk", np.sin(centres), np.cos(centres), np.exp(centres)).reshape(-1, 1)
    bank = ProductBank.of((axis, axis, axis), values)
    queries = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    factors = []
    for k, function in enumerate((np.sin, np.cos, np.exp)):
        line = HeadMemory(2500 * centres[:, None], -1250 * centres**2, function(centres)[:, None])
        factors.append(dense_average(line, queries[:, k : k + 1])[:, 0])
    assert bank.reached < 30**3
    assert np.abs(bank(queries).mean[:, 0] - np.prod(factors, axis=0)).max() <= 3e-9 * np.ptp(values)


def test_nothing_is_compiled_or_loaded_before_it_is_used():
    code = (
        "import sys, attnfun as af; early = 'numpy' in sys.modules;"
        "af.compile('sin(x)', (0, 1), 0.1); print(early, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"
