"""A network made ready to run: its banks recognised, its layers applied block by block on all processors.

Networks whose tokens see memory tokens only, or themselves alone beside a few, run as programs (`programs.py`); others
go layer by layer, in the arithmetic of `backends/numpy.py` but for the averages over memory tokens, which are computed
in float64 whatever the network's dtype is. What comes out for one sequence does not depend on the others of its batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ...arithmetic.formats import held_in, round_to
from ...domains.box import Box
from ...network import Attention, FactoredAttention, Network
from ...network.memory_rows import with_memory
from ..backends import numpy as plain
from .banks import Bank, BankAverages, Stream
from .operations import SHORT
from .programs import program
from .query_groups import PreparedLayer, steps_of

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

BLOCK = 2**16
"""Numbers in the largest temporary array."""
LEAST_SHARE = 2**13
"""Sequences that are worth a thread of their own."""


class Evaluator:
    """`evaluator(X)` for sequences (B, n, d) -> (B, n', d'); errors up to `allowance` may be made to save work."""

    def __init__(self, network: Network, domain: Box, allowance: float = 0.0) -> None:
        self.network, self.dtype = with_memory(network), held_in(network.dtype)
        network = self.network
        self.steps = list(steps_of(network, domain, allowance, self.dtype))
        self.stages = program(self.steps, network.shape_in)
        self.rows = max(1, BLOCK // _widest(network))

    @property
    def banks(self) -> list[Bank]:
        """All banks, layer by layer, head by head."""
        return [group.bank for step in self.steps for group in step.query_groups]

    def __call__(self, X: Array) -> Array:
        """Cost O(tokens read) a query, memory O(BLOCK) a thread beside the result."""
        out = np.empty((len(X), *self.network.shape_out), dtype=self.dtype)  # (B, n', d')
        return self.blockwise(self._layers if self.stages is None else self._program, X, out, self.rows)

    def _program(self, block: Floats) -> Array:
        block = block.reshape(len(block), -1)  # (b, n d)
        for stage in self.stages or ():
            block = stage(block)
        return block.reshape(len(block), *self.network.shape_out)

    def _layers(self, block: Floats) -> Array:
        block = block.astype(self.dtype, copy=False)
        for step in self.steps:
            block = attended(step, block) if step.query_groups else plain.apply(step.layer, block, step.weights)
        return block

    def blockwise(self, run: Callable[[Floats], Array], X: Array, out: Array, rows: int) -> Array:
        """`run` on blocks of so many sequences, rounded to the deployed dtype, by all processors if there are many."""

        def work(start: int) -> None:
            block = np.ascontiguousarray(X[start : start + rows], dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):  # points far outside of the domain may overflow
                out[start : start + rows] = run(round_to(block, self.network.dtype))

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
"""Evaluators of networks that are still in use. They have copies, which share the layers: an evaluator that held the
network itself would keep it in use."""


def evaluator(network: Network, domain: Box, allowance: float = 0.0) -> Evaluator:
    """The evaluator of a network, made when it is first needed."""
    ready, key = _READY.setdefault(network, {}), (allowance, domain.lo.tobytes(), domain.hi.tobytes())
    if key not in ready:
        ready[key] = Evaluator(replace(network), domain, allowance)
    return ready[key]


def attended(step: PreparedLayer, X: Array) -> Array:
    """An attention layer on a block (b, n, d): banks for memory tokens, data tokens added as they are."""
    layer, weights, querying = step.layer, step.weights, step.weights["querying"]
    assert isinstance(layer, Attention | FactoredAttention)  # noqa: S101 - only attention has banks
    every = len(querying) == X.shape[1]
    out = np.zeros((*X.shape[:2], layer.width_out), dtype=X.dtype)  # (b, n, o)
    own = all(isinstance(group.bank, Stream) for group in step.query_groups)  # not those of shards
    if own and X.shape[1] == 1 and isinstance(layer, Attention) and layer.attends_data and len(layer.memory) <= SHORT:
        return _of_one_token(layer, weights, X)
    for group in step.query_groups:
        members, head = slice(None) if len(group.querying) == X.shape[1] else group.querying, group.head
        q = plain.project(X[:, members], weights["query"][head], weights["query_bias"][head])  # (b, a, k)
        found = group.bank(group.queries(q))
        mean = _with_data(found, q, X, weights, head) if layer.attends_data else found.mean.reshape(*q.shape[:2], -1)
        out[:, members] += plain.project(mean.astype(X.dtype, copy=False), weights["output"][head])
    where = slice(None) if every else querying
    if weights["output_bias"].any():
        out[:, where] += weights["output_bias"]
    if layer.residual:
        out[:, where] += X[:, where]
    return out


def _of_one_token(layer: Attention, weights: dict[str, Array], X: Array) -> Array:
    """A layer in which one token sees itself and a few memory tokens, all heads at once; (b, 1, d) -> (b, 1, o)."""
    from . import single  # the loops are compiled when they are first used

    parts = ("query", "key", "value")
    projection = np.concatenate([weights[name].transpose(1, 0, 2).reshape(X.shape[2], -1) for name in parts], axis=1)
    bias = np.concatenate([weights[f"{name}_bias"].ravel() for name in parts])  # (P,), beside (d, P)
    out = np.zeros((len(X), layer.width_out), dtype=X.dtype)
    output = weights["output"].reshape(-1, layer.width_out)  # (H v, o)
    keys, values = (np.ascontiguousarray(weights[name]) for name in ("keys", "values"))  # (H, M, k), (H, M, v)
    single.attended(np.ascontiguousarray(X[:, 0]), projection, bias, keys, values, output, weights["output_bias"], out)
    return out[:, None] + X if layer.residual else out[:, None]


def _with_data(found: BankAverages, q: Array, X: Array, weights: dict[str, Array], head: int) -> Array:
    """The average over the memory and the data tokens together, (b, a, v)."""
    memory, data = shares(found, q, plain.project(X, weights["key"][head], weights["key_bias"][head]))
    values = plain.project(X, weights["value"][head], weights["value_bias"][head])  # (b, n, v)
    return found.mean.reshape(*q.shape[:2], -1) * memory[..., None] + np.einsum("ban,bnv->bav", data, values)


def shares(found: BankAverages, q: Array, keys: Array) -> tuple[Floats, Floats]:
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
