"""Every execution of a network on one input, in any order of summation, as one form in noise symbols [T 10.9].

A network is run once, in float64. What any other execution holds is what the run holds and `D ε`, for some symbols
`|ε_k| <= 1`; D goes through the derivatives of the layers, and every number of a layer gets one new symbol for what
its rounding and its curvature may add. Symbols are the same wherever they occur, so a layer that forgets an error, as
a step of an iteration does, takes it out of D.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import sum_error
from ..arithmetic.formats import FORMATS, Format
from ..arithmetic.rounding import (
    MOST_ROUNDINGS,
    OWN,
    all_orders,
    linear_error,
    score_error,
    sums_in_play,
    weight_doubt,
    with_sum,
)
from ..errors import ProofFailed
from ..network import Affine, Attention, Network
from ..network.stock import EXACT, stock_size
from ..resources.deadline import NEVER, Deadline

Floats = npt.NDArray[np.float64]

RUN = FORMATS["float64"]
"""In which the run is made that others are compared with."""
FAR = 650.0
"""Tokens that are so far behind in every execution have no weight: less than e^-600."""
MOST_MOVED = 0.25
"""Scores that move more, or are off more, are not followed."""
GRAIN = 1e-280
"""Added to every bound that is not zero, for products that underflow in computing it."""
DENSE = 6
"""Symbols for each number that varies, at most."""


@dataclass(frozen=True, eq=False)
class Executions:
    """What all executions hold after a layer: `centre + D ε`, (n, d) and (n, d, K)."""

    centre: Floats
    D: Floats

    @property
    def reach(self) -> Floats:
        """How far an execution may be from the run, (n, d)."""
        return all_orders(np.abs(self.D).sum(axis=2))


@np.errstate(all="ignore")  # what is not finite is refused
def executions(network: Network, rows: Floats, deadline: Deadline = NEVER) -> Executions:
    """All executions on rows (n, d), which must be numbers of the format; ProofFailed where they cannot be followed."""
    state, format_ = Executions(rows, np.zeros((*rows.shape, 0))), FORMATS[network.dtype]
    if format_.store:
        raise ProofFailed(
            "executions of a network can be followed where kernels store numbers as they add them",
            got=network.dtype,
            remedy="Take float64 or float32.",
        )
    for number, layer in enumerate(network.layers, start=1):
        deadline.check("following the network")
        match layer:
            case Affine():
                state, largest = _affine(layer, state, format_)
            case Attention() if not layer.keyed:
                state, largest = _attention(layer, state, format_)
            case _:
                largest = inf
        if not (largest <= format_.largest / 4 and np.isfinite(state.D).all()):
            raise ProofFailed(
                "certify() needs a network whose numbers stay small and whose scores are known closely",
                got=f"numbers of up to {largest:.3g} in layer {number} ({layer.kind}) in {network.dtype}",
                remedy="Take float64, or fewer steps.",
            )
    return state


def _next(state: Executions, centre: Floats, moved: Floats, off: Floats) -> Executions:
    """The form after a layer: `moved`, and a symbol for each number that may be `off`."""
    off = np.where(off == 0, 0.0, np.where(np.isnan(off), inf, all_orders(off) + GRAIN))
    places = np.argwhere(off > 0)
    fresh = np.zeros((*off.shape, len(places)))
    fresh[places[:, 0], places[:, 1], np.arange(len(places))] = off[places[:, 0], places[:, 1]]
    D = np.concatenate([moved, fresh], axis=2)
    D = D[:, :, ~(np.abs(D).sum(axis=(0, 1)) == 0)]
    most = DENSE * int((np.abs(D).sum(axis=2) > 0).sum())
    if D.shape[2] <= most:
        return Executions(centre, D)
    order = np.argsort(-np.abs(D).sum(axis=(0, 1)), kind="stable")
    kept, rest = D[:, :, order[: most // 2]], np.abs(D[:, :, order[most // 2 :]]).sum(axis=2)
    return _next(state, centre, kept, rest)


def _linear(sizes: Floats, result: Floats, weight: Floats, bias: Floats, format_: Format) -> Floats:
    """What `x W + b` is off as computed, for |x| and |x W + b| of at most these sizes [T 10.1]."""
    return linear_error(np.zeros((*sizes.shape, 2)), sizes, weight, bias, format_, result)[..., OWN]


def _affine(layer: Affine, state: Executions, format_: Format) -> tuple[Executions, float]:
    """`x W + b` of each row, or `Σ_k A_k X B_k + C`."""
    right, X, reach = layer.right, state.centre, state.reach
    if layer.left is None:
        out, moved = X @ right[0] + layer.constant, np.einsum("ifk,fg->igk", state.D, right[0])
        spread, sizes = reach @ np.abs(right[0]), np.abs(X)
        off = _linear(sizes + reach, np.abs(out) + 2 * spread, right[0], layer.constant[0], format_)
        off = off + _linear(sizes, all_orders(np.abs(out)), right[0], layer.constant[0], RUN)
        largest, terms = float(((sizes + reach) @ np.abs(right[0]) + np.abs(layer.constant)).max()), len(X[0])
    else:
        out = np.einsum("kni,if,kfg->ng", layer.left, X, right) + layer.constant
        moved = np.einsum("kni,ifs,kfg->ngs", layer.left, state.D, right)
        spread, sizes = (
            np.einsum("kni,if,kfg->ng", np.abs(layer.left), part, np.abs(right)) for part in (reach, np.abs(X) + reach)
        )
        terms = layer.left[:, 0].size + right[..., 0].size + 1
        total = (sizes + np.abs(layer.constant))[..., None] * [0.0, 1.0]
        off = sum(
            with_sum(0 * total, total[..., 1], np.full(out.shape, terms), each)[..., OWN] for each in (format_, RUN)
        )
        largest = float(total.max())
    return _next(state, out, moved, off + sum_error(spread, 2 * (terms + 4))), largest


@dataclass(frozen=True, eq=False)
class _Projection:
    """Queries, keys or values of one head: as run, how far executions may be, and what both are off."""

    run: Floats
    reach: Floats
    off: Floats
    run_off: Floats

    @classmethod
    def of(cls, X: Floats, reach: Floats, weight: Floats, bias: Floats, format_: Format) -> _Projection:
        run, spread, sizes = X @ weight + bias, all_orders(reach @ np.abs(weight)), np.abs(X)
        off = _linear(sizes + reach, np.abs(run) + 2 * spread, weight, bias, format_)
        return cls(run, spread, off, _linear(sizes, all_orders(np.abs(run)), weight, bias, RUN))

    @property
    def sizes(self) -> Floats:
        """Sizes of what executions hold."""
        return all_orders(np.abs(self.run) + self.reach + self.off + self.run_off)


def _scores_off(q: Floats, k: Floats, q_off: Floats, k_off: Floats, layer: Attention, format_: Format) -> Floats:
    """A_j for queries and keys of these sizes, which are off themselves, (n, T) [T 10.2]."""
    products, carried = q @ k.T, q_off @ (k + k_off).T + q @ k_off.T
    terms = (q > 0).astype(np.float64) @ (k > 0).T.astype(np.float64)
    features = q.sum(axis=1)[:, None] + k.sum(axis=1)
    scaling = 0 if stock_size(layer) in (1, EXACT) else 4
    return carried + score_error(terms * products, products, products, carried, features, scaling, format_)


def _beside_leader(each: Floats, weights: Floats, live: npt.NDArray[np.bool_]) -> Floats:
    """Errors of scores (n, T) relative to the token with the largest weight, if they are smaller so [T 10.7]."""
    first = weights.argmax(axis=1)[:, None] == np.arange(each.shape[1])  # (n, T)
    beside = np.where(first, 0.0, each + np.where(first, each, 0.0).sum(axis=1, keepdims=True))
    better = np.where(live, beside, 0.0).max(axis=1) < np.where(live, each, 0.0).max(axis=1)
    return np.where(better[:, None], beside, each)


def _attention(layer: Attention, state: Executions, format_: Format) -> tuple[Executions, float]:
    """Self-attention, or attention to memory."""
    X, reach = state.centre, state.reach
    n, keys = len(X), len(X) * layer.attends_data + len(layer.memory)
    memory = layer.memory.shape
    T = np.concatenate([X, layer.memory]) if layer.attends_data else layer.memory
    T_reach = np.concatenate([reach, np.zeros(memory)]) if layer.attends_data else np.zeros(memory)
    written = np.flatnonzero((layer.output != 0).any(axis=(0, 1)))
    varies = np.argwhere(reach > 0)
    slopes = np.zeros((n, len(written), *X.shape))  # J without the residual
    averages, reaches, offs, run_offs, curved = (list[Floats]() for _ in range(5))
    largest = float(np.abs(X).max() + reach.max())
    for h in range(layer.heads):
        q = _Projection.of(X, reach, layer.query[h], layer.query_bias[h], format_)
        k = _Projection.of(T, T_reach, layer.key[h], layer.key_bias[h], format_)
        v = _Projection.of(T, T_reach, layer.value[h], layer.value_bias[h], format_)
        scores = q.run @ k.run.T  # (n, T)
        behind = scores.max(axis=1, keepdims=True) - scores
        # how far scores move, and what they are off
        bent = q.reach @ k.reach.T + q.reach @ k.run_off.T + q.run_off @ k.reach.T  # σ
        every = np.abs(q.run) @ k.reach.T + q.reach @ np.abs(k.run).T + bent
        here = _scores_off(q.sizes, k.sizes, q.off, k.off, layer, format_)
        ours = _scores_off(np.abs(q.run), np.abs(k.run), q.run_off, k.run_off, layer, RUN)
        rough = all_orders((every + 4 * (here + ours)).max(axis=1, keepdims=True)) + 1
        live = behind <= FAR + 4 * rough
        weights = np.where(live, np.exp(-np.where(live, behind, 0.0)), 0.0)
        weights = weights / weights.sum(axis=1, keepdims=True)
        average = weights @ v.run  # (n, v)
        far = all_orders(behind + 2 * every.max(axis=1, keepdims=True)) + 1
        moves, here, ours = (_beside_leader(each, weights, live) for each in (every, here, ours))
        doubts, run_doubts = (
            weight_doubt(each, each.max(axis=1, keepdims=True), far, keys, arithmetic)
            for each, arithmetic in ((here, format_), (ours, RUN))
        )
        tau, H, H_run = (np.where(live, each, 0.0).max(axis=1, keepdims=True) for each in (moves, doubts, run_doubts))
        followed = (tau <= MOST_MOVED) & (H <= MOST_MOVED) & (H_run <= MOST_MOVED)  # (n, 1)
        followed &= keys * format_.unit <= MOST_ROUNDINGS
        E = np.exp(2 * (tau + H + H_run))
        # what averages are off: of the run, and of an execution at what it holds
        apart = np.abs(v.run - average[:, None])  # (n, T, v)
        spread = np.einsum("ij,ijv->iv", weights, apart)
        sizes, reaches_v, v_off, v_run = (
            weights @ part for part in (v.sizes, v.reach, v.off + v.run_off, v.run_off)
        )  # (n, v)
        lost = keys * 2.0**-700 * (1 + v.sizes.max(axis=0, initial=0.0))
        grown = E * np.einsum("ij,ijv->iv", weights * np.expm1(run_doubts * live), apart)
        run_off = grown + E * v_run + _sums(E * sizes, keys, RUN) + lost
        moved = E * (np.expm1(2 * tau) * (spread + v_run) + reaches_v) + 2 * run_off
        drawn = np.einsum("ij,ijv->iv", weights * np.expm1(doubts * live), apart)
        drawn = drawn + np.expm1(H) * (reaches_v + v_run + moved)
        off = E * (drawn + v_off) + _sums(E * sizes, keys, format_) + lost
        # what the average is not linear in what moves
        curvature = np.einsum("ij,ijv->iv", weights * bent, apart)
        curvature += np.exp(2 * H_run) * (2 * H_run * tau + 2 * tau**2 * np.exp(2 * tau)) * (spread + v_run + run_off)
        curvature += np.expm1(2 * (tau + H + H_run)) * reaches_v + 2 * E * tau * (v_run + run_off) + lost
        curvature += 2 * every.max(axis=1, keepdims=True) * (run_off + _sums(sizes, keys, RUN))
        first = np.einsum("ij,ijv->iv", weights * every, apart) + reaches_v
        roundings = keys + q.run.shape[1] + len(layer.output[0]) * layer.heads + len(varies) + 32
        curvature += sum_error(first, 2 * roundings)
        averages.append(average)
        reaches.append(moved)
        offs.append(np.where(followed, off, inf))
        run_offs.append(run_off)
        curved.append(curvature)
        root = sqrt(stock_size(layer))
        largest = max(largest, root * float(np.abs(layer.query[h]).max(initial=0.0)))  # held so in stock attention
        met = (
            root * q.sizes.max(),
            k.sizes.max(),
            2 * root * (q.sizes @ k.sizes.T).max(),
            keys * v.sizes.max(initial=0.0),
        )
        largest = max(largest, *(float(each) for each in met))
        # the slope
        out = layer.output[h][:, written]  # (v, o)
        centred = weights[..., None] * (v.run - average[:, None])  # (n, T, v)
        own = np.einsum("vo,ivk,gk->iog", out, np.einsum("ijv,jk->ivk", centred, k.run), layer.query[h])
        slopes[np.arange(n), :, np.arange(n)] += own
        if layer.attends_data:
            slopes += np.einsum("ij,og->iojg", weights[:, :n], (layer.value[h] @ out).T)
            slopes += np.einsum("ijo,ig->iojg", centred[:, :n] @ out, q.run @ layer.key[h].T)
    averages, reaches, offs, run_offs, curved = (
        np.concatenate(each, axis=1) for each in (averages, reaches, offs, run_offs, curved)
    )  # (n, H v)
    flat, bias = layer.output.reshape(-1, layer.width_out), layer.output_bias
    added = averages @ flat + bias
    total, held = added + X * layer.residual, np.abs(added) + (reaches + run_offs) @ np.abs(flat)
    touched = (np.abs(averages) + reaches + offs) @ np.abs(flat) + np.abs(bias) > 0
    none = np.zeros((*averages.shape, 1))
    off = np.zeros(total.shape)
    for arithmetic, carried, moves in ((format_, offs, reaches), (RUN, run_offs, 0 * reaches)):
        error = np.concatenate([none, carried[..., None]], axis=2)
        error = linear_error(error, np.abs(averages) + moves, flat, bias, arithmetic, all_orders(held))
        if layer.residual:
            sizes = all_orders(np.abs(total) + 2 * held + reach) * touched
            error = np.where(touched[..., None], with_sum(error, sizes, np.array(1), arithmetic), error)
        off = off + error[..., OWN]
    off = off + curved @ np.abs(flat)
    largest = max(largest, float(((np.abs(averages) + reaches) @ np.abs(flat) + np.abs(bias) + np.abs(total)).max()))
    D = state.D[varies[:, 0], varies[:, 1]]  # (a, K)
    moved = np.zeros((*total.shape, state.D.shape[2])) if not layer.residual else state.D.copy()
    moved[:, written] += np.einsum("ioa,ak->iok", slopes[:, :, varies[:, 0], varies[:, 1]], D)
    off = off + sum_error(np.abs(moved).sum(axis=2), 2) * touched
    return _next(state, total, moved, off), largest


def _sums(sizes: Floats, keys: int, format_: Format) -> Floats:
    """Rounding of the sums of an average of numbers whose sizes average to this [T 10.2]."""
    small = 2 * keys * format_.tiny * (1 + sizes)
    return sums_in_play(np.array(keys), sizes, keys, format_) + small
