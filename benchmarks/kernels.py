"""Fast evaluation: queries a second beside dense attention in PyTorch and beside interpolation in SciPy.

    python benchmarks/kernels.py

Writes benchmarks/results/kernels.md. All figures are of one run. Every contestant has one thread and its processor time
is taken; they take short turns and the best counts, so that ratios mean something on a machine that is shared. Calls
are whole calls.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numba import njit
from scipy.interpolate import BarycentricInterpolator, CubicSpline, NdBSpline, RBFInterpolator, make_interp_spline
from scipy.ndimage import map_coordinates, spline_filter1d

import attnfun as af
from attnfun.network import FactoredAttention, Network, storage
from attnfun.runtime.kernels.evaluators import Evaluator, processors
from kernel_banks import Contestant, axis_of, bank, error_of, evaluated, grid_values, rates, smooth, wave

RESULTS = Path(__file__).parent / "results" / "kernels.md"
ROOM = 2.5e-7
"""Room for errors in the banks of three variables, a quarter of the accuracy in question."""
ACCURACY = 1e-6
PADDING = 14
"""Nodes that `map_coordinates` gets beyond the domain, so that its boundary conditions do not matter."""


def whole(run: Evaluator) -> Callable[[np.ndarray], Any]:
    """A call with points (B, r)."""
    return lambda points: run(points[:, None])


def dense_torch(network: Network) -> Callable[[np.ndarray], Any]:
    """`scaled_dot_product_attention` on the head's dense keys and values."""
    (layer,) = network.attention
    kind = getattr(torch, network.dtype)
    keys, values = (torch.tensor(array[0], dtype=kind)[None] for array in (layer.keys(), layer.values()))

    def call(points: np.ndarray) -> Any:
        asks = torch.tensor(np.hstack([points, np.ones((len(points), 1))]), dtype=kind)[None]
        return torch.nn.functional.scaled_dot_product_attention(asks, keys, values, scale=1.0)

    return call


