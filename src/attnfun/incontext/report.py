"""How far each layer's iterate is from that of the exact algorithm, and a bound on it, for least squares and ridge.

The exact algorithm is that of `least_squares.py` in extended precision: G and b from the centred examples, then P, V
and w. Norms are Frobenius norms; Δ denotes the error of what the network holds, in a row or in its mirror image.

**Bound.** A product Σ_k A_jk B_k by the read-out errs, entry by entry, by at most `ε (|A||B|)_jk + ρ Σ_k |B_k|`
(`Errors`): ε is the truncation, and ρ the rounding of all heads in any order of summation, for averages that err by
at most θ, relative to the sizes of what is averaged [T 10.2]. Then, with R = I - P, ‖R‖ ≤ 1 as an operator, and e the
error of the product just made,

    centre   |Δx| ≤ (n + 8) u max|x|
    gather   ‖ΔG‖ ≤ e + ‖ 2 |Δx| mean|x| + |Δx|² ‖,  Δb alike;      ΔP = ΔG/c,  ΔV = u ‖V‖
    double   ‖ΔP‖ <- 2 ‖R‖₂ ‖ΔP‖ + ‖ΔP‖² + e,   ‖ΔV‖ <- (1 + ‖R‖₂) ‖ΔV‖ + ‖ΔP‖ (‖V‖ + ‖ΔV‖) + e
    solve    ‖Δq‖ = ‖G‖₂ ‖Δw‖ + ‖ΔG‖ ‖w‖ + e
             ‖Δw‖ <- ‖I - V G‖₂ ‖Δw‖ + ‖ΔV‖ ‖r‖ + (‖V‖₂ + ‖ΔV‖)(‖Δb‖ + ‖ΔG‖ ‖w‖ + e_q) + e,     r = b - q.

The line for P holds since (P+Δ) + (I-P-Δ)(P+Δ) = P + RP + ΔR + RΔ - Δ²; the others are first differences, too. What the
network holds stands in place of exact iterates in the norms, plus its error. ∎
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, inf
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import rounded_up
from ..arithmetic.rounding import all_orders, average_error
from ..look.plots import plot_convergence
from ..network import Attention, Network
from ..runtime.backends import prompts
from .least_squares import REFINEMENTS, registers_for
from .precision import Precision, precision_of
from .prompt import REACH, Prompt
from .readout import richardson, truncation
from .registers import Registers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Iterate:
    """What one layer left in a register: how far from exact, and how far at most."""

    layer: int
    register: str
    distance: float
    bound: float
    size: float
    """Norm of the exact iterate."""
    added: float | None = None
    """Bounds what the last step alone adds to the distance, where that is known."""


@dataclass(frozen=True)
class Report:
    """The iterates in the order of the layers; prints as a table."""

    iterates: tuple[Iterate, ...]

    def __str__(self) -> str:
        lines = [f"{'layer':>5}  {'':8}  {'distance':>9}  {'bound':>9}  {'size':>9}  {'in step':>9}"]
        lines += [
            f"{i.layer:5}  {i.register:8}  {i.distance:9.2e}  {i.bound:9.2e}  {i.size:9.2e}"
            + ("" if i.added is None else f"  {i.added:9.2e}")
            for i in self.iterates
        ]
        return "\n".join(line.rstrip() for line in lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Distances and bounds against layers; saved if `path` is given."""
        return plot_convergence(self, path)


@dataclass(frozen=True)
class Errors:
    """Bounds for one read-out: truncation ε, rounding ρ for scores of at most `reach` that stand for `largest`."""

    precision: Precision
    width: int
    keys: int

    def of(self, A: Array, B: Array, *, largest: float = 1.0, data: bool = False) -> float:
        """Norm of the error of A B, A (., k), B (k, .), values over `keys` rows."""
        return norm(self.entries(A, B, largest=largest, data=data))

    def entries(
        self, A: Array, B: Array, *, largest: float = 1.0, data: bool = False, far: float = 0.0
    ) -> npt.NDArray[np.float64]:
        """The error of A B entry by entry; `data` for sums over examples.

        `far` is for sums over the features of examples, the rows of A: it bounds their entries.
        """
        reach = self.precision.data_reach * (far / REACH if far else 1.0) if data or far else self.precision.reach
        epsilon = truncation(self.precision.heads, reach, 1 / REACH if data else 1.0)
        A, B = np.abs(np.asarray(A, dtype=np.float64)), np.abs(np.asarray(B, dtype=np.float64))
        return epsilon * (A @ B) + self.noise(largest, data=data or far > 0) * B.sum(axis=0)[None]

    def noise(self, largest: float, *, data: bool) -> float:
        """ρ, for entries of A of at most `largest`."""
        precision = self.precision
        reach, heads = precision.data_reach if data else precision.reach, precision.heads
        farthest = heads * reach
        theta = float(average_error(farthest, self.width, self.keys, self.keys, precision.format))
        one = all_orders(theta + 2 * (8 + 2 * heads) * precision.unit) * exp(2 * farthest)
        return one * largest / reach * sum(abs(float(a)) / h for h, a in enumerate(richardson(heads), 1))


def norm(A: Array) -> float:
    """The Frobenius norm."""
    return float(np.sqrt(np.square(np.asarray(A, dtype=np.float64)).sum()))


def operator_norm(A: Array) -> float:
    """Bounds the largest singular value, by ‖A‖² = ‖AᵀA‖ and ‖B‖ ≤ ‖B^k‖_F^(1/k) for symmetric B: within p^(1/64).

    A product of n terms is off by at most n u ‖A‖_F² in norm, and ‖A‖_F² <= p ‖AᵀA‖: np roundings, of which later
    squarings count for half, a quarter and so on.
    """
    size = norm(A)
    if size == 0 or not size < inf:
        return size
    power = np.asarray(A / size, dtype=np.float64)
    power, scale = power.T @ power, 1.0
    for squarings in range(5):
        here = norm(power)
        scale *= here**0.5**squarings
        power = (power / here) @ (power / here)
    found = size * float(np.sqrt(scale * norm(power) ** 0.5**5))
    return rounded_up(found, 8 * max(A.shape) * A.shape[1] + 64)


