"""Fast evaluation: queries a second beside dense attention in PyTorch and beside interpolation in SciPy.

    python benchmarks/kernels.py

Writes benchmarks/results/kernels.md. All figures are of one run: contestants take turns and the best turn counts, so
that ratios mean something on a machine that is shared. Calls are whole calls, `net(x)` against `module(x)`.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numba import njit
from scipy.interpolate import BarycentricInterpolator, RBFInterpolator, RegularGridInterpolator
from scipy.ndimage import map_coordinates, spline_filter
from scipy.sparse import eye_array

import attnfun as af
from attnfun.constructions.heads import Head, assembled
from attnfun.kernels import Evaluator
from attnfun.kernels.axes import Axis
from attnfun.kernels.banks import Product
from attnfun.kernels.evaluators import processors
from attnfun.network import Network

RESULTS = Path(__file__).parent / "results" / "kernels.md"
TURNS = 3
SHORT_TURNS = 60
"""Turns of a millisecond or so, of which some are undisturbed."""
GHOSTS, GAMMA = 3, 0.7
RIDGE = 1e-13
"""Penalty on values when they are solved for: it keeps them moderate."""
MOST_SOLVED = 1024
"""Longer axes have sampled values: with so many tokens they are good enough."""
Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Contestant:
    """A way to evaluate, and how many queries it gets in one turn."""

    name: str
    call: Callable[[np.ndarray], Any]
    count: int = 200_000


def rates(contestants: list[Contestant], queries: np.ndarray) -> list[float]:
    """Queries a second of each; they take turns."""
    best = [np.inf] * len(contestants)
    for each in contestants:
        each.call(queries[: min(each.count, 100)])
    for _ in range(TURNS):
        for number, each in enumerate(contestants):
            began = time.perf_counter()
            each.call(queries[: each.count])
            best[number] = min(best[number], time.perf_counter() - began)
    return [min(each.count, len(queries)) / seconds for each, seconds in zip(contestants, best, strict=True)]


def smooth(points: np.ndarray) -> np.ndarray:
    """A product of waves of different lengths, in any number of variables."""
    return np.prod([np.sin((7 + k) * points[..., k] + k) for k in range(points.shape[-1])], axis=0)


def axis_of(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """A uniform bank on [-1, 1]: slopes, offsets, sample points, and the matrix from samples to solved values."""
    spacing = 2 / (count - 1 - 2 * GHOSTS)
    centres, beta = -1 + spacing * (np.arange(count) - GHOSTS), GAMMA / spacing**2
    slopes, offsets = beta * centres, -beta * centres**2 / 2
    if count > MOST_SOLVED:
        return slopes, offsets, centres, eye_array(count)
    samples = np.cos(np.linspace(0, np.pi, 2 * count + 1))
    scores = np.multiply.outer(samples, slopes) + offsets
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return slopes, offsets, samples, np.linalg.solve(weights.T @ weights + RIDGE * np.eye(count), weights.T)


def bank(count: int, rank: int, function: Function) -> Network:
    """One head with count^rank tokens."""
    slopes, offsets, samples, solve = axis_of(count)
    values = function(np.stack(np.meshgrid(*[samples] * rank, indexing="ij"), axis=-1))
    for _ in range(rank):
        values = np.moveaxis((solve @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:]), 0, -1)

    def grid(column: np.ndarray) -> np.ndarray:
        return np.stack([part.ravel() for part in np.meshgrid(*[column] * rank, indexing="ij")], axis=1)

    head = Head(np.eye(rank), np.zeros(rank), grid(slopes), grid(offsets).sum(axis=1), values.reshape(-1, 1))
    return Network(assembled([head], np.zeros(1), 1, (1,)), 1)


def dense_torch(network: Network) -> Callable[[np.ndarray], Any]:
    """`scaled_dot_product_attention` on the head's dense keys and values."""
    (layer,) = network.attention
    keys, values = (torch.tensor(array[0])[None] for array in (layer.keys(), layer.values()))

    def call(points: np.ndarray) -> Any:
        asks = torch.tensor(np.hstack([points, np.ones((len(points), 1))]))[None]
        return torch.nn.functional.scaled_dot_product_attention(asks, keys, values, scale=1.0)

    return call


def error_of(each: Contestant, function: Function, rank: int) -> float:
    """The largest error at random points."""
    points = np.random.default_rng(5).uniform(-1, 1, (min(each.count, 20000), rank))
    return float(np.abs(np.asarray(each.call(points)).reshape(-1) - function(points)).max())


def cube(rank: int) -> af.Box:
    """[-1, 1]^rank."""
    return af.Box(np.full(rank, -1.0), np.full(rank, 1.0))