def growth() -> list[str]:
    """Cost against the number of tokens and of variables."""
    lines = [
        "## Tokens and variables",
        "",
        "One head on a product of axes; dense attention in PyTorch on the same keys, in the same dtype. Banks of one "
        "number of variables take turns.",
        "",
        "| variables | tokens | dtype | room | window | values in | error | queries/s | queries/s, SDPA | ratio |",
        "|---" * 10 + "|",
    ]
    groups = {
        1: [(64, "float64", 1e-8), (1024, "float64", 1e-8), (32768, "float64", 1e-8), (1024, "float32", 1e-4)],
        2: [(32, "float64", 1e-8), (128, "float64", 1e-8), (512, "float64", 1e-8), (128, "float32", 1e-4)],
        3: [(46, "float64", 1e-8), (24, "float64", ROOM), (46, "float64", ROOM), (96, "float64", ROOM)],
    }
    groups[3].append((46, "float32", 1e-4))
    for rank, cases in groups.items():
        queries = np.random.default_rng(0).uniform(-1, 1, (16_000, rank))
        contestants, cells = [], []
        for count, dtype, room in cases:
            network = bank(count, rank, dtype)
            run = evaluated(network, rank, room)
            found: Any = run.banks[0]
            window = " x ".join(str(axis.width) for axis in found.axes)
            error = error_of(whole(run), rank)
            cells.append(f"{rank} | {count**rank} | {dtype} | {room:g} | {window} | {found.values.dtype} | {error:.1e}")
            dense = max(2, min(10_000, 400_000 // count**rank))
            contestants += [
                Contestant("fast", whole(run)),
                Contestant("SDPA", dense_torch(network), dense),
            ]
        found = rates(contestants, queries)
        for cell, mine, theirs in zip(cells, found[::2], found[1::2], strict=True):
            lines.append(f"| {cell} | {mine:.2e} | {theirs:.2e} | {mine / theirs:.0f} |")
    return lines


def circuits() -> list[str]:
    """Networks of several layers beside their PyTorch modules."""
    head = "| formula | heads | tokens | queries/s | queries/s, PyTorch | ratio |"
    lines = ["", "## Circuits", "", head, "|---" * 6 + "|"]
    for text, names in (("x*exp(-y*z)/(1 + z**2)", "xyz"), ("log(1 + a*b + c*d)*sqrt(1 + e)", "abcde")):
        net = af.compile(text, dict.fromkeys(names, (0, 1)), 1e-6, construction="circuit")
        module = net.to_torch()

        def dense(points: np.ndarray, module: Any = module) -> Any:
            with torch.no_grad():
                return module(torch.tensor(points))

        queries = np.random.default_rng(0).uniform(0, 1, (16_000, len(names)))
        mine, theirs = rates([Contestant("fast", net), Contestant("PyTorch", dense, 1000)], queries)
        size = f"{net.network.heads} | {net.network.tokens}"
        lines.append(f"| `{text}` | {size} | {mine:.2e} | {theirs:.2e} | {mine / theirs:.0f} |")
    return lines


def cubic_splines(count: int) -> Callable[[np.ndarray], Any]:
    """What RegularGridInterpolator(cubic) evaluates, on count³ nodes; its own solver does not get that far."""
    nodes = np.linspace(-1, 1, count)
    factors = [make_interp_spline(nodes, wave(nodes, k), 3) for k in range(3)]
    return NdBSpline(tuple(f.t for f in factors), np.einsum("i,j,k->ijk", *(f.c for f in factors)), 3)


def padded_splines(count: int) -> Callable[[np.ndarray], Any]:
    """`map_coordinates` on count³ nodes and some beyond the domain, filtered beforehand."""
    spacing = 2 / (count - 1)
    nodes = -1 + spacing * (np.arange(count + 2 * PADDING) - PADDING)
    coefficients = np.einsum("i,j,k->ijk", *(spline_filter1d(wave(nodes, k), 3) for k in range(3)))

    def call(points: np.ndarray) -> np.ndarray:
        return map_coordinates(coefficients, ((points + 1) / spacing + PADDING).T, order=3, prefilter=False)

    return call


def fine_enough(make: Callable[[int], Callable[[np.ndarray], Any]]) -> int:
    """Nodes along an axis for which a spline is accurate enough."""
    count = 46
    while (error := error_of(make(count), 3, 5000)) > ACCURACY:
        count = max(count + 4, int(count * (error / ACCURACY) ** 0.24))
    return count


def barycentric() -> tuple[int, BarycentricInterpolator]:
    """The least polynomial with the accuracy of the compiled function."""
    for count in range(8, 60):
        nodes = np.cos(np.linspace(0, np.pi, count))
        found = BarycentricInterpolator(nodes, wave(nodes, 0))
        if error_of(lambda points, found=found: found(points[:, 0]), 1) <= 2e-9:
            return count, found
    raise AssertionError


def peers() -> list[str]:
    """SciPy in three variables and in one, with the error of each."""
    sites = np.random.default_rng(1).uniform(-1, 1, (8000, 3))
    scattered = RBFInterpolator(sites, smooth(sites), neighbors=60, kernel="quintic")
    cubic, padded = fine_enough(cubic_splines), fine_enough(padded_splines)
    run = evaluated(bank(46, 3), 3, ROOM)
    three = [
        Contestant("attention, 46³ tokens", whole(run)),
        Contestant("RegularGridInterpolator(cubic), 46³ nodes", cubic_splines(46), 5000),
        Contestant(f"RegularGridInterpolator(cubic), {cubic}³ nodes", cubic_splines(cubic), 2000),
        Contestant("map_coordinates(order=3), 46³ nodes", padded_splines(46), 5000),
        Contestant(f"map_coordinates(order=3), {padded}³ nodes", padded_splines(padded), 2000),
        Contestant("RBFInterpolator(quintic, neighbors=60), 8000 sites", scattered, 200),
    ]
    net = af.compile("sin(7*x)", {"x": (-1, 1)}, 1e-8)
    degree, polynomial = barycentric()
    nodes = np.linspace(-1, 1, 500)
    spline = CubicSpline(nodes, wave(nodes, 0))
    one = [
        Contestant(f"attention, {net.network.tokens} tokens, proved to 1e-8", lambda p: net(p[:, 0])),
        Contestant(f"BarycentricInterpolator, {degree} nodes", lambda p: polynomial(p[:, 0])),
        Contestant(f"CubicSpline, {len(nodes)} nodes", lambda p: spline(p[:, 0])),
    ]
    lines = [
        "",
        "## Beside interpolation",
        "",
        f"The error is the largest found at random points. Splines are also shown with as many nodes as an accuracy of "
        f"{ACCURACY:g} takes (their coefficients are found axis by axis, because the function is a product; "
        f"`map_coordinates` has {PADDING} nodes more at either side).",
    ]
    for title, contestants, rank in (("Three variables", three, 3), ("One variable", one, 1)):
        lines += ["", f"{title}:", "", "| method | error | queries/s |", "|---|---|---|"]
        queries = np.random.default_rng(0).uniform(-1, 1, (16_000, rank))
        for each, rate in zip(contestants, rates(contestants, queries), strict=True):
            lines.append(
                f"| {each.name} | {error_of(each.call, rank, 200 if each.count < 1000 else 20_000):.1e} | {rate:.2e} |"
            )
    return lines


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
    for size in (2**11, 2**15, 2**24):
        numbers, rounds = np.ones(size), max(1, 2**20 // size)
        call = Contestant("limit", lambda _, numbers=numbers, rounds=rounds: _products(numbers, rounds), rounds * size)
        speeds.append(rates([call], np.zeros(rounds * size), 40)[0])
    lines = [
        "",
        "## Roofline",
        "",
        f"One processor, the best of short turns: {speeds[0]:.1e} multiply-adds a second with one load each from the "
        f"first cache ({8 * speeds[0] / 1e9:.0f} GB/s), {speeds[1]:.1e} from the second "
        f"({8 * speeds[1] / 1e9:.0f} GB/s), {speeds[2]:.1e} from main memory ({8 * speeds[2] / 1e9:.1f} GB/s). A query "
        "loads and multiplies each value of its window once, in whole vectors, and takes 18 operations for an "
        "exponential. The limit is that of the first cache for float64; values held in float32 take half the bytes.",
        "",
        "| bank | multiply-adds, exponentials | bytes of values | queries/s at most | queries/s, one thread | share |",
        "|---" * 6 + "|",
    ]
    for count, rank, room in ((1024, 1, 1e-8), (128, 2, 1e-8), (46, 3, 1e-8), (46, 3, ROOM)):
        found: Any = evaluated(bank(count, rank), rank, room).banks[0]
        widths = [axis.width for axis in found.axes]
        widths[-1] = -(-widths[-1] // found.lanes) * found.lanes
        products, exponentials = int(np.prod(widths)), sum(widths)
        most = speeds[0] / (products + 9 * exponentials)
        queries = np.random.default_rng(0).uniform(-1, 1, (20_000 if rank < 3 else 2000, rank))
        rate = rates([Contestant("bank", found)], queries, 40)[0]
        lines.append(
            f"| {count}^{rank}, room {room:g}, {found.values.dtype} | {products}, {exponentials} | "
            f"{products * found.values.itemsize} | {most:.1e} | {rate:.1e} | {100 * rate / most:.0f} % |"
        )
    return lines


def memory(count: int) -> list[str]:
    """A saved layer of count³ tokens whose keys never exist, and a million queries, in a process of its own."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, __file__, "--largest", str(count), "--memory"], check=True, capture_output=True, text=True
    )
    return ["", "## Memory", "", done.stdout.strip()]


def large_layer(count: int) -> str:
    """What `memory` says."""
    slopes, offsets, _, _ = axis_of(count)
    axes = np.tile(slopes, 3), np.tile(offsets, 3)
    values, one = grid_values(count, 3)[:, None], np.ones((1, 1, 1))
    layer = FactoredAttention(np.eye(3)[None], np.zeros((1, 3)), *axes, values, one, np.zeros(1), (count,) * 3)
    del values
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.safetensors"
        storage.write(file, *storage.pack(Network((layer,), 1)))
        size = file.stat().st_size
        del layer
        saved = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        network = storage.unpack(*storage.read(file))
    run = evaluated(network, 3, ROOM)
    call, queries = whole(run), np.random.default_rng(0).uniform(-1, 1, (1_000_000, 3))
    call(queries[:100])
    began = time.process_time()
    call(queries)
    rate = len(queries) / (time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (
        f"A network with one factored layer of {count}³ = {count**3:.1e} tokens, room {ROOM:g}: a file of "
        f"{size / 2**20:.0f} MiB (dense keys would be {32 * count**3 / 2**20:.0f} MiB more). Saved, loaded and asked a "
        f"million queries in one call: {rate:.2e} queries/s, error {error_of(call, 3):.1e}, peak memory of the process "
        f"{saved / 2**10:.0f} MiB after saving and {peak / 2**10:.0f} MiB at the end."
    )


def start() -> list[str]:
    """How long the command line and the import take, in seconds of processor time."""

    def seconds(program: str) -> float:
        best = np.inf
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)  # noqa: S603
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return best

    work = ["compile", "sin(10*x)", "--domain", "x=-1:1", "--eps", "1e-8"]
    program = f"import sys; sys.argv = ['attnfun', *{work!r}]; from attnfun.cli import main; main()"
    return [
        "",
        "## Start",
        "",
        "Seconds of processor time, the best of 5, caches warm: "
        f"`import attnfun` {seconds('import attnfun'):.2f}, "
        f'`attnfun compile "sin(10*x)"` to 1e-8 with its proof {seconds(program):.2f}.',
    ]


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=464, help="tokens along each of three axes of the largest bank")
    parser.add_argument("--memory", action="store_true", help="make that bank, and print what it takes")
    asked = parser.parse_args()
    if asked.memory:
        sys.stdout.write(large_layer(asked.largest) + "\n")
        return
    lines = [
        "# Fast evaluation",
        "",
        "One run of `python benchmarks/kernels.py` on a machine shared with other work. Every contestant has one "
        "thread; rates are queries in a second of processor time, the best of several turns. Large batches of ours go "
        f"to all processors, here {processors()}.",
        "",
    ]
    torch.set_num_threads(1)
    RESULTS.parent.mkdir(exist_ok=True)
    for section in (growth, circuits, limits, peers, start, lambda: memory(asked.largest)):
        found = section()
        sys.stderr.write("\n".join(found) + "\n")
        lines = lines + found
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