@np.errstate(over="ignore", invalid="ignore")  # hopeless bounds are infinite
def report(network: Network, prompt: Prompt) -> Report:
    """Run a network of `least_squares.py` layer by layer beside the exact algorithm. Cost: that of a forward pass."""
    p, m, precision = prompt.features, len(prompt.units.y), precision_of(network.dtype)
    place, u, found = registers_for(p, m), precision.unit, list[Iterate]()
    walk = states(network, prompt, place)
    errors, sums = Errors(precision, p, 2 * p), Errors(precision, p, len(prompt.rows))

    def record(name: str, truth: Array, bound: float) -> None:
        rows = held[:, place[name]]
        pair = [(rows[::2] - rows[1::2]) / 2] if name == "w" else [rows[::2], -rows[1::2]]
        known = bound if bound < inf else inf  # neither overflow nor nan
        found.append(Iterate(number, name, max(norm(side - truth) for side in pair), known, norm(truth)))

    number, held = next(walk)
    X, y, count, rough = examples(prompt, place, u)  # X and y with the rows that stand for the penalty, (n + p, .)
    G, b = X[0].T @ X[1] / count, X[0].T @ y / count
    dG = sums.of(X[0].T, X[1] / count, largest=REACH, data=True) + norm(rough * _outer(X[0], X[1], count))
    db = sums.of(X[0].T, y / count, largest=REACH, data=True) + norm(rough * np.abs(y).sum(axis=0) / count) * p**0.5
    record("G", G, dG)
    record("b", b, db)
    c, one = 2.0 * p, np.eye(p, dtype=np.longdouble)
    P, V, dP, dV = G / c, one / c, dG / c + u * norm(G / c), u * norm(one / c)
    doublings = len(network.attention) - 2 * REFINEMENTS - 1 - prompt.intercept
    for _ in range(doublings):
        number, held = next(walk)
        R = one - P
        r = min(1.0, operator_norm(R))  # the exact R is a power of a matrix with eigenvalues from 0 to 1
        eP, eV = errors.of(np.abs(R) + dP, np.abs(P) + dP), errors.of(np.abs(R) + dP, np.abs(V) + dV)
        dV = (1 + r) * dV + dP * (norm(V) + dV) + eV
        dP = 2 * r * dP + dP**2 + eP
        P, V = P + R @ P, V + R @ V
        dP, dV = dP + 2 * u * (norm(P) + dP), dV + 2 * u * (norm(V) + dV)
        record("P", P, dP)
        record("V", V, dV)
    top = 2.0**doublings / c
    left = min(1.0, operator_norm(one - P))  # I - V G
    w, q, dw, eq = np.zeros_like(b), np.zeros_like(b), 0.0, 0.0
    for use in range(REFINEMENTS):
        if use:
            number, held = next(walk)
            q, eq = G @ w, errors.of(np.abs(G) + dG, np.abs(w) + dw, largest=2.0)
        number, held = next(walk)
        rest = np.abs(b - q) + db + eq + dG * (norm(w) + dw) + operator_norm(G) * dw  # bounds |b - q| as held
        e = errors.of(np.abs(V) + dV, rest, largest=top)
        off = db + dG * (norm(w) + dw) + eq
        dw = left * dw + dV * norm(rest) + (operator_norm(V) + dV) * off + e
        w = w + V @ (b - q)
        dw += 2 * u * (norm(w) + dw)
        record("w", w, dw)
    return Report(tuple(found))


def states(network: Network, prompt: Prompt, place: Registers) -> Iterator[tuple[int, Array]]:
    """Numbers of the attention layers from the first sums on, and the state rows after them."""
    rows, dtype, number = prompt.rows[None].astype(network.dtype), network.dtype, 0
    for layer in network.layers[:-2]:  # up to the predictions
        rows = prompts.apply(layer, rows, prompts.in_dtype(layer, dtype))
        if isinstance(layer, Attention):
            number += 1
            if not layer.output[:, :, place["x"]].any():
                yield number, rows[0, : 2 * prompt.features].astype(np.longdouble)


def examples(prompt: Prompt, place: Registers, u: float) -> tuple[tuple[Array, Array], Array, int, float]:
    """Keys and values of the rows that count, their targets, their number, and a bound on the error of centring."""
    p, n = prompt.features, prompt.examples
    rows = prompt.rows.astype(np.longdouble)
    state, data = rows[: 2 * p : 2], rows[2 * p + 1 : 2 * p + 1 + 2 * n : 2]  # without mirror images
    X = data[:, place["x"]].copy()  # (n, p)
    rough = float(np.abs(X).max()) * (n + 8) * u
    if prompt.intercept:
        X[:, :-1] -= X[:, :-1].mean(axis=0)
    counts = state[:, place["counts"]].any()
    keys, values = [X, state[:, place["e"]] * counts], [X, state[:, place["penalty"]]]
    y = np.concatenate([data[:, place["y"]], state[:, place["y"]]])  # (n + p, m)
    return (np.concatenate(keys), np.concatenate(values)), y, n + p * int(counts), rough


def _outer(A: Array, B: Array, count: int) -> Array:
    """mean |a_j| + mean |b_k|, by which a common error of all a and b is multiplied, and some more for its square."""
    return all_orders(np.abs(A).sum(axis=0)[:, None] + np.abs(B).sum(axis=0)[None]) / count