def evaluated(network: Network, rank: int, room: float) -> tuple[Contestant, Evaluator]:
    """Fast evaluation of a bank."""
    run = Evaluator(network, cube(rank), room)
    return Contestant(f"attention, {network.tokens} tokens", lambda points: run(points[:, None])), run


def growth() -> list[str]:
    """Cost against the number of tokens and of variables."""
    lines = [
        "## Tokens and variables",
        "",
        "One head on a product of axes, float64, room for errors of 1e-8; dense attention in PyTorch on the same keys.",
        "",
        "| variables | tokens | tokens asked | error | queries/s | queries/s, SDPA | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for rank, counts in ((1, (32, 1024, 32768)), (2, (32, 128)), (3, (24, 46, 96))):
        queries = np.random.default_rng(0).uniform(-1, 1, (100_000, rank))
        for count in counts:
            network = bank(count, rank, smooth)
            fast, run = evaluated(network, rank, 1e-8)
            dense = Contestant("SDPA", dense_torch(network), max(20, min(200_000, 10_000_000 // count**rank)))
            mine, theirs = rates([fast, dense], queries)
            cells = f"{error_of(fast, smooth, rank):.1e} | {mine:.2e} | {theirs:.2e} | {mine / theirs:.0f}"
            lines.append(f"| {rank} | {count**rank} | {run.banks[0].asked} | {cells} |")
            sys.stderr.write(lines[-1] + "\n")
    return lines


def splines(count: int) -> Contestant:
    """Cubic splines on a grid of count³ nodes, filtered beforehand."""
    nodes = np.linspace(-1, 1, count)
    coefficients = spline_filter(smooth(np.stack(np.meshgrid(*[nodes] * 3, indexing="ij"), axis=-1)), order=3)

    def call(points: np.ndarray) -> np.ndarray:
        return map_coordinates(coefficients, (points.T + 1) * ((count - 1) / 2), order=3, prefilter=False)

    return Contestant(f"map_coordinates(order=3), {count}³ nodes", call, 50_000)


def in_three_variables() -> list[Contestant]:
    """Attention beside what SciPy offers."""
    ours, _ = evaluated(bank(46, 3, smooth), 3, 1e-8)
    coarse, _ = evaluated(bank(46, 3, smooth), 3, 1e-5)
    nodes = np.linspace(-1, 1, 46)
    grid = smooth(np.stack(np.meshgrid(*[nodes] * 3, indexing="ij"), axis=-1))
    cubic = RegularGridInterpolator((nodes,) * 3, grid, method="cubic")
    sites = np.random.default_rng(1).uniform(-1, 1, (4000, 3))
    scattered = RBFInterpolator(sites, smooth(sites), neighbors=50)
    return [
        replace(ours, name="attention, 46³ tokens, room 1e-8"),
        replace(coarse, name="attention, 46³ tokens, room 1e-5"),
        Contestant("RegularGridInterpolator(cubic), 46³ nodes", cubic, 50_000),
        splines(46),
        splines(184),
        Contestant("RBFInterpolator(neighbors=50), 4000 sites", scattered, 200),
    ]


def in_one_variable() -> list[Contestant]:
    """A compiled function beside barycentric interpolation with as many digits."""
    net = af.compile("sin(7*x)", {"x": (-1, 1)}, 1e-8)
    nodes = np.cos(np.linspace(0, np.pi, 28))
    polynomial = BarycentricInterpolator(nodes, np.sin(7 * nodes))
    return [
        Contestant(f"attention, {net.network.tokens} tokens, proved", lambda points: net(points[:, 0]), 1_000_000),
        Contestant("BarycentricInterpolator, 28 nodes", lambda points: polynomial(points[:, 0]), 100_000),
    ]


def peers() -> list[str]:
    """SciPy in three variables and in one, with the error of each."""
    lines = ["", "## Beside interpolation", "", "The error is the largest found at random points."]
    groups = ("Three variables", in_three_variables(), 3), ("One variable", in_one_variable(), 1)
    for title, contestants, rank in groups:
        lines += ["", f"{title}:", "", "| method | error | queries/s |", "|---|---|---|"]
        queries = np.random.default_rng(0).uniform(-1, 1, (1_000_000 if rank == 1 else 200_000, rank))
        for each, rate in zip(contestants, rates(contestants, queries), strict=True):
            lines.append(f"| {each.name} | {error_of(each, smooth, rank):.1e} | {rate:.2e} |")
            sys.stderr.write(lines[-1] + "\n")
    return lines


def circuits() -> list[str]:
    """A network of several layers beside its PyTorch module."""
    head = "| formula | heads | tokens | queries/s | queries/s, PyTorch | ratio |"
    lines = ["", "## Circuits", "", head, "|---" * 6 + "|"]
    for text, names in (("x*exp(-y*z)/(1 + z**2)", "xyz"), ("log(1 + a*b + c*d)*sqrt(1 + e)", "abcde")):
        net = af.compile(text, dict.fromkeys(names, (0, 1)), 1e-6, construction="circuit")
        module = net.to_torch()

        def dense(points: np.ndarray, module: Any = module) -> Any:
            with torch.no_grad():
                return module(torch.tensor(points))

        queries = np.random.default_rng(0).uniform(0, 1, (100_000, len(names)))
        mine, theirs = rates([Contestant("fast", net, 100_000), Contestant("PyTorch", dense, 20_000)], queries)
        size = f"{net.network.heads} | {net.network.tokens}"
        lines.append(f"| `{text}` | {size} | {mine:.2e} | {theirs:.2e} | {mine / theirs:.1f} |")
        sys.stderr.write(lines[-1] + "\n")
    return lines


def memory(count: int) -> list[str]:
    """A bank of count³ tokens whose keys never exist, and a million queries."""
    slopes, offsets, samples, solve = axis_of(count)
    line = solve @ np.stack([np.sin((7 + k) * samples + k) for k in range(3)], axis=1)  # (N, 3)
    values = np.einsum("i,j,k->ijk", *line.T).reshape(-1, 1)
    axes = (Axis.of(slopes, offsets, 1e-9),) * 3
    large = Product.of(axes, values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    queries = np.random.default_rng(0).uniform(-1, 1, (1_000_000, 3))
    began = time.perf_counter()
    for start in range(0, len(queries), 10_000):
        large(queries[start : start + 10_000])
    rate = len(queries) / (time.perf_counter() - began)
    some = queries[:20000]
    error = float(np.abs(large(some).mean[:, 0] - smooth(some)).max())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return [
        "",
        "## Memory",
        "",
        f"A bank of {count}³ = {count**3:.1e} tokens: values of {values.nbytes / 2**20:.0f} MiB, keys of "
        f"{sum(axis.slopes.nbytes + axis.offsets.nbytes for axis in axes) / 2**10:.0f} KiB (dense keys would be "
        f"{32 * count**3 / 2**20:.0f} MiB). A million queries in blocks, one thread: {rate:.2e} queries/s, error "
        f"{error:.1e}; peak memory of the process {before / 2**10:.0f} MiB before and {peak / 2**10:.0f} MiB after.",
    ]


@njit(nogil=True, fastmath=True)
def _products(numbers: np.ndarray, rounds: int) -> float:
    total = 0.0
    for _ in range(rounds):
        for k in range(len(numbers)):
            total += numbers[k] * numbers[k]
    return total


def limits() -> list[str]:
    """What this machine can do on one processor, and what a query needs."""
    speeds = []
    for size in (2**11, 2**24):
        numbers, rounds = np.ones(size), max(1, 2**21 // size)
        _products(numbers, 1)
        seconds = []
        for _ in range(SHORT_TURNS):
            began = time.perf_counter()
            _products(numbers, rounds)
            seconds.append(time.perf_counter() - began)
        speeds.append(rounds * size / min(seconds))
    network = bank(46, 3, smooth)
    run = Evaluator(network, cube(3), 1e-8)
    found: Any = run.banks[0]
    queries = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    rate = max(rates([Contestant("bank", found)], queries)[0] for _ in range(SHORT_TURNS))
    asked, widths = found.asked, [axis.width for axis in found.axes]
    return [
        "",
        "## Roofline",
        "",
        "In turns of about a millisecond, the best counts: one processor did "
        f"{speeds[0]:.1e} multiply-adds/s on numbers in its first cache "
        f"({8 * speeds[0] / 1e9:.0f} GB/s) and {speeds[1]:.1e}/s on numbers in main memory "
        f"({8 * speeds[1] / 1e9:.1f} GB/s), one load each. A query of the 46³ bank asks "
        f"{' x '.join(map(str, widths))} = {asked} tokens at most, one load and one multiply-add each "
        f"({8 * asked / 1024:.0f} KiB), and {sum(widths)} exponentials: at most {speeds[0] / asked:.1e} queries/s on "
        f"one processor if all values came from the first cache. Measured: {rate:.1e}, "
        f"{100 * rate * asked / speeds[0]:.0f} % of it.",
    ]


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=464, help="tokens along each of three axes of the largest bank")
    asked = parser.parse_args()
    head = [
        "# Fast evaluation",
        "",
        f"One run of `python benchmarks/kernels.py` on {processors()} processors shared with other work; contestants "
        f"take turns, the best of {TURNS} counts.",
        "",
    ]
    RESULTS.parent.mkdir(exist_ok=True)
    lines = head
    for section in (growth, circuits, limits, peers, lambda: memory(asked.largest)):
        lines = lines + section()
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
