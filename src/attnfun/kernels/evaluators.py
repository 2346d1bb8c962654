"""A network made ready to run: its banks recognised, its layers applied block by block on all processors.

The arithmetic is that of `backends/numpy.py` but for the averages over memory tokens, which are computed in float64
whatever the network's dtype is. What comes out for one sequence does not depend on the others of its batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ..backends import numpy as plain
from ..domain import Box
from ..dtypes import held_in, round_to
from ..network import Attention, Network
from ..network.layers import Layer
from .allowance import rooms
from .banks import Bank, Moments, Tokens, recognised
from .features import Features, linear

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BLOCK = 2**16
"""Numbers in the largest temporary array."""
LEAST_SHARE = 2**13
"""Sequences that are worth a thread of their own."""


@dataclass(frozen=True, eq=False)
class Ask:
    """Tokens that ask one head with the same constants: their bank, and which query features they bring along."""

    head: int
    asking: Integers  # positions of tokens
    features: Integers  # query features that vary
    bank: Bank

    def queries(self, q: Array) -> Floats:
        """The features that vary, for a bank: (b, a, k) -> (b a, r)."""
        count = q.shape[0] * q.shape[1]
        return np.ascontiguousarray(q[..., self.features].reshape(count, len(self.features)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Step:
    """A layer with its weights in the deployed dtype, and its banks where it has memory."""

    layer: Layer
    weights: dict[str, Array]
    asks: tuple[Ask, ...]


class Evaluator:
    """`evaluator(X)` for sequences (B, n, d) -> (B, n', d'); errors up to `allowance` may be made to save work."""

    def __init__(self, network: Network, domain: Box, allowance: float = 0.0) -> None:
        self.network, self.dtype = network, held_in(network.dtype)
        self.steps = list(_steps(network, domain, allowance, self.dtype))
        self.rows = max(1, BLOCK // _widest(network))

    @property
    def banks(self) -> list[Bank]:
        """All banks, layer by layer, head by head."""
        return [ask.bank for step in self.steps for ask in step.asks]

    def __call__(self, X: Array) -> Array:
        """Cost O(tokens asked) a query, memory O(BLOCK) a thread beside the result."""
        out = np.empty((len(X), *self.network.shape_out), dtype=self.dtype)  # (B, n', d')

        def run(block: Array) -> Array:
            for step in self.steps:
                block = attended(step, block) if step.asks else plain.apply(step.layer, block, step.weights)
            return block

        return self.blockwise(run, X, out, self.rows)

    def blockwise(self, run: Callable[[Array], Array], X: Array, out: Array, rows: int) -> Array:
        """`run` on blocks of so many sequences, rounded to the deployed dtype, by all processors if there are many."""

        def work(start: int) -> None:
            block = round_to(X[start : start + rows], self.network.dtype).astype(self.dtype)
            out[start : start + rows] = run(block)

        starts, threads = range(0, len(X), rows), min(processors(), len(X) // LEAST_SHARE)
        if threads < 2:
            for start in starts:
                work(start)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, starts))
        return out


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_READY: WeakKeyDictionary[Network, dict[object, Evaluator]] = WeakKeyDictionary()


def evaluator(network: Network, domain: Box, allowance: float = 0.0) -> Evaluator:
    """The evaluator of a network, made when it is first asked for."""
    ready, key = _READY.setdefault(network, {}), (allowance, domain.lo.tobytes(), domain.hi.tobytes())
    if key not in ready:
        ready[key] = Evaluator(network, domain, allowance)
    return ready[key]


def _steps(network: Network, domain: Box, allowance: float, dtype: str) -> Iterator[Step]:
    low, high = (end.reshape(network.shape_in) for end in (domain.lo, domain.hi))
    known = Features(np.ones(network.shape_in, dtype=bool), low, high)
    sample = np.zeros((1, *network.shape_in), dtype=dtype)  # constant features are the same for every input
    for (layer, asking), room in zip(plain.asking_tokens(network), rooms(network, allowance), strict=True):
        weights = {**plain.prepare(layer, dtype), "asking": asking}
        asks = tuple(_asks(layer, weights, asking, known, sample, room)) if isinstance(layer, Attention) else ()
        yield Step(layer, weights, asks)
        sample, known = plain.apply(layer, sample, weights), known.after(layer)


def _asks(
    layer: Attention, weights: dict[str, Array], asking: Integers, known: Features, sample: Array, room: Array
) -> Iterator[Ask]:
    """Banks of all heads, one for all tokens whose constant query features agree."""
    if len(layer.memory) == 0:
        return
    for head in range(layer.heads):
        queries = linear(known, layer.query[head], layer.query_bias[head])
        at = plain.project(sample, weights["query"][head], weights["query_bias"][head])[0]  # (n, k)
        keys, values = (weights[name][head].astype(np.float64) for name in ("keys", "values"))  # (M, k), (M, v)
        varies = queries.varies[asking].any(axis=0)  # (k,)
        constants = np.where(varies, 0.0, at[asking])  # (a, k)
        matters = varies & (layer.attends_data | (np.ptp(keys, axis=0) > 0))
        rows, group = np.unique(constants, axis=0, return_inverse=True)
        for number, row in enumerate(rows):
            members = asking[group.ravel() == number]
            tokens = Tokens(keys[:, matters], keys @ row.astype(np.float64), values)
            ends = queries.low[members].min(axis=0)[matters], queries.high[members].max(axis=0)[matters]
            yield Ask(head, members, np.flatnonzero(matters), recognised(tokens, float(room[head]), *ends))


def attended(step: Step, X: Array) -> Array:
    """An attention layer on a block (b, n, d): banks for memory tokens, data tokens added as they are."""
    layer, weights, asking = step.layer, step.weights, step.weights["asking"]
    assert isinstance(layer, Attention)  # noqa: S101 - only attention has banks
    every = len(asking) == X.shape[1]
    out = np.zeros((*X.shape[:2], layer.width_out), dtype=X.dtype)  # (b, n, o)
    for ask in step.asks:
        members, head = slice(None) if len(ask.asking) == X.shape[1] else ask.asking, ask.head
        q = plain.project(X[:, members], weights["query"][head], weights["query_bias"][head])  # (b, a, k)
        found = ask.bank(ask.queries(q))
        mean = _with_data(found, q, X, weights, head) if layer.attends_data else found.mean.reshape(*q.shape[:2], -1)
        out[:, members] += plain.project(mean.astype(X.dtype, copy=False), weights["output"][head])
    where = slice(None) if every else asking
    if weights["output_bias"].any():
        out[:, where] += weights["output_bias"]
    if layer.residual:
        out[:, where] += X[:, where]
    return out


def _with_data(found: Moments, q: Array, X: Array, weights: dict[str, Array], head: int) -> Array:
    """The average over the memory and the data tokens together, (b, a, v)."""
    memory, data = shares(found, q, plain.project(X, weights["key"][head], weights["key_bias"][head]))
    values = plain.project(X, weights["value"][head], weights["value_bias"][head])  # (b, n, v)
    return found.mean.reshape(*q.shape[:2], -1) * memory[..., None] + np.einsum("ban,bnv->bav", data, values)


def shares(found: Moments, q: Array, keys: Array) -> tuple[Floats, Floats]:
    """Weights of the memory (b, a) and of data tokens (b, a, n) with keys (b, n, k), for queries (b, a, k)."""
    scores = plain.score(q, keys[:, None]).astype(np.float64)  # (b, a, n)
    top, mass = found.top.reshape(scores.shape[:2]), found.mass.reshape(scores.shape[:2])
    peak = np.maximum(top, scores.max(axis=-1))  # (b, a)
    memory, data = mass * np.exp(top - peak), np.exp(scores - peak[..., None])
    whole = memory + data.sum(axis=-1)
    return memory / whole, data / whole[..., None]


def _widest(network: Network) -> int:
    """Numbers that one sequence needs at a time."""
    length, most = network.rows, network.rows * network.width_in
    for layer in network.layers:
        if isinstance(layer, Attention):
            most = max(most, length * (layer.query.shape[2] + layer.attends_data * length))
            if len(layer.memory) == 0:
                most = max(most, length * length)
        length = layer.length_out(length)
        most = max(most, length * layer.width_out)
    return most
